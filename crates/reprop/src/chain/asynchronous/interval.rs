//! How long an interval should be, from what things cost.

use reprop_schedule::{Costs, advances, snapshots};

use crate::chain::Measured;

/// The longest interval that is considered.
const LONGEST: usize = 1 << 20;
/// Up to this length every one is tried; beyond, each is so much longer than the last.
const EVERY: usize = 64;
const STRIDE: f64 = 1.05;
/// An interval may take so much longer than the best if it is longer: fewer transfers, and steps between them that show what
/// a step takes when nothing is under way.
const ENOUGH: f64 = 1.01;
/// Times that differ by less are taken as the same.
const NEAR: f64 = 0.1;

/// Revolve is left only for a plan that it takes so many times as long as: what transfers take from a computation that keeps
/// every core busy shows only when they are under way, and then it is too late.
pub(super) const GAIN: f64 = 1.1;

/// What things cost, and what transfers cost the computation beside which they run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rates {
    pub costs: Costs,
    /// A forward step while a transfer is under way: the transfer takes a part of the memory's speed, and of a core.
    slowed: f64,
    /// Handing a snapshot to the store, or having it back.
    hand_over: f64,
}

impl Rates {
    pub fn of(measured: &Measured) -> Option<Self> {
        let costs = measured.costs()?;
        let slowed = measured.slowed.map_or(costs.forward, |slowed| slowed.max(costs.forward));
        Some(Self { slowed, hand_over: measured.hand_over.unwrap_or(0.0), costs })
    }

    /// What a transfer of `seconds` takes from the computation beside it.
    fn beside(&self, seconds: f64) -> f64 {
        let lost = if self.slowed > 0.0 { 1.0 - self.costs.forward / self.slowed } else { 0.0 };
        self.hand_over + lost * seconds
    }

    /// Whether another's times are so near that a plan for them is good for these.
    pub fn near(&self, other: &Self) -> bool {
        let near = |one: f64, other: f64| (one - other).abs() <= NEAR * other;
        let [one, two] = [self, other].map(|rates| {
            let disk = rates.costs.tier(1);
            [rates.costs.forward, rates.costs.backward, disk.write, disk.read, rates.slowed, rates.hand_over]
        });
        one.into_iter().zip(two).all(|(one, other)| near(one, other))
    }
}

/// The time to reverse `length` steps from their first state with Revolve, which comes back to a snapshot after each step but
/// the last.
pub(super) fn reverse(length: usize, slots: usize, costs: &Costs) -> f64 {
    let memory = costs.tier(0);
    costs.forward * advances(length, slots) as f64
        + costs.backward * length as f64
        + memory.write * snapshots(length, slots) as f64
        + memory.read * length.saturating_sub(1) as f64
}

/// The time of an interval's way back with a slot set aside for the next read, which is hidden behind it; none if there is no
/// slot to set aside.
fn aside(length: usize, slots: usize, rates: &Rates) -> Option<f64> {
    let read = rates.costs.tier(1).read;
    (slots > 1).then(|| {
        let reverse = reverse(length, slots - 1, &rates.costs) + rates.beside(read);
        reverse.max(read)
    })
}

/// The time of an interval's way back with all slots: the next read begins when no more steps are left than there are other
/// slots, and what they do not hide of it is waited for.
fn late(length: usize, slots: usize, rates: &Rates) -> f64 {
    let Rates { costs, .. } = rates;
    let hidden = costs.backward * length.min(slots - 1) as f64;
    reverse(length, slots, costs) + rates.beside(costs.tier(1).read) + (costs.tier(1).read - hidden).max(0.0)
}

/// Whether an interval's way back is quicker with a slot set aside for the next read. `there`: what it would read is in that
/// slot already.
pub(super) fn sets_aside(length: usize, slots: usize, there: bool, rates: &Rates) -> bool {
    let beside =
        if there { Some(reverse(length, slots - 1, &rates.costs)) } else { aside(length, slots, rates) };
    slots > 1 && beside.is_some_and(|beside| beside <= late(length, slots, rates))
}

/// The time of an interval's way back.
pub(super) fn back(length: usize, slots: usize, rates: &Rates) -> f64 {
    let late = late(length, slots, rates);
    rates.costs.tier(0).read + aside(length, slots, rates).map_or(late, |aside| aside.min(late))
}

/// The time of an interval there and back: the way forward hides the write, or waits for it.
fn there_and_back(length: usize, slots: usize, rates: &Rates) -> f64 {
    let Rates { costs, .. } = rates;
    let write = costs.tier(1).write;
    let there = length as f64 * costs.forward + costs.tier(0).write + rates.beside(write);
    there.max(write) + back(length, slots, rates)
}

/// The longest interval with about the least time a step.
///
/// Once the way forward hides the write and the way back the read, the time a step has one valley (a read that nothing hides
/// weighs less in a longer interval, recomputing weighs more), so the search ends where it rises.
pub(super) fn best_interval(slots: usize, rates: &Rates) -> usize {
    let (mut best, mut least) = (1, f64::INFINITY);
    let mut length = 1;
    while length <= LONGEST {
        let time = there_and_back(length, slots, rates) / length as f64;
        let hidden = length as f64 * rates.costs.forward >= rates.costs.tier(1).write
            && back(length, slots, rates) > rates.costs.tier(1).read;
        least = least.min(time);
        if time <= ENOUGH * least {
            best = length;
        } else if hidden {
            break;
        }
        length = if length < EVERY { length + 1 } else { (length as f64 * STRIDE) as usize };
    }
    best
}

/// Whether the last `left` steps are better reversed in memory from here than cut once more, `length < left` steps on. There is
/// a snapshot below that needs a slot for its read.
pub(super) fn stop_here(left: usize, length: usize, slots: usize, rates: &Rates) -> bool {
    length == 0
        || back(left, slots, rates)
            <= there_and_back(length, slots, rates) + back(left - length, slots, rates)
}

/// Whether a chain of `steps` is better reversed in memory as a whole.
pub(super) fn stay_in_memory(steps: usize, length: usize, slots: usize, rates: &Rates) -> bool {
    length == 0 || reverse(steps, slots, &rates.costs) <= GAIN * rest(steps, length, 0, slots, rates)
}

/// The time of the last `left` steps there and back, cut every `length` steps as long as that is quicker, when `waiting`
/// snapshots are to be written first.
pub(super) fn rest(left: usize, length: usize, waiting: usize, slots: usize, rates: &Rates) -> f64 {
    // The longer the rest, the more a cut gains: so many cuts are made as leave a rest that stops.
    let stops = |cuts: usize| {
        let left = left - cuts * length;
        stop_here(left, length.min(left - 1), slots, rates)
    };
    let (mut cuts, mut most) = (0, (left - 1) / length);
    while cuts < most {
        let middle = cuts + (most - cuts) / 2;
        if stops(middle) { most = middle } else { cuts = middle + 1 }
    }
    let write = rates.costs.tier(1).write;
    let spare = cuts as f64 * (length as f64 * rates.costs.forward - write).max(0.0);
    let stall = (waiting as f64 * write - spare).max(0.0);
    stall + cuts as f64 * there_and_back(length, slots, rates) + back(left - cuts * length, slots, rates)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(write: f64, read: f64) -> Rates {
        let costs = Costs::new(1.0, 1.0).unwrap().disk(write, read).unwrap();
        Rates { costs, slowed: 1.0, hand_over: 0.0 }
    }

    /// With few slots a shorter interval than the write takes stalls, and is better: for one slot and W = 50 the best of
    /// all lengths is found by trying them.
    #[test]
    fn the_interval_has_the_least_time_of_all_lengths() {
        for slots in [1, 2, 3, 8] {
            for (write, read) in [(0.5, 0.5), (5.0, 5.0), (50.0, 50.0), (7.5, 40.0)] {
                let costs = costs(write, read);
                let time = |length: usize| there_and_back(length, slots, &costs) / length as f64;
                let best = time(best_interval(slots, &costs));
                let least = (1..=EVERY).map(time).fold(f64::INFINITY, f64::min);
                assert!(best <= ENOUGH * least, "{slots} {write} {read}: {best} against {least}");
            }
        }
    }

    #[test]
    fn a_quick_store_gives_short_intervals_and_a_slow_one_long_ones() {
        let length = |write| best_interval(10, &costs(write, write));
        assert!(length(0.1) <= 2 && length(100.0) > length(10.0) && length(10.0) > length(0.1));
    }

    #[test]
    fn a_short_chain_or_a_hopeless_store_stays_in_memory() {
        let stop = |left, slots, costs: Rates| {
            stay_in_memory(left, best_interval(slots, &costs).min(left - 1), slots, &costs)
        };
        assert!(stop(1, 1, costs(0.0, 0.0)) && stop(8, 3, costs(4.0, 4.0)));
        assert!(stop(100, 10, costs(1e9, 1e9)));
        assert!(!stop(100_000, 10, costs(10.0, 10.0)));
    }

    /// A write and a read of 50 that slow steps down to half their speed take 25 each; and where a snapshot's hand-over takes
    /// as long as many steps there are none.
    #[test]
    fn transfers_are_charged_for_what_they_take_from_the_computation() {
        let free = costs(50.0, 50.0);
        let slow = Rates { slowed: 2.0, ..free.clone() };
        assert!((there_and_back(60, 10, &slow) - there_and_back(60, 10, &free) - 50.0).abs() < 1e-9);
        let stays = |rates: &Rates| stay_in_memory(2000, best_interval(10, rates), 10, rates);
        assert!(!stays(&free) && stays(&Rates { hand_over: 1e4, ..free.clone() }));
    }
}
