//! Online: the length is not known until the end is reached.

use std::cmp::Ordering;
use std::collections::VecDeque;

use crate::error::require;
use crate::{Action, Error, Revolve, Slot, beta};

/// Online checkpointing: goes forward without knowing how long the chain is, keeps at most `s` snapshots, and
/// turns into Revolve when [`finish`](Online::finish) says that the end is reached.
///
/// *The rule.* Number the snapshots held from 0 (it is `x_0`) and call `g_i` the distance from snapshot `i` to
/// the next one, or to the working state for the last. The sub-chain behind snapshot `i` will be reversed with
/// `s - i` slots: at the cost of `t(g_i, s - i)` advances, and with at most `r - 1` repetitions as long as
/// `g_i <= beta(s - i, r - 1)`. When all slots are full, drop the snapshot, the new one included, that leaves
/// the least cost of all whose removal keeps that bound; if there is none, let `r` be one more. Of equals, drop
/// the first.
///
/// *Why it is good.* For `r <= 2` every gap costs `g_i - 1` advances, in all `2n - s - 2 = t(n, s)`, whichever is
/// dropped; dropping the first fills the gaps to their bounds one after the other, so that the chain reaches
/// `beta(s, 2)` steps: optimal at every length up to there, as with Stumm & Walther (2010). Beyond, the
/// bound keeps the repetitions in hand as with Wang, Moin & Iaccarino (2009), and the cost is measured: for
/// all lengths to 200 and slots to 20 forward evaluations are 0.4 % above Revolve's on average and 10 % at
/// most.
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
    reach: Reach,
    pending: VecDeque<Action>,
}

impl Online {
    /// A schedule of unknown length with `slots` memory slots.
    ///
    /// # Errors
    /// [`Error::NoSlots`].
    pub fn new(slots: usize) -> Result<Self, Error> {
        require(2, slots)?;
        Ok(Self { slots, held: vec![], at: 0, reach: Reach::default(), pending: VecDeque::new() })
    }

    /// Where the working state is once the actions given so far are done.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Says that the step from the working state is the last one, and gives the rest of the schedule.
    pub fn finish(mut self) -> impl Iterator<Item = Action> {
        // A snapshot of the working state itself serves nothing: its step is reversed at once.
        let here = self.held.pop_if(|(step, _)| *step == self.at);
        let saved = !self.pending.iter().any(|action| matches!(action, Action::Save { .. }));
        self.pending.retain(|action| matches!(action, Action::Free { .. }));
        if let Some((step, slot)) = here.filter(|_| saved) {
            self.pending.push_back(Action::Free { step, slot: Slot::memory(slot) });
        }
        self.pending.into_iter().chain(Revolve::resume(&self.held, self.at + 1, self.slots))
    }

    /// Makes room by the rule, and says which slot is free; `None` if the working state itself is the one not
    /// to keep.
    fn make_room(&mut self) -> Option<usize> {
        let held = self.held.len();
        if held < self.slots {
            return Some(held);
        }
        if held == 1 {
            return None;
        }
        self.reach.cover(held);
        let index = loop {
            if let Some(index) = self.cheapest() {
                break index;
            }
            self.reach.grow();
        };
        if index == held {
            return None;
        }
        let (step, slot) = self.held.remove(index);
        self.pending.push_back(Action::Free { step, slot: Slot::memory(slot) });
        Some(slot)
    }

    /// Which snapshot to drop, `held.len()` standing for the new one.
    fn cheapest(&self) -> Option<usize> {
        let held = self.held.len();
        let bound = |place: usize| self.reach.bound(self.slots - place);
        let place = |index: usize| match index.cmp(&held) {
            Ordering::Less => self.held[index].0,
            Ordering::Equal => self.at,
            Ordering::Greater => self.at + 1,
        };
        let gap = |index: usize| place(index + 1) - place(index);
        // What the gaps before `index` cost.
        let mut before = vec![0; held + 1];
        for index in 0..held {
            before[index + 1] = before[index] + self.reach.advances(gap(index), self.slots - index);
        }
        // From the last to the first: what the gaps behind `index` cost and whether they keep their bounds,
        // each with one slot more, as they will have it once `index` is gone.
        let mut behind = 0;
        let mut best = None;
        for index in (1..=held).rev() {
            let merged = gap(index - 1) + gap(index);
            if merged <= bound(index - 1) {
                let cost = before[index - 1] + self.reach.advances(merged, self.slots - (index - 1)) + behind;
                if best.is_none_or(|(least, _)| cost <= least) {
                    best = Some((cost, index));
                }
            }
            if gap(index) > bound(index - 1) {
                break;
            }
            behind += self.reach.advances(gap(index), self.slots - (index - 1));
        }
        best.map(|(_, index)| index)
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

/// `beta` for all slots and for repetitions up to `r - 1`, so that `t(g, s)` is a short search and not a
/// computation: the rule asks for it many times a step.
#[derive(Debug, Clone, Default)]
struct Reach {
    /// `rows[s][r]`, one row more than there are slots.
    rows: Vec<Vec<usize>>,
}

impl Reach {
    /// Makes the rows when they are first needed: a generous number of slots may never be filled.
    fn cover(&mut self, slots: usize) {
        if self.rows.is_empty() {
            self.rows = vec![vec![1]; slots + 2];
        }
    }

    /// Lets `r` be one more.
    fn grow(&mut self) {
        for (slots, row) in self.rows.iter_mut().enumerate() {
            row.push(usize::try_from(beta(slots, row.len())).unwrap_or(usize::MAX));
        }
    }

    /// `beta(slots, r - 1)`.
    fn bound(&self, slots: usize) -> usize {
        self.rows[slots].last().copied().unwrap_or(1)
    }

    /// `t(steps, slots) = r steps - beta(slots + 1, r - 1)` for `steps` within the bound.
    fn advances(&self, steps: usize, slots: usize) -> u128 {
        match self.rows[slots].partition_point(|&reach| reach < steps) {
            0 => 0,
            r => r as u128 * steps as u128 - self.rows[slots + 1][r - 1] as u128,
        }
    }
}
