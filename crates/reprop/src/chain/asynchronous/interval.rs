//! How long an interval should be, from what things cost.

use reprop_schedule::{Costs, advances};

/// The longest interval that is considered.
const LONGEST: usize = 1 << 20;
/// Up to this length every one is tried; beyond, each is so much longer than the last.
const EVERY: usize = 64;
const STRIDE: f64 = 1.05;

/// The time to reverse `length` steps from their first state with Revolve.
fn reverse(length: usize, slots: usize, costs: &Costs) -> f64 {
    costs.forward * advances(length, slots) as f64 + costs.backward * length as f64
}

/// The time of an interval's way back: with a slot set aside for the next read, which is hidden behind it, or with none.
fn back(length: usize, slots: usize, costs: &Costs) -> f64 {
    let read = costs.tier(1).read;
    if slots > 1 { reverse(length, slots - 1, costs).max(read) } else { reverse(length, slots, costs) + read }
}

/// The time of an interval there and back: the way forward hides the write, or waits for it.
fn whole(length: usize, slots: usize, costs: &Costs) -> f64 {
    (length as f64 * costs.forward).max(costs.tier(1).write) + back(length, slots, costs)
}

/// The interval with the least time a step.
///
/// Once the way forward hides the write and the way back the read, the time a step has one valley (a read that nothing hides
/// weighs less in a longer interval, recomputing weighs more), so the search ends where it rises.
pub(super) fn best_interval(slots: usize, costs: &Costs) -> usize {
    let (mut best, mut least) = (1, f64::INFINITY);
    let mut length = 1;
    while length <= LONGEST {
        let time = whole(length, slots, costs) / length as f64;
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

/// Whether the last `left` steps are better reversed in memory from here than cut once more, `length < left` steps on.
pub(super) fn stop_here(left: usize, length: usize, slots: usize, costs: &Costs) -> bool {
    length == 0
        || reverse(left, slots, costs) <= whole(length, slots, costs) + reverse(left - length, slots, costs)
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
                let time = |length: usize| whole(length, slots, &costs) / length as f64;
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
            stop_here(left, best_interval(slots, &costs).min(left - 1), slots, &costs)
        };
        assert!(stop(1, 1, costs(0.0, 0.0)) && stop(8, 3, costs(4.0, 4.0)));
        assert!(stop(100, 10, costs(1e9, 1e9)));
        assert!(!stop(100_000, 10, costs(10.0, 10.0)));
    }
}
