//! Mixed: a slot holds a state or a step's saved tensors.

use crate::error::{require, require_cells};
use crate::h_revolve::MOST_OPERATIONS;
use crate::least::{Backwards, least_sum};
use crate::pool::Pool;
use crate::{Action, Counts, Error, Slot};

/// Mixed checkpointing (Maddison 2024): each slot holds either a state, from which steps are recomputed, or
/// the saved tensors of one step, which is then reversed without running it again.
///
/// Forward evaluations: `m(n, s) = n` for `n <= s + 1`, `n(n+1)/2 - 1` for `s = 1`, and else
/// `min(1 + m(n-1, s-1), min_i i + m(i, s) + m(n-i, s-1))` (theorem 1).
///
/// *Time* `O(s n^2)` to plan, constant per action; *memory* `O(s n)`. *Use it* where the saved tensors of a
/// step are no larger than a state. *Not* for networks whose saved tensors are many times a state:
/// [`Revolve`](crate::Revolve), or [`Chain`](crate::Chain) when sizes are known.
///
/// ```
/// use reprop_schedule::Mixed;
/// assert_eq!(Mixed::new(10, 3)?.counts().forward_evaluations(), 19);
/// assert_eq!(Mixed::new(100, 10)?.counts().forward_evaluations(), 237);
/// # Ok::<(), reprop_schedule::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Mixed {
    steps: usize,
    slots: usize,
    evaluations: f64,
    /// The advance from a saved state, or 0 to record the step, at `(free - 1) * (steps + 1) + len`.
    choices: Vec<u32>,
    kept: Vec<Kept>,
    pool: Pool,
    at: Option<usize>,
    front: usize,
    /// How far to advance from the state just saved.
    advance: usize,
}

#[derive(Debug, Clone, Copy)]
enum Kept {
    State(usize, usize),
    Tape(usize, usize),
}

impl Mixed {
    /// A schedule for `steps` steps with `slots` memory slots.
    ///
    /// # Errors
    /// [`Error::NoSteps`], [`Error::NoSlots`], [`Error::TooLarge`].
    pub fn new(steps: usize, slots: usize) -> Result<Self, Error> {
        require(steps, slots)?;
        let slots = slots.min(steps - 1);
        let (evaluations, choices) =
            if slots + 1 >= steps { (steps as f64, vec![]) } else { tables(steps, slots)? };
        let (kept, pool) = (vec![], Pool::default());
        Ok(Self { steps, slots, evaluations, choices, kept, pool, at: Some(0), front: steps, advance: 0 })
    }

    /// Advances and slots by the dynamic programme; transfers are not known before the schedule has run.
    pub fn counts(&self) -> Counts {
        Counts {
            steps: self.steps,
            advances: self.evaluations as u128 - self.steps as u128,
            peak_slots: vec![self.slots],
            ..Counts::default()
        }
    }

    fn choice(&self, len: usize) -> usize {
        let free = self.slots - self.kept.len();
        if len <= free + 1 { 0 } else { self.choices[(free - 1) * (self.steps + 1) + len] as usize }
    }

    /// Goes back to what was kept last.
    fn back(&mut self) -> Option<Action> {
        match self.kept.pop()? {
            Kept::Tape(step, index) => {
                self.pool.release(index);
                self.front = step;
                Some(Action::ReverseRecorded { step, slot: Slot::memory(index) })
            }
            Kept::State(step, index) => {
                self.pool.release(index);
                self.at = Some(step);
                Some(Action::Load { step, slot: Slot::memory(index), keep: false })
            }
        }
    }
}

impl Iterator for Mixed {
    type Item = Action;

    fn next(&mut self) -> Option<Action> {
        let Some(at) = self.at else { return self.back() };
        if self.advance > 0 {
            let to = at + std::mem::take(&mut self.advance);
            self.at = Some(to);
            return Some(Action::Forward { from: at, to });
        }
        if at + 1 == self.front {
            self.front = at;
            self.at = None;
            return Some(Action::Reverse { step: at });
        }
        self.advance = self.choice(self.front - at);
        let index = self.pool.take();
        let slot = Slot::memory(index);
        if self.advance > 0 {
            self.kept.push(Kept::State(at, index));
            return Some(Action::Save { step: at, slot });
        }
        self.kept.push(Kept::Tape(at, index));
        self.at = Some(at + 1);
        Some(Action::Record { step: at, slot })
    }
}

/// `m(steps, slots)` and the choices that reach it. Counts are exact in `f64` below `2^53`.
fn tables(steps: usize, slots: usize) -> Result<(f64, Vec<u32>), Error> {
    let operations = slots as u128 * (steps as u128).pow(2);
    require_cells("mixed", steps, operations, MOST_OPERATIONS)?;
    let mut choices = vec![0; slots * (steps + 1)];
    // m(n, 0): only a single step can be reversed without a slot.
    let mut fewer = vec![f64::INFINITY; steps + 1];
    fewer[1] = 1.0;
    for row in choices.chunks_exact_mut(steps + 1) {
        let behind = Backwards::of(&fewer);
        let mut value = vec![f64::INFINITY; steps + 1];
        let mut ahead = value.clone();
        value[1] = 1.0;
        ahead[1] = 2.0;
        for len in 2..=steps {
            value[len] = 1.0 + fewer[len - 1];
            if let Some((sum, index)) = least_sum(&ahead[1..len], behind.below(len))
                // Of equals, keep the state: it is smaller than saved tensors, as a rule.
                && sum <= value[len]
            {
                value[len] = sum;
                row[len] = index as u32 + 1;
            }
            ahead[len] = value[len] + len as f64;
        }
        fewer = value;
    }
    Ok((fewer[steps], choices))
}
