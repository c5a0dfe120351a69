//! The beginning, when no write has been measured yet.

use reprop_schedule::{Action, Revolve, Slot, advances};

use super::borders::{Border, Borders};
use super::interval::{GAIN, Rates, back, rest, reverse};
use super::{Async, Inside, Stage};
use crate::chain::Result;
use crate::chain::planner::{Move, View};

/// Seconds that handing a state to another thread takes beside copying it, about.
const HANDOVER: f64 = 5e-5;
/// A first write is tried if intervals could gain so many times what its two copies cost the computation: it also makes a file,
/// tries codings, and takes its share of the memory's speed.
const WORTH: f64 = 50.0;
/// Writes that are tried one after the other before anything is chosen: the first makes a file, and like the first copies in
/// memory touches fresh pages. If they do not show that intervals gain, another is tried whenever the chain has gone twice as far, since a machine may be slow for a while; but only within
/// the first of so many parts of the chain, since what was gone through by then is one long interval.
const PARTS: usize = 100;
const TRIES: usize = 4;
/// Steps of a chain for each try but the first, which costs two copies of a state.
const PER_TRY: usize = 250;
/// A write is tried again if it takes no more than this part of the way forward.
const SOON: usize = 20;
/// Steps that are looked at before the first write, if the chain is many times as long: the very first ones find cold caches.
const STEPS: usize = 8;

/// Revolve's way forward over the whole chain, step by step. Whatever the first write turns out to take, nothing is lost: if
/// it is too slow Revolve goes on, else Revolve's snapshots become the first borders of intervals.
pub(super) struct Measuring {
    revolve: Revolve,
    /// Where its stride ends.
    to: usize,
    /// Writes tried: of the first state, and then of states that are there for the trial alone.
    tried: usize,
    /// The step whose state is there for a trial.
    trial: Option<usize>,
    /// Nothing is tried before this step, if it was said that intervals gain nothing.
    rest: Option<usize>,
}

impl Measuring {
    pub fn new(steps: usize, slots: usize) -> Result<Self> {
        Ok(Self { revolve: Revolve::new(steps, slots)?, to: 0, tried: 0, trial: None, rest: None })
    }
}

impl Async {
    /// The next thing that Revolve does, or the choice if the first write has been measured.
    pub(super) fn measure(&mut self, view: &View<'_>) {
        let Some(mut measuring) = self.measuring.take() else { return };
        if let (Some(rates), Some(steps)) = (Rates::of(&view.measured.or(self.known)), self.steps)
            && view.written >= measuring.tried
            && measuring.rest.is_none_or(|rest| self.at >= rest)
        {
            return self.choose(measuring, steps, &rates);
        }
        if let (Some(forward), Some(steps), 0) = (view.measured.forward, self.steps, measuring.tried)
            && self.at >= STEPS.min(steps / 100)
            && !self.borders.is_empty()
        {
            // No plan has fewer advances than steps but one.
            let gain = forward * (advances(steps, self.slots) as f64 - (steps - 1) as f64);
            if gain < WORTH * (HANDOVER + 2.0 * view.measured.save.unwrap_or(0.0)) {
                return self.go_on_as_revolve(measuring);
            }
            return self.try_write(measuring);
        }
        if self.at == measuring.to {
            match measuring.revolve.next() {
                Some(Action::Save { step, slot }) => {
                    if slot == self.trial_slot() {
                        self.end_trial(&mut measuring);
                    }
                    self.push(Action::Save { step, slot });
                    self.borders.push(step, slot.index);
                }
                Some(Action::Forward { to, .. }) => measuring.to = to,
                // The way back begins, and the write is not done.
                other => {
                    self.pending.extend(other.map(Move::Do));
                    return self.go_on_as_revolve(measuring);
                }
            }
        }
        if self.at < measuring.to {
            self.push(Action::Forward { from: self.at, to: self.at + 1 });
            self.at += 1;
        }
        self.measuring = Some(measuring);
    }

    /// Sends the first state to the store, or the working state if that is there.
    fn try_write(&mut self, mut measuring: Measuring) {
        if measuring.tried == 0 {
            let (from, to) = (Slot::memory(0), Slot::disk(0));
            self.push(Action::Copy { step: 0, from, to, keep: true });
            self.offer_point(None);
        } else {
            let (step, from) = (self.at, self.trial_slot());
            self.push(Action::Save { step, slot: from });
            self.push(Action::Copy { step, from, to: Slot::disk(1), keep: true });
            measuring.trial = Some(step);
        }
        measuring.tried += 1;
        self.measuring = Some(measuring);
    }

    /// The memory slot that Revolve comes to last.
    fn trial_slot(&self) -> Slot {
        Slot::memory(self.slots - 1)
    }

    /// Whether a state may be there for a trial alone.
    fn has_room_for_trial(&self) -> bool {
        let places = self.borders.iter().filter_map(|border| border.memory);
        self.borders.last().is_some_and(|border| border.step < self.at)
            && places.max().is_some_and(|last| last + 1 < self.slots)
    }

    fn end_trial(&mut self, measuring: &mut Measuring) {
        if let Some(step) = measuring.trial.take() {
            self.push(Action::Free { step, slot: self.trial_slot() });
            self.push(Action::Free { step, slot: Slot::disk(1) });
        }
    }

    /// What is left to do as Revolve against what is left to do in intervals.
    fn choose(&mut self, mut measuring: Measuring, steps: usize, rates: &Rates) {
        if self.borders.is_empty() {
            // Known before anything was done.
            self.stage = Stage::Start;
            return;
        }
        self.end_trial(&mut measuring);
        let tries = TRIES.min(1 + steps / PER_TRY);
        // One that takes long would hold Revolve up where it comes to that slot, or turns.
        let soon = rates.costs.tier(1).write <= rates.costs.forward * (steps / SOON) as f64;
        let may_try = soon && self.has_room_for_trial();
        if may_try && measuring.tried < tries {
            return self.try_write(measuring);
        }
        let length = self.interval(rates);
        let starts = self.borders.steps();
        let ends = starts.iter().skip(1).chain([&self.at]);
        let lengths: Vec<usize> = starts.iter().zip(ends).map(|(from, to)| to - from).collect();
        let below: f64 = lengths.iter().filter(|&&l| l > 0).map(|&l| back(l, self.slots, rates)).sum();
        let in_intervals = below + rest(steps - self.at, length, lengths.len() - 1, self.slots, rates);
        let as_revolve = reverse(steps, self.slots, &rates.costs) - rates.costs.forward * self.at as f64;
        if as_revolve <= GAIN * in_intervals {
            return if !may_try || tries < TRIES {
                self.go_on_as_revolve(measuring);
            } else if measuring.rest.take().is_some() {
                self.try_write(measuring);
            } else if 2 * self.at <= steps / PARTS {
                self.measuring = Some(Measuring { rest: Some(2 * self.at), ..measuring });
            } else {
                self.go_on_as_revolve(measuring);
            };
        }
        for Border { step, memory } in self.borders.split_off(1) {
            self.write_border(step, memory.unwrap_or(self.borders.len()));
        }
        self.offer_point(None);
        // The last of Revolve's snapshots may be the working state itself.
        self.stage = if lengths.last() == Some(&0) {
            Stage::Forward(Some(self.at + length.min(steps - 1 - self.at)))
        } else {
            Stage::Start
        };
    }

    /// Nothing more is written.
    pub(super) fn go_on_as_revolve(&mut self, mut measuring: Measuring) {
        self.end_trial(&mut measuring);
        let Measuring { revolve, to, tried, .. } = measuring;
        if tried > 0 {
            self.push(Action::Free { step: 0, slot: Slot::disk(0) });
        }
        if self.at < to {
            self.push(Action::Forward { from: self.at, to });
        }
        self.borders = Borders::default();
        self.inside = Inside::Revolve { start: 0, taken: usize::MAX, late: None, revolve: Box::new(revolve) };
        self.stage = Stage::Back { front: 0, fetched: None };
    }
}
