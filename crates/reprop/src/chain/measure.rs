//! Times measured while a chain runs.

use std::cell::Cell;

use reprop_schedule::{Action, Costs, Prices, Transfer};

/// How much of an average the newest step makes up at least: the average follows a machine that changes its speed.
const NEWEST: f64 = 0.02;
/// A reverse step in forward steps, before one was measured: the forward that records, and two products for each of its
/// one.
const REVERSE: f64 = 3.0;

/// Times of steps and transfers in seconds, as far as they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// One forward step that keeps nothing.
    pub forward: Option<f64>,
    /// One reverse step, its recording forward included.
    pub backward: Option<f64>,
    /// Writing one snapshot.
    pub write: Option<f64>,
    /// Reading one snapshot.
    pub read: Option<f64>,
    /// Taking a snapshot to a memory slot: a copy of the state.
    pub save: Option<f64>,
    /// Having one back from a memory slot: a copy if the slot keeps it.
    pub load: Option<f64>,
    /// One forward step while a transfer is under way.
    pub slowed: Option<f64>,
    /// What handing one snapshot to the store takes of the computation's own time.
    pub hand_over: Option<f64>,
}

impl Measured {
    /// The costs, with guesses for what is not known yet; `None` while nothing is.
    ///
    /// ```
    /// use reprop::chain::Measured;
    ///
    /// let measured = Measured { forward: Some(2.0), write: Some(10.0), ..Measured::default() };
    /// let costs = measured.costs().unwrap();
    /// assert_eq!((costs.backward, costs.tier(1).read), (6.0, 10.0));
    /// ```
    pub fn costs(&self) -> Option<Costs> {
        let forward = self.forward.or(self.slowed).or(self.backward.map(|backward| backward / REVERSE))?;
        let write = self.write.or(self.read)?;
        // Both are a copy.
        let (save, load) = (self.save.or(self.load), self.load.or(self.save));
        let memory = Transfer { write: save.unwrap_or(0.0), read: load.unwrap_or(0.0) };
        let tiers = vec![memory, Transfer { write, read: self.read.unwrap_or(write) }];
        Some(Costs { forward, backward: self.backward.unwrap_or(REVERSE * forward), tiers })
    }

    /// This, with what it lacks from another.
    pub fn or(self, other: Self) -> Self {
        Self {
            forward: self.forward.or(other.forward),
            backward: self.backward.or(other.backward),
            write: self.write.or(other.write),
            read: self.read.or(other.read),
            save: self.save.or(other.save),
            load: self.load.or(other.load),
            slowed: self.slowed.or(other.slowed),
            hand_over: self.hand_over.or(other.hand_over),
        }
    }
}

/// An average whose newest values count a little more. The first value counts until there is another: it found cold caches.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Average {
    value: f64,
    count: f64,
    first: bool,
}

impl Average {
    /// Takes note of `count` things that took `seconds` together.
    pub fn observe(&mut self, count: usize, seconds: f64) {
        let count = count as f64;
        if std::mem::replace(&mut self.first, self.count == 0.0) {
            self.count = 0.0;
        }
        self.count += count;
        let share = (count / self.count).max(1.0 - (1.0 - NEWEST).powf(count));
        self.value += share * (seconds / count - self.value);
    }

    pub fn get(&self) -> Option<f64> {
        (self.count > 0.0).then_some(self.value)
    }
}

/// Values that are remembered at once.
const RECENT: usize = 16;

/// The lower quartile of the last values: what something takes when nothing gets in its way, as cold memory and other work on
/// the machine do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Undisturbed {
    recent: [f64; RECENT],
    count: usize,
    quartile: f64,
}

impl Undisturbed {
    pub fn observe(&mut self, seconds: f64) {
        self.recent[self.count % RECENT] = seconds;
        self.count += 1;
        let mut sorted = self.recent;
        let sorted = &mut sorted[..self.count.min(RECENT)];
        sorted.sort_unstable_by(f64::total_cmp);
        self.quartile = sorted[(sorted.len() - 1) / 4];
    }

    pub fn get(&self) -> Option<f64> {
        (self.count > 0).then_some(self.quartile)
    }
}

/// What a simulator that runs beside the chain charges: for an action of the computation what it has just taken, for a
/// transfer what the store measured.
#[derive(Debug, Default)]
pub(super) struct LivePrices {
    seconds: Cell<f64>,
    recording: Cell<bool>,
    transfers: Cell<Measured>,
    state_bytes: Cell<u64>,
}

impl LivePrices {
    /// The next action to be charged has taken so long, waiting for the store not counted.
    pub fn set(&self, action: &Action, seconds: f64, transfers: Measured, state_bytes: usize) {
        self.seconds.set(seconds);
        self.recording.set(matches!(action, Action::Record { .. }));
        self.transfers.set(transfers);
        self.state_bytes.set(state_bytes as u64);
    }
}

impl Prices for LivePrices {
    fn forward(&self, _: usize, _: usize) -> f64 {
        self.seconds.get()
    }

    fn reverse(&self, _: usize) -> f64 {
        self.seconds.get()
    }

    fn record(&self, _: usize) -> f64 {
        // Reversing what was recorded is charged without it.
        if self.recording.get() { self.seconds.get() } else { 0.0 }
    }

    fn write(&self, _: usize, tier: usize) -> f64 {
        if tier == 0 { self.seconds.get() } else { self.transfers.get().write.unwrap_or(0.0) }
    }

    fn read(&self, _: usize, tier: usize) -> f64 {
        let Measured { write, read, .. } = self.transfers.get();
        if tier == 0 { self.seconds.get() } else { read.or(write).unwrap_or(0.0) }
    }

    fn state_bytes(&self, _: usize) -> u64 {
        self.state_bytes.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quartile_of_the_last_values_knows_neither_the_first_nor_the_odd_one() {
        let mut copy = Undisturbed::default();
        assert_eq!(copy.get(), None);
        for seconds in [90.0, 9.0, 2.0, 3.0, 50.0] {
            copy.observe(seconds);
        }
        assert_eq!(copy.get(), Some(3.0));
        (0..RECENT).for_each(|_| copy.observe(4.0));
        assert_eq!(copy.get(), Some(4.0));
    }

    #[test]
    fn an_average_forgets_its_first_value_begins_as_a_mean_and_follows_a_change() {
        let mut average = Average::default();
        average.observe(1, 100.0);
        assert_eq!(average.get(), Some(100.0));
        average.observe(1, 1.0);
        average.observe(3, 9.0);
        assert_eq!(average.get(), Some(2.5));
        (0..1000).for_each(|_| average.observe(1, 5.0));
        assert!(average.get().is_some_and(|value| (value - 5.0).abs() < 1e-6), "{average:?}");
    }
}
