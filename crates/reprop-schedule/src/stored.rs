//! Keep everything.

use crate::error::require;
use crate::{Action, Counts, Error, Slot};

/// Keeps something for every step and recomputes as little as what is kept allows.
///
/// [`Stored::new`] keeps every *state*: `n - 1` advances and `n` reverse steps, each with its recording forward:
/// with forward = backward = 1 a makespan of `2n - 1`, the least of all schedules whose slots hold states.
/// [`Stored::tapes`] keeps every step's *saved tensors*, as plain backpropagation does: no advances at all.
///
/// *Time and memory*: constant per action; the iterator holds three numbers. *Not* when memory is short.
///
/// ```
/// use reprop_schedule::{Stored, check};
/// assert_eq!(check(5, &[4], Stored::new(5)?).unwrap().advances, 4);
/// assert_eq!(check(5, &[4], Stored::tapes(5)?).unwrap().advances, 0);
/// # Ok::<(), reprop_schedule::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Stored {
    steps: usize,
    tapes: bool,
    /// Actions given so far.
    done: usize,
}

impl Stored {
    /// Keeps every state in a memory slot: `steps - 1` slots.
    ///
    /// # Errors
    /// [`Error::NoSteps`].
    pub fn new(steps: usize) -> Result<Self, Error> {
        require(steps, steps)?;
        Ok(Self { steps, tapes: false, done: 0 })
    }

    /// Keeps every step's saved tensors in a memory slot: `steps - 1` slots.
    ///
    /// # Errors
    /// [`Error::NoSteps`].
    pub fn tapes(steps: usize) -> Result<Self, Error> {
        require(steps, steps)?;
        Ok(Self { steps, tapes: true, done: 0 })
    }

    /// What the schedule will do.
    pub fn counts(&self) -> Counts {
        let kept = self.steps as u128 - 1;
        Counts {
            steps: self.steps,
            advances: if self.tapes { 0 } else { kept },
            snapshots_written: kept,
            peak_slots: vec![self.steps - 1],
            ..Counts::default()
        }
    }
}

impl Iterator for Stored {
    type Item = Action;

    fn next(&mut self) -> Option<Action> {
        let (last, done) = (self.steps - 1, self.done);
        self.done += 1;
        // The forward half has one action a step (record) or two (save, forward), then comes the last step,
        // then one or two actions for each step below.
        let per_step = if self.tapes { 1 } else { 2 };
        let forward = per_step * last;
        if done < forward {
            let step = done / per_step;
            let slot = Slot::memory(step);
            return Some(match (self.tapes, done % per_step) {
                (true, _) => Action::Record { step, slot },
                (false, 0) => Action::Save { step, slot },
                (false, _) => Action::Forward { from: step, to: step + 1 },
            });
        }
        if done == forward {
            return Some(Action::Reverse { step: last });
        }
        let back = done - forward - 1;
        let step = last.checked_sub(1 + back / per_step)?;
        let slot = Slot::memory(step);
        Some(match (self.tapes, back % per_step) {
            (true, _) => Action::ReverseRecorded { step, slot },
            (false, 0) => Action::Load { step, slot, keep: false },
            (false, _) => Action::Reverse { step },
        })
    }
}
