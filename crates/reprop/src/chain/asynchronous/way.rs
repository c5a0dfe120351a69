//! The way forward over intervals, the turn, and the way back.

use reprop_schedule::{Action, Revolve, Slot};

use super::interval::stop_here;
use super::{Async, Border, Inside, Stage};
use crate::chain::Result;
use crate::chain::planner::{Endless, Move, View};

impl Async {
    /// At the first state of an interval: how far to go, and whether to write it.
    pub(super) fn start(&mut self, view: &View<'_>) {
        let costs = view.measured.or(self.known).costs();
        let left = self.steps.map(|steps| steps - self.at);
        let most = left.map_or(usize::MAX, |left| left - 1);
        let length = costs.as_ref().map(|costs| self.interval(costs).min(most));
        let stop = match (left, length, &costs) {
            (Some(left), Some(length), Some(costs)) => stop_here(left, length, self.slots, costs),
            (left, ..) => left == Some(1),
        };
        if stop {
            self.stage = Stage::Turn(left);
            return;
        }
        // Whoever is in the slot that the ring comes to has to be on disk first.
        let place = self.borders.len();
        if place >= self.slots && !self.out_of_memory(place - self.slots..=place - self.slots) {
            return;
        }
        let (memory, step) = (place % self.slots, self.at);
        let (slot, to) = (Slot::memory(memory), Slot::disk(place));
        self.push(Action::Save { step, slot });
        self.push(Action::Copy { step, from: slot, to, keep: true });
        self.pending.push_back(Move::Point { front: None, plan: (self.seen as u64).to_le_bytes().to_vec() });
        self.borders.push(Border { step, memory: Some(memory), waited: false });
        self.lengths.extend(length);
        self.stage = Stage::Forward(length.map(|length| step + length));
    }

    /// Whether these borders have left memory. If not it makes them: first they are waited for, so that a failure is known
    /// before anything is lost.
    fn out_of_memory(&mut self, places: impl Iterator<Item = usize> + Clone) -> bool {
        let mut all = true;
        for place in places.clone() {
            let border = &mut self.borders[place];
            if border.memory.is_some() && !std::mem::replace(&mut border.waited, true) {
                all = false;
                let step = border.step;
                self.push(Action::Wait { step, slot: Slot::disk(place) });
            }
        }
        if all {
            for place in places {
                let Border { step, memory, .. } = &mut self.borders[place];
                let (step, memory) = (*step, memory.take());
                if let Some(memory) = memory {
                    self.push(Action::Free { step, slot: Slot::memory(memory) });
                }
            }
        }
        all
    }

    /// One stride inside an interval.
    pub(super) fn forward(&mut self, end: Option<usize>, view: &mut View<'_>) {
        let first = self.borders.last().map_or(0, |border| border.step);
        let arrived = match end {
            Some(end) => self.at >= end,
            // Without a measured time the interval ends when its first state is written.
            None => self.at > first && view.measured.or(self.known).costs().is_some(),
        };
        if arrived {
            if end.is_none() {
                self.lengths.push(self.at - first);
            }
            self.stage = Stage::Start;
            return;
        }
        if !self.exists(self.at + 1, view) {
            return self.turn_around();
        }
        let to = match (self.steps, end) {
            (Some(steps), Some(end)) => end.min(steps - 1),
            // Somebody has to be asked after each step: the chain whether it goes on, or the clock.
            _ => self.at + 1,
        };
        self.push(Action::Forward { from: self.at, to });
        self.at = to;
    }

    /// The step from the working state is the last one. The interval is gone through again from its first state.
    fn turn_around(&mut self) {
        let end = self.at + 1;
        if let Some(Border { step, memory, .. }) = self.borders.pop() {
            let disk = Slot::disk(self.borders.len());
            if let Some(memory) = memory {
                self.push(Action::Load { step, slot: Slot::memory(memory), keep: false });
                self.push(Action::Free { step, slot: disk });
            } else {
                self.push(Action::Load { step, slot: disk, keep: false });
            }
            self.at = step;
        }
        self.stage = Stage::Turn(Some(end - self.at));
    }

    /// Reverses what is above the working state with all slots but the one that the next fetch needs.
    pub(super) fn turn(&mut self, length: Option<usize>) -> Result<()> {
        if !self.out_of_memory(self.borders.len().saturating_sub(self.slots)..self.borders.len()) {
            return Ok(());
        }
        let at = self.at;
        let Some(length) = length else {
            self.stage = Stage::Back { front: at, fetched: None };
            self.inside = Inside::Endless(Box::new(Endless::new(at, self.seen, self.slots)?));
            return Ok(());
        };
        let fetch = self.borders.last().map(|border| border.step).filter(|_| self.slots > 1);
        let own = self.slots - usize::from(fetch.is_some());
        // Revolve uses a slot a step at most, and the lowest ones.
        let fetched = fetch.map(|step| {
            let (from, index) = (Slot::disk(self.borders.len() - 1), own.min(length));
            self.push(Action::Copy { step, from, to: Slot::memory(index), keep: false });
            index
        });
        self.stage = Stage::Back { front: at, fetched };
        self.inside = Inside::Revolve(at, Box::new(Revolve::new(length, own)?));
        Ok(())
    }

    /// Takes the next interval up.
    pub(super) fn back(&mut self, front: usize, fetched: Option<usize>) {
        let Some(Border { step, .. }) = self.borders.pop() else {
            self.stage = Stage::Done;
            return;
        };
        let plan = (self.seen as u64).to_le_bytes().to_vec();
        self.pending.push_back(Move::Point { front: Some(front), plan });
        let slot = fetched.map_or(Slot::disk(self.borders.len()), Slot::memory);
        self.push(Action::Load { step, slot, keep: false });
        self.at = step;
        self.stage = Stage::Turn(Some(front - step));
    }

    /// A write found no room: goes back to the first snapshot that is not on disk, and on from there in memory.
    pub(super) fn go_on_in_memory(&mut self, place: usize) {
        let lost = self.borders.split_off(place);
        for (later, &Border { step, memory, .. }) in lost.iter().enumerate().rev() {
            if let Some(slot) = memory.map(Slot::memory) {
                self.push(match later {
                    0 => Action::Load { step, slot, keep: false },
                    _ => Action::Free { step, slot },
                });
            }
            self.push(Action::Free { step, slot: Slot::disk(place + later) });
            self.at = step;
        }
        self.stage = Stage::Turn(self.steps.map(|steps| steps - self.at));
    }
}
