//! Asynchronous plans of any length, from a formula and in constant memory.

use std::collections::VecDeque;

use crate::{Action, Costs, Revolve, Slot, advances};

/// The longest interval that is considered.
const LONGEST: usize = 200_000;

/// Equal intervals, the first state of each but the last on disk: the plan of
/// [`intervals`](super::intervals::intervals), given one action at a time.
///
/// The interval `p` is the one with the least time per step, stalls included:
/// `max(p f, w) + max(f t(p, s-1) + b p, r)` over `p` with a slot set aside for the next fetch, or
/// `max(p f, w) + f t(p, s) + b p + r` with none. For `f = 1` and reads that hide, with `i` repetitions and `s`
/// slots inside the interval, the time per step below `w` is `b + i + (w - C(s + i, s + 1)) / p`: it falls
/// in `p` as long as `C(s + i, s + 1) <= w`. That is the stall-aware interval `min(ceil(w), C(s + i, s))`
/// with the largest such `i`.
#[derive(Debug, Clone)]
pub(super) struct Stream {
    steps: usize,
    interval: usize,
    slots: usize,
    /// Slots of Revolve inside an interval; one less than `slots` where the next fetch has its own.
    own: usize,
    /// Intervals written so far, on the way forward.
    written: usize,
    /// Intervals still to be reversed; `None` on the way forward.
    left: Option<usize>,
    inside: Option<Revolve>,
    pending: VecDeque<Action>,
}

impl Stream {
    pub(super) fn new(steps: usize, slots: usize, costs: &Costs) -> Self {
        let slots = slots.min(steps);
        let disk = costs.tier(1);
        let reverse =
            |p: usize, own: usize| costs.forward * advances(p, own) as f64 + costs.backward * p as f64;
        let sweep = |p: usize| (p as f64 * costs.forward).max(disk.write);
        let alone = (reverse(steps, slots) / steps as f64, steps, slots);
        let (_, interval, own) = (1..=LONGEST.min(steps))
            .flat_map(|p| {
                let set_aside =
                    (slots > 1).then(|| (sweep(p) + reverse(p, slots - 1).max(disk.read), slots - 1));
                let none = (sweep(p) + reverse(p, slots) + disk.read, slots);
                set_aside.into_iter().chain([none]).map(move |(time, own)| (time / p as f64, p, own))
            })
            .fold(alone, |best, found| if found.0 < best.0 { found } else { best });
        let (inside, pending) = (None, VecDeque::new());
        Self { steps, interval, slots, own, written: 0, left: None, inside, pending }
    }

    fn fetch(&self, interval: usize) -> Action {
        let to = Slot::memory(self.slots - 1);
        Action::Copy { step: interval * self.interval, from: Slot::disk(interval), to, keep: false }
    }

    /// Queues the next interval's actions; false when nothing is left.
    fn go_on(&mut self) -> bool {
        let last = (self.steps - 1) / self.interval;
        let early = self.own < self.slots;
        let Some(left) = self.left else {
            let step = self.written * self.interval;
            if self.written == last {
                self.inside = Some(Revolve::over(step, self.steps, self.own));
                self.left = Some(last);
                if early && last > 0 {
                    self.pending.push_back(self.fetch(last - 1));
                }
                return true;
            }
            let slot = Slot::memory(self.written % self.slots);
            self.pending.push_back(Action::Save { step, slot });
            let to = Slot::disk(self.written);
            self.pending.push_back(Action::Copy { step, from: slot, to, keep: false });
            self.pending.push_back(Action::Forward { from: step, to: step + self.interval });
            self.written += 1;
            return true;
        };
        let Some(current) = left.checked_sub(1) else { return false };
        let step = current * self.interval;
        if !early {
            self.pending.push_back(self.fetch(current));
        }
        self.pending.push_back(Action::Load { step, slot: Slot::memory(self.slots - 1), keep: false });
        if early && current > 0 {
            self.pending.push_back(self.fetch(current - 1));
        }
        self.inside = Some(Revolve::over(step, step + self.interval, self.own));
        self.left = Some(current);
        true
    }
}

impl Iterator for Stream {
    type Item = Action;

    fn next(&mut self) -> Option<Action> {
        loop {
            if let Some(action) = self.pending.pop_front() {
                return Some(action);
            }
            if let Some(action) = self.inside.as_mut().and_then(Iterator::next) {
                return Some(action);
            }
            self.inside = None;
            if !self.go_on() {
                return None;
            }
        }
    }
}
