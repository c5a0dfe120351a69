//! What a chain is made of.

use super::State;

/// The steps `x_{i+1} = f_i(x_i)` of a chain, each with its derivative made explicit: the time steps of a recurrent
/// network or of a solver.
///
/// A step may have an input and a loss of its own, and parameters of its own or shared with others: all that belongs to the
/// implementor, which is asked for a step by its number. Steps are asked for as often as a schedule recomputes
/// them, and **reversed once each, from the last to the first**; gradients of parameters and the loss are added to a sum
/// there, in the same order whatever the schedule, so that sums of floats have the same bits too.
///
/// Two functions may stand for this trait: [`Steps`]. A Burn user gives a module and a function:
/// [`ModuleSteps`](super::ModuleSteps).
///
/// Laws, on which bit-equal gradients rest:
/// - `advance`, `record` and `reverse` are functions of their arguments alone;
/// - `advance` and `record` give the same bits.
///
/// ```
/// use reprop::chain::{Chain, Checkpointed, Recurrence};
/// use reprop_schedule::Revolve;
///
/// /// `x' = a x`, with the loss `x_n` and a gradient for `a`.
/// struct Growth(f64);
///
/// impl Recurrence for Growth {
///     type State = f64;
///     type Adjoint = f64;
///     type Tape = f64;
///     type Sum = f64;
///
///     fn record(&mut self, _: usize, x: f64) -> (f64, f64) {
///         (self.0 * x, x)
///     }
///
///     fn seed(&mut self, _: &f64, _: &mut f64) -> f64 {
///         1.0
///     }
///
///     fn reverse(&mut self, _: usize, x: f64, adjoint: f64, da: &mut f64) -> f64 {
///         *da += adjoint * x;
///         adjoint * self.0
///     }
/// }
///
/// let done = Chain::new(Growth(0.5)).run(16.0, 0.0, Checkpointed::schedule(Revolve::new(4, 2)?))?;
/// assert_eq!((done.last, done.adjoint, done.sum), (1.0, 0.0625, 4.0 * 0.5f64.powi(3) * 16.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Recurrence {
    /// `x_i`.
    type State: State;
    /// The gradient of the loss with respect to `x_i`.
    type Adjoint: State;
    /// What reversing a step needs: its saved tensors.
    type Tape;
    /// What reverse steps add to: gradients of parameters, the loss.
    type Sum: State;

    /// `x_{step+1}`, keeping nothing.
    fn advance(&mut self, step: usize, state: Self::State) -> Self::State {
        self.record(step, state).0
    }

    /// `x_{step+1}`, and what [`Self::reverse`] needs.
    fn record(&mut self, step: usize, state: Self::State) -> (Self::State, Self::Tape);

    /// The gradient with respect to the last state of all, called once when that is reached; a loss of the last state
    /// goes to the sum.
    fn seed(&mut self, last: &Self::State, sum: &mut Self::Sum) -> Self::Adjoint;

    /// From the gradient with respect to `x_{step+1}` that with respect to `x_step`, the step's own loss included;
    /// gradients of parameters and the loss are added to `sum`.
    fn reverse(
        &mut self,
        step: usize,
        tape: Self::Tape,
        adjoint: Self::Adjoint,
        sum: &mut Self::Sum,
    ) -> Self::Adjoint;

    /// What [`Self::record`] and [`Self::reverse`] give one after the other, where nobody needs `x_{step+1}`. Override it
    /// where reversing needs no forward of its own.
    fn reverse_from(
        &mut self,
        step: usize,
        state: Self::State,
        adjoint: Self::Adjoint,
        sum: &mut Self::Sum,
    ) -> Self::Adjoint {
        let tape = self.record(step, state).1;
        self.reverse(step, tape, adjoint, sum)
    }

    /// Whether there is a step of this number. Asked, in order and once each, only where a plan does not know the length;
    /// `x_{step-1}` has been computed then. An implementor that reads inputs from a stream keeps them: a step will be
    /// asked for again.
    fn has_step(&mut self, step: usize) -> bool {
        let _ = step;
        false
    }

    /// Bytes of a tape, for the report.
    fn tape_bytes(&self, tape: &Self::Tape) -> usize {
        let _ = tape;
        0
    }
}

impl<R: Recurrence + ?Sized> Recurrence for &mut R {
    type State = R::State;
    type Adjoint = R::Adjoint;
    type Tape = R::Tape;
    type Sum = R::Sum;

    fn advance(&mut self, step: usize, state: Self::State) -> Self::State {
        (**self).advance(step, state)
    }

    fn record(&mut self, step: usize, state: Self::State) -> (Self::State, Self::Tape) {
        (**self).record(step, state)
    }

    fn seed(&mut self, last: &Self::State, sum: &mut Self::Sum) -> Self::Adjoint {
        (**self).seed(last, sum)
    }

    fn reverse(
        &mut self,
        step: usize,
        tape: Self::Tape,
        adjoint: Self::Adjoint,
        sum: &mut Self::Sum,
    ) -> Self::Adjoint {
        (**self).reverse(step, tape, adjoint, sum)
    }

    fn reverse_from(
        &mut self,
        step: usize,
        state: Self::State,
        adjoint: Self::Adjoint,
        sum: &mut Self::Sum,
    ) -> Self::Adjoint {
        (**self).reverse_from(step, state, adjoint, sum)
    }

    fn has_step(&mut self, step: usize) -> bool {
        (**self).has_step(step)
    }

    fn tape_bytes(&self, tape: &Self::Tape) -> usize {
        (**self).tape_bytes(tape)
    }
}

/// A chain from three functions: a step, its derivative from the step's *input*, and the gradient of the last state.
/// What solvers with adjoint code have.
///
/// ```
/// use reprop::chain::{Chain, Checkpointed, Steps};
/// use reprop_schedule::Revolve;
///
/// // x' = x + h x^2, and the derivative of x_n by x_0.
/// let steps = Steps::new(
///     |_, x: f64| x + 0.01 * x * x,
///     |_, x: f64, adjoint: f64, (): &mut ()| adjoint * (1.0 + 0.02 * x),
///     |_: &f64, (): &mut ()| 1.0,
/// );
/// let done = Chain::new(steps).run(1.0, (), Checkpointed::schedule(Revolve::new(50, 5)?))?;
/// assert!((done.adjoint - 3.8575).abs() < 1e-4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Steps<S, A, T, Forward, Backward, End> {
    advance: Forward,
    reverse: Backward,
    seed: End,
    kinds: std::marker::PhantomData<fn(S, A, T)>,
}

impl<S, A, T, Forward, Backward, End> Steps<S, A, T, Forward, Backward, End>
where
    Forward: FnMut(usize, S) -> S,
    Backward: FnMut(usize, S, A, &mut T) -> A,
    End: FnMut(&S, &mut T) -> A,
{
    /// A chain of `advance(step, x) -> x'`, `reverse(step, x, adjoint of x', sum) -> adjoint of x` and
    /// `seed(x_n, sum) -> adjoint of x_n`.
    pub fn new(advance: Forward, reverse: Backward, seed: End) -> Self {
        Self { advance, reverse, seed, kinds: std::marker::PhantomData }
    }
}

impl<S: State, A: State, T: State, Forward, Backward, End> Recurrence
    for Steps<S, A, T, Forward, Backward, End>
where
    Forward: FnMut(usize, S) -> S,
    Backward: FnMut(usize, S, A, &mut T) -> A,
    End: FnMut(&S, &mut T) -> A,
{
    type State = S;
    type Adjoint = A;
    type Tape = S;
    type Sum = T;

    fn advance(&mut self, step: usize, state: S) -> S {
        (self.advance)(step, state)
    }

    fn record(&mut self, step: usize, state: S) -> (S, S) {
        ((self.advance)(step, state.clone()), state)
    }

    fn seed(&mut self, last: &S, sum: &mut T) -> A {
        (self.seed)(last, sum)
    }

    fn reverse(&mut self, step: usize, tape: S, adjoint: A, sum: &mut T) -> A {
        (self.reverse)(step, tape, adjoint, sum)
    }

    fn reverse_from(&mut self, step: usize, state: S, adjoint: A, sum: &mut T) -> A {
        (self.reverse)(step, state, adjoint, sum)
    }

    fn tape_bytes(&self, tape: &S) -> usize {
        tape.bytes()
    }
}
