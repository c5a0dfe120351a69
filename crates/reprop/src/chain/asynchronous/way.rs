//! The way forward over intervals, the turn, and the way back.

use reprop_schedule::{Action, Revolve, Slot};

use super::borders::Border;
use super::interval::{Rates, sets_aside, stay_in_memory, stop_here};
use super::measuring::Measuring;
use super::{Async, Inside, Stage};
use crate::chain::Result;
use crate::chain::planner::{Endless, Move, View};

/// Steps between two looks at the clocks inside an interval, at least.
const LEAST_STRIDE: usize = 16;

impl Async {
    /// At the first state of an interval: how far to go, and whether to write it.
    pub(super) fn start(&mut self, view: &View<'_>) -> Result<()> {
        let rates = Rates::of(&view.measured.or(self.known));
        if let (Some(steps), None, true) = (self.steps, &rates, self.borders.is_empty()) {
            self.measuring = Some(Measuring::new(steps, self.slots)?);
            self.stage = Stage::Measure;
            return Ok(());
        }
        let left = self.steps.map(|steps| steps - self.at);
        let most = left.map_or(usize::MAX, |left| left - 1);
        let length = rates.as_ref().map(|rates| self.interval(rates).min(most));
        let stop = match (left, length, &rates) {
            (Some(left), Some(length), Some(rates)) if self.borders.is_empty() => {
                stay_in_memory(left, length, self.slots, rates)
            }
            (Some(left), Some(length), Some(rates)) => stop_here(left, length, self.slots, rates),
            (left, ..) => left == Some(1),
        };
        if stop {
            self.stage = Stage::Turn(left);
            return Ok(());
        }
        // Whoever is in the slot that the ring comes to has to be on disk first.
        let place = self.borders.len();
        if place >= self.slots && !self.out_of_memory(place - self.slots..=place - self.slots) {
            return Ok(());
        }
        let step = self.at;
        self.push(Action::Save { step, slot: Slot::memory(place % self.slots) });
        self.write_border(step, place % self.slots);
        self.offer_point(None);
        self.stage = Stage::Forward(length.map(|length| step + length));
        Ok(())
    }

    /// The next border: a state in a memory slot, on its way to the store from here on.
    pub(super) fn write_border(&mut self, step: usize, memory: usize) {
        let to = Slot::disk(self.borders.len());
        self.push(Action::Copy { step, from: Slot::memory(memory), to, keep: true });
        self.borders.push(step, memory);
    }

    /// A killed run may go on from here.
    pub(super) fn offer_point(&mut self, front: Option<usize>) {
        self.pending.push_back(Move::Point { front, plan: (self.seen as u64).to_le_bytes().to_vec() });
    }

    /// Whether these borders have left memory. If not it makes them: first they are waited for, so that a failure is known
    /// before anything is lost.
    fn out_of_memory(&mut self, places: impl Iterator<Item = usize> + Clone) -> bool {
        let mut all = true;
        for place in places.clone() {
            all &= self.is_written(place);
        }
        if all {
            for place in places {
                let step = self.borders.get(place).step;
                if let Some(memory) = self.borders.leave_memory(place) {
                    self.push(Action::Free { step, slot: Slot::memory(memory) });
                }
            }
        }
        all
    }

    /// Whether a border's write has been waited for. If not it will be.
    fn is_written(&mut self, place: usize) -> bool {
        let Border { step, memory } = self.borders.get(place);
        if memory.is_none() || self.borders.wait_for(place) {
            return true;
        }
        self.push(Action::Wait { step, slot: Slot::disk(place) });
        false
    }

    /// One stride inside an interval.
    pub(super) fn forward(&mut self, end: Option<usize>, view: &mut View<'_>) {
        let first = self.borders.last().map_or(0, |border| border.step);
        let rates = Rates::of(&view.measured.or(self.known));
        let arrived = match (end, &rates) {
            // What was measured meanwhile may say that it is long enough.
            (Some(end), Some(rates)) => {
                self.at >= end || self.at > first && self.at - first >= self.interval(rates)
            }
            (Some(end), None) => self.at >= end,
            // Without a measured time the interval ends when its first state is written.
            (None, rates) => self.at > first && rates.is_some(),
        };
        if arrived {
            self.stage = Stage::Start;
            return;
        }
        if !self.exists(self.at + 1, view) {
            return self.turn_around();
        }
        let to = match (self.steps, end) {
            (Some(steps), Some(end)) => {
                let stride = ((end - first) / 8).max(LEAST_STRIDE);
                end.min(steps - 1).min(self.at + stride)
            }
            // Somebody has to be asked after each step: the chain whether it goes on, or the clock.
            _ => self.at + 1,
        };
        self.push(Action::Forward { from: self.at, to });
        self.at = to;
    }

    /// The step from the working state is the last one. The interval is gone through again from its first state.
    fn turn_around(&mut self) {
        let end = self.at + 1;
        if let Some(Border { step, memory }) = self.borders.pop() {
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

    /// Reverses what is above the working state. The snapshot below is fetched meanwhile: at once, to a slot set aside for it,
    /// or late, to the first that is not needed any more. The last one written is still in its slot when the way back begins,
    /// and may stay there.
    pub(super) fn turn(&mut self, length: Option<usize>, view: &View<'_>) -> Result<()> {
        let below = self.borders.last();
        let rates = Rates::of(&view.measured.or(self.known));
        let aside = below.is_some()
            && match (length, &rates) {
                (Some(length), Some(rates)) => {
                    let there = below.is_some_and(|border| border.memory.is_some());
                    sets_aside(length, self.slots, there, rates)
                }
                (Some(_), None) => self.slots > 1,
                (None, _) => false,
            };
        let (last, first) = (self.borders.len(), self.borders.len().saturating_sub(self.slots));
        if !self.out_of_memory(first..last - usize::from(aside)) || (aside && !self.is_written(last - 1)) {
            return Ok(());
        }
        let at = self.at;
        let Some(length) = length else {
            self.stage = Stage::Back { front: at, fetched: None };
            self.inside = Inside::Endless(Box::new(Endless::new(at, self.seen, self.slots)?));
            return Ok(());
        };
        let (own, place) = (self.slots - usize::from(aside), last.saturating_sub(1));
        let fetch = self.borders.last().map(|Border { step, memory }| {
            // Revolve uses a slot a step at most, and the lowest ones.
            let index = memory.unwrap_or((self.slots - 1).min(length));
            let (from, to) = (Slot::disk(place), Slot::memory(index));
            (memory.is_none(), Action::Copy { step, from, to, keep: false }, index)
        });
        let fetched = fetch.map(|(.., index)| index).filter(|_| self.slots > 1);
        let mut late = None;
        match fetch {
            Some((true, fetch, _)) if aside => self.push(fetch),
            Some((true, fetch, _)) if self.slots > 1 => late = Some(fetch),
            _ => {}
        }
        self.stage = Stage::Back { front: at, fetched };
        let taken = fetched.filter(|_| aside).unwrap_or(usize::MAX);
        self.inside =
            Inside::Revolve { start: at, taken, late, revolve: Box::new(Revolve::new(length, own)?) };
        Ok(())
    }

    /// Takes the next interval up.
    pub(super) fn back(&mut self, front: usize, fetched: Option<usize>) {
        let Some(Border { step, memory }) = self.borders.pop() else {
            self.stage = Stage::Done;
            return;
        };
        self.offer_point(Some(front));
        let disk = Slot::disk(self.borders.len());
        self.push(Action::Load { step, slot: fetched.map_or(disk, Slot::memory), keep: false });
        if memory.is_some() {
            // It was never fetched.
            self.push(Action::Free { step, slot: disk });
        }
        self.at = step;
        self.stage = Stage::Turn(Some(front - step));
    }

    /// A write found no room: goes back to the first snapshot that is not on disk, and on from there in memory.
    pub(super) fn go_on_in_memory(&mut self, place: usize) {
        let lost = self.borders.split_off(place);
        for (later, &Border { step, memory }) in lost.iter().enumerate().rev() {
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
