//! Online: the length is not known until the end is reached.

use std::collections::VecDeque;

use crate::error::require;
use crate::{Action, Error, Revolve, Slot, beta};

/// Online checkpointing: goes forward without knowing how long the chain is, keeps at most `s` snapshots, and
/// turns into Revolve when [`finish`](Online::finish) says that the end is reached.
///
/// *The rule.* Number the snapshots held from 0 (it is `x_0`) and call `g_i` the distance from snapshot `i` to
/// the next one, or to the working state for the last. The sub-chain behind snapshot `i` will be reversed with
/// `s - i` slots, so at most `r - 1` repetitions are needed as long as `g_i <= beta(s - i, r - 1)`. When all slots are
/// full, drop the first snapshot whose removal keeps that bound, the new one included; if there is none, let
/// `r` be one more.
///
/// *Why it is good.* New snapshots are one step apart, so that the gaps fill their bounds exactly from the
/// first to the last, and the chain reaches `beta(s, r)` steps before `r` rises: the repetition number is at
/// each moment the least possible, as with Wang, Moin & Iaccarino (2009). For `r <= 2` every gap costs
/// `g_i - 1` advances, in all `2n - s - 2 = t(n, s)`: optimal at every length up to `beta(s, 2)`, as with
/// Stumm & Walther (2010). Beyond, the overhead against Revolve is small and bounded by one advance per step.
///
/// *Time* `O(s)` per snapshot, constant per other action; *memory* one entry per slot. *Use it* when the
/// length is decided on the way (adaptive steps, streams). *Not* when `n` is known.
///
/// ```
/// use reprop_schedule::{Action, Online, check};
/// let mut online = Online::new(3)?;
/// let mut plan = vec![];
/// // The program walks to x_9 and then learns that the step from there is the last.
/// while online.at() < 9 {
///     plan.extend(online.next());
/// }
/// plan.extend(online.finish());
/// assert_eq!(check(10, &[3], plan).unwrap().advances, 15);
/// # Ok::<(), reprop_schedule::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Online {
    slots: usize,
    /// `(step, slot)` of the snapshots held, steps rising.
    held: Vec<(usize, usize)>,
    at: usize,
    repetitions: usize,
    /// Snapshots before this one cannot be dropped before the repetitions rise.
    settled: usize,
    pending: VecDeque<Action>,
}

impl Online {
    /// A schedule of unknown length with `slots` memory slots.
    ///
    /// # Errors
    /// [`Error::NoSlots`].
    pub fn new(slots: usize) -> Result<Self, Error> {
        require(2, slots)?;
        Ok(Self { slots, held: vec![], at: 0, repetitions: 1, settled: 1, pending: VecDeque::new() })
    }

    /// Where the working state is once the actions given so far are done.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Says that the step from the working state is the last one, and gives the rest of the schedule.
    pub fn finish(mut self) -> impl Iterator<Item = Action> {
        let mut rest: VecDeque<Action> = VecDeque::new();
        // A snapshot of the working state itself serves nothing: its step is reversed at once.
        if let Some(&(step, slot)) = self.held.last().filter(|(step, _)| *step == self.at) {
            if self.pending.iter().any(|action| matches!(action, Action::Save { .. })) {
                self.pending.retain(|action| matches!(action, Action::Free { .. }));
            } else {
                self.pending.retain(|action| !matches!(action, Action::Forward { .. }));
                self.pending.push_back(Action::Free { step, slot: Slot::memory(slot) });
            }
            self.held.pop();
        } else {
            self.pending.clear();
        }
        rest.extend(self.pending);
        rest.into_iter().chain(Revolve::resume(&self.held, self.at + 1, self.slots))
    }

    /// Makes room by the rule, and says which slot is free; `None` if the working state itself is the one not
    /// to keep.
    fn make_room(&mut self) -> Option<usize> {
        let held = self.held.len();
        if held < self.slots {
            return Some(held);
        }
        loop {
            for index in self.settled..=held {
                // Behind the last snapshot comes the working state, and behind that the next one.
                let next = self.held.get(index + 1).map_or(self.at + index / held, |(step, _)| *step);
                let merged = next - self.held[index - 1].0;
                if merged as u128 > beta(self.slots - (index - 1), self.repetitions - 1) {
                    continue;
                }
                self.settled = index;
                if index == held {
                    return None;
                }
                let (step, slot) = self.held.remove(index);
                self.pending.push_back(Action::Free { step, slot: Slot::memory(slot) });
                return Some(slot);
            }
            self.repetitions += 1;
            self.settled = 1;
        }
    }
}

impl Iterator for Online {
    type Item = Action;

    fn next(&mut self) -> Option<Action> {
        if self.pending.is_empty() {
            let from = self.at;
            if let Some(slot) = self.make_room() {
                self.held.push((from, slot));
                self.pending.push_back(Action::Save { step: from, slot: Slot::memory(slot) });
            }
            self.pending.push_back(Action::Forward { from, to: from + 1 });
        }
        let action = self.pending.pop_front()?;
        if let Action::Forward { to, .. } = action {
            self.at = to;
        }
        Some(action)
    }
}
