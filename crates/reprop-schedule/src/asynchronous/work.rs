//! What a plan of intervals takes at least, without making it.

use super::intervals::{End, Way, border};
use crate::{Costs, beta};

/// Times of Revolve and of transfers, from which [`least`](Self::least) tells most plans to be no better than one
/// known already: some hundred additions instead of a plan of thousands of actions and its simulation.
#[derive(Debug)]
pub(super) struct Work {
    forward: f64,
    write: f64,
    slots: usize,
    /// Revolve's time by slots and length; the rows of slots not asked for yet are empty.
    times: Vec<Vec<f64>>,
    steps: usize,
    backward: f64,
}

impl Work {
    pub(super) fn new(steps: usize, slots: usize, costs: &Costs) -> Self {
        let (forward, backward, write) = (costs.forward, costs.backward, costs.tier(1).write);
        Self { forward, write, slots, times: vec![vec![]; slots + 1], steps, backward }
    }

    /// Revolve's time for so many steps, all of its rows from the increments: one step more costs `r` advances.
    fn revolve(&mut self, length: usize, slots: usize) -> f64 {
        let (steps, forward, backward) = (self.steps, self.forward, self.backward);
        let row = &mut self.times[slots];
        if row.is_empty() {
            let (mut repetitions, mut time) = (0, 0.0);
            row.push(0.0);
            for length in 1..=steps as u128 {
                while beta(slots, repetitions) < length {
                    repetitions += 1;
                }
                time += repetitions as f64 * forward + backward;
                row.push(time);
            }
        }
        row[length]
    }

    /// The computation of `length` steps reversed where they stand.
    fn stretch(&mut self, length: usize, way: &Way) -> f64 {
        match way {
            Way::Parts { slots, .. } => self.revolve(length, *slots),
            Way::PartsWithWindows { windows, .. } | Way::Windows(windows) => {
                windows.stretch_work(length).unwrap_or_else(|| self.revolve(length, self.slots))
            }
        }
    }

    /// The computation of an interval from its first state on disk.
    fn interval(&mut self, length: usize, way: &Way) -> f64 {
        let parts = match way {
            Way::Windows(windows) => {
                return windows.interval_work(length).unwrap_or_else(|| self.revolve(length, self.slots));
            }
            Way::Parts { parts, .. } | Way::PartsWithWindows { parts, .. } => *parts,
        };
        let part = |part: usize| {
            let (from, to) = (border(0, length, parts, part), border(0, length, parts, part + 1));
            from as f64 * self.forward * f64::from(u8::from(from < to)) + self.stretch(to - from, way)
        };
        (0..parts).map(part).sum()
    }

    /// How to reverse the lowest interval, if the others are reversed so: nothing is fetched meanwhile, and it may use
    /// all slots; in parts it may still be quicker.
    pub(super) fn lowest(&mut self, lengths: &[usize], way: &Way) -> Way {
        let length = lengths.first().copied().unwrap_or(0);
        let whole = Way::Parts { slots: self.slots, parts: 1 };
        if self.revolve(length, self.slots) <= self.interval(length, way) { whole } else { way.clone() }
    }

    /// A time that the plan of [`intervals`](super::intervals::intervals) cannot beat, however its transfers are hidden: at
    /// the start of the last interval all but `slots` of the states saved by then have been written; the
    /// computation follows.
    pub(super) fn least(&mut self, lengths: &[usize], way: &Way, end: End) -> f64 {
        let lowest = self.lowest(lengths, way);
        let Some((&last, earlier)) = lengths.split_last() else { return 0.0 };
        let written = earlier.len().saturating_sub(self.slots + end.held) as f64 * self.write;
        let start: usize = earlier.iter().sum();
        let mut sum = (start as f64 * self.forward).max(written);
        sum += match end.slots.first() {
            Some(&slots) => self.revolve(last, slots),
            None => self.stretch(last, way),
        };
        // Even intervals have few lengths.
        let mut known = (usize::MAX, 0.0);
        for (above, &length) in earlier.iter().rev().enumerate() {
            if let Some(&slots) = end.slots.get(above + 1) {
                sum += self.revolve(length, slots);
                continue;
            }
            if above + 1 == earlier.len() {
                sum += self.interval(length, &lowest);
                continue;
            }
            if known.0 != length {
                known = (length, self.interval(length, way));
            }
            sum += known.1;
        }
        sum
    }
}
