//! How long an interval should be, from what things cost.

use reprop_schedule::{Costs, advances, snapshots};

/// The longest interval that is considered.
const LONGEST: usize = 1 << 20;
/// Up to this length every one is tried; beyond, each is so much longer than the last.
const EVERY: usize = 64;
const STRIDE: f64 = 1.05;

/// Revolve is left only for a plan that it takes so many times as long as: transfers take a little of the computation's time,
/// too.
pub(super) const GAIN: f64 = 1.03;

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
fn aside(length: usize, slots: usize, costs: &Costs) -> Option<f64> {
    (slots > 1).then(|| reverse(length, slots - 1, costs).max(costs.tier(1).read))
}

/// The time of an interval's way back with all slots: the next read begins when no more steps are left than there are other
/// slots, and what they do not hide of it is waited for.
fn late(length: usize, slots: usize, costs: &Costs) -> f64 {
    let hidden = costs.backward * length.min(slots - 1) as f64;
    reverse(length, slots, costs) + (costs.tier(1).read - hidden).max(0.0)
}

/// Whether an interval's way back is quicker with a slot set aside for the next read. `there`: what it would read is in that
/// slot already.
pub(super) fn sets_aside(length: usize, slots: usize, there: bool, costs: &Costs) -> bool {
    let beside = if there { Some(reverse(length, slots - 1, costs)) } else { aside(length, slots, costs) };
    slots > 1 && beside.is_some_and(|beside| beside <= late(length, slots, costs))
}

/// The time of an interval's way back.
pub(super) fn back(length: usize, slots: usize, costs: &Costs) -> f64 {
    let late = late(length, slots, costs);
    costs.tier(0).read + aside(length, slots, costs).map_or(late, |aside| aside.min(late))
}

/// The time of an interval there and back: the way forward hides the write, or waits for it.
fn there_and_back(length: usize, slots: usize, costs: &Costs) -> f64 {
    (length as f64 * costs.forward + costs.tier(0).write).max(costs.tier(1).write)
        + back(length, slots, costs)
}

/// The interval with the least time a step.
///
/// Once the way forward hides the write and the way back the read, the time a step has one valley (a read that nothing hides
/// weighs less in a longer interval, recomputing weighs more), so the search ends where it rises.
pub(super) fn best_interval(slots: usize, costs: &Costs) -> usize {
    let (mut best, mut least) = (1, f64::INFINITY);
    let mut length = 1;
    while length <= LONGEST {
        let time = there_and_back(length, slots, costs) / length as f64;
        let hidden = length as f64 * costs.forward >= costs.tier(1).write
            && back(length, slots, costs) > costs.tier(1).read;
        if time < least {
            (best, least) = (length, time);
        } else if hidden {
            break;
        }
        length = if length < EVERY { length + 1 } else { (length as f64 * STRIDE) as usize };
    }
    best
}

/// Whether the last `left` steps are better reversed in memory from here than cut once more, `length < left` steps on. There is
/// a snapshot below that needs a slot for its read.
pub(super) fn stop_here(left: usize, length: usize, slots: usize, costs: &Costs) -> bool {
    length == 0
        || back(left, slots, costs)
            <= there_and_back(length, slots, costs) + back(left - length, slots, costs)
}

/// Whether a chain of `steps` is better reversed in memory as a whole.
pub(super) fn stay_in_memory(steps: usize, length: usize, slots: usize, costs: &Costs) -> bool {
    length == 0 || reverse(steps, slots, costs) <= GAIN * rest(steps, length, 0, slots, costs)
}

/// The time of the last `left` steps there and back, cut every `length` steps as long as that is quicker, when `waiting`
/// snapshots are to be written first.
pub(super) fn rest(left: usize, length: usize, waiting: usize, slots: usize, costs: &Costs) -> f64 {
    // The longer the rest, the more a cut gains: so many cuts are made as leave a rest that stops.
    let stops = |cuts: usize| {
        let left = left - cuts * length;
        stop_here(left, length.min(left - 1), slots, costs)
    };
    let (mut cuts, mut most) = (0, (left - 1) / length);
    while cuts < most {
        let middle = cuts + (most - cuts) / 2;
        if stops(middle) { most = middle } else { cuts = middle + 1 }
    }
    let write = costs.tier(1).write;
    let spare = cuts as f64 * (length as f64 * costs.forward - write).max(0.0);
    let stall = (waiting as f64 * write - spare).max(0.0);
    stall + cuts as f64 * there_and_back(length, slots, costs) + back(left - cuts * length, slots, costs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(write: f64, read: f64) -> Costs {
        Costs::new(1.0, 1.0).unwrap().disk(write, read).unwrap()
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
                assert!(best <= least, "{slots} {write} {read}: {best} against {least}");
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
        let stop = |left, slots, costs: Costs| {
            stay_in_memory(left, best_interval(slots, &costs).min(left - 1), slots, &costs)
        };
        assert!(stop(1, 1, costs(0.0, 0.0)) && stop(8, 3, costs(4.0, 4.0)));
        assert!(stop(100, 10, costs(1e9, 1e9)));
        assert!(!stop(100_000, 10, costs(10.0, 10.0)));
    }
}
