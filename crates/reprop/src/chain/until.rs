//! Chains that end where their inputs do.

use super::Recurrence;

/// A recurrence whose end is decided on the way: `more(step)` says whether there is a step of this number. It is asked in
/// order and once each, with `x_{step-1}` computed.
///
/// ```
/// use reprop::chain::{Chain, Checkpointed, Steps, Until};
///
/// // Inputs come one by one and are kept, since steps are run again.
/// let mut stream = [0.1f64, 0.2, 0.3, 0.4].into_iter();
/// let inputs = std::cell::RefCell::new(vec![stream.next().unwrap()]);
/// let steps = Steps::new(
///     |step, x: f64| x * inputs.borrow()[step],
///     |step, _: f64, adjoint: f64, (): &mut ()| adjoint * inputs.borrow()[step],
///     |_: &f64, (): &mut ()| 1.0,
/// );
/// let steps = Until::new(steps, |_| {
///     let next = stream.next();
///     inputs.borrow_mut().extend(next);
///     next.is_some()
/// });
/// let done = Chain::new(steps).run(2.0, (), Checkpointed::online(2)?)?;
/// assert_eq!((done.report.steps, done.last), (4, 2.0 * 0.1 * 0.2 * 0.3 * 0.4));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Until<R, F> {
    recurrence: R,
    more: F,
}

impl<R: Recurrence, F: FnMut(usize) -> bool> Until<R, F> {
    /// `recurrence`, which has the steps that `more` says.
    pub fn new(recurrence: R, more: F) -> Self {
        Self { recurrence, more }
    }
}

impl<R: Recurrence, F: FnMut(usize) -> bool> Recurrence for Until<R, F> {
    type State = R::State;
    type Adjoint = R::Adjoint;
    type Tape = R::Tape;
    type Sum = R::Sum;

    fn advance(&mut self, step: usize, state: Self::State) -> Self::State {
        self.recurrence.advance(step, state)
    }

    fn record(&mut self, step: usize, state: Self::State) -> (Self::State, Self::Tape) {
        self.recurrence.record(step, state)
    }

    fn seed(&mut self, last: &Self::State, sum: &mut Self::Sum) -> Self::Adjoint {
        self.recurrence.seed(last, sum)
    }

    fn reverse(
        &mut self,
        step: usize,
        tape: Self::Tape,
        adjoint: Self::Adjoint,
        sum: &mut Self::Sum,
    ) -> Self::Adjoint {
        self.recurrence.reverse(step, tape, adjoint, sum)
    }

    fn reverse_from(
        &mut self,
        step: usize,
        state: Self::State,
        adjoint: Self::Adjoint,
        sum: &mut Self::Sum,
    ) -> Self::Adjoint {
        self.recurrence.reverse_from(step, state, adjoint, sum)
    }

    fn has_step(&mut self, step: usize) -> bool {
        (self.more)(step)
    }

    fn tape_bytes(&self, tape: &Self::Tape) -> usize {
        self.recurrence.tape_bytes(tape)
    }
}
