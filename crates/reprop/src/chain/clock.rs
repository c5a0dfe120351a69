//! What steps take, and what of it goes to the trace.

use std::time::Instant;

use super::Measured;
use super::measure::{Average, Undisturbed};
use crate::{Activity, Trace};

/// Averages of step times, and a trace if one is wanted.
#[derive(Default)]
pub(super) struct Clocks {
    forward: Undisturbed,
    slowed: Average,
    record: Average,
    backward: Average,
    /// Reverse steps beside a transfer.
    backward_slowed: Average,
    save: Undisturbed,
    load: Undisturbed,
    hand_over: Undisturbed,
    trace: Option<Trace>,
}

impl Clocks {
    pub fn new(trace: Option<Trace>) -> Self {
        Self { trace, ..Self::default() }
    }

    /// Forward steps, beside a transfer or not.
    pub fn forward(&mut self, from: usize, to: usize, beside: bool, start: Instant) {
        let seconds = start.elapsed().as_secs_f64();
        if beside {
            self.slowed.observe(to - from, seconds);
        } else {
            self.forward.observe(seconds / (to - from) as f64);
        }
        self.note(Activity::Forward, from, start);
    }

    pub fn record(&mut self, step: usize, start: Instant) {
        self.record.observe(1, start.elapsed().as_secs_f64());
        self.note(Activity::Forward, step, start);
    }

    pub fn reverse(&mut self, step: usize, beside: bool, start: Instant) {
        let average = if beside { &mut self.backward_slowed } else { &mut self.backward };
        average.observe(1, start.elapsed().as_secs_f64());
        self.note(Activity::Grads, step, start);
    }

    /// A reverse step counts with the forward that recorded it, whenever that was.
    pub fn reverse_recorded(&mut self, step: usize, beside: bool, start: Instant) {
        let record = self.record.get().unwrap_or(0.0);
        let average = if beside { &mut self.backward_slowed } else { &mut self.backward };
        average.observe(1, start.elapsed().as_secs_f64() + record);
        self.note(Activity::Grads, step, start);
    }

    /// A copy to a memory slot.
    pub fn save(&mut self, start: Instant) {
        self.save.observe(start.elapsed().as_secs_f64());
    }

    /// A copy from a memory slot.
    pub fn load(&mut self, start: Instant) {
        self.load.observe(start.elapsed().as_secs_f64());
    }

    /// A snapshot that went to the store's queue; waiting for room there does not count.
    pub fn hand_over(&mut self, seconds: f64) {
        self.hand_over.observe(seconds);
    }

    pub fn transfer(&self, step: usize, start: Instant) {
        self.note(Activity::Io, step, start);
    }

    /// Times of steps.
    pub fn measured(&self) -> Measured {
        Measured {
            forward: self.forward.get().or(self.record.get()),
            backward: self.backward.get().or(self.backward_slowed.get()),
            save: self.save.get(),
            load: self.load.get(),
            slowed: self.slowed.get(),
            hand_over: self.hand_over.get(),
            ..Measured::default()
        }
    }

    fn note(&self, activity: Activity, place: usize, start: Instant) {
        if let Some(trace) = &self.trace {
            trace.since(activity, place, start);
        }
    }
}
