//! The bound from what comes after the first reverse step.
//!
//! **Constraints.** Let `F` be the time of the first reverse step and `k` the states on disk by then;
//! `F >= max(f (n-1), w k) >= (1 - m) f (n-1) + m w k`. Let what follows compute for `C`, of which `U` while all
//! `s` slots hold states that are loaded later, read for `R` and transfer for `X`. A read in the background
//! fills a slot, which can hold nothing else from the read's start; one that is waited for stops the
//! computation: neither overlaps `U`. So it takes at least
//! `max(C, R + U, X) >= (1 - a - c) C + a (R + U) + c X`: the cost of a synchronous schedule at the prices `1 - a - c`
//! for computation with a slot free ("open"), `1 - c` with none ("full"), `(a + c) r` for a read and `c w`
//! for a write. Of the prices only this is used: steps cost the less, the fewer states are held.
//!
//! What is the least cost from `F` on, given `k` states on disk and at most `s` in memory (fetches under way
//! included)? Six normal forms lead to it. Each changes a cheapest schedule without adding cost; they end, since each leaves
//! fewer steps or transfers, or lower states on disk, or saves made at a lower front. A *run* is a load or a
//! read and the steps after it. The *front* is the step to be reversed next.
//!
//! **1. Writes.** What is saved after `F` is written, if at all, when it is saved. A state in memory at `F` and written
//! later is *late*: call it on disk from `F` on, at the price of its write. One read of it, the first load from its slot,
//! may cost nothing; what else was loaded from the slot starts from a state that this run saves (form 3). Of a write under
//! way at `F` a part `p` is done by then: `X` has `p` less of it, and `F >= w k + p`. So `(c - m) w` is taken off
//! if `c > m`.
//!
//! **2. Runs end in a reverse step or a write.** Let one end in a save. Make its last stretch, from what it saved or
//! wrote before or from where it started, when that save is first loaded, and then its write too, if it has one: until
//! then nobody reads it. The slot that is not used meanwhile keeps the stretch's first state, and is free
//! during the stretch, which so has the least price.
//!
//! **3. Memory states stay.** If `x_i` is dropped before step `i` is reversed from it, each of its loads goes on to
//! `x_{i+1}`, and so does the run that saved it: keep that one instead, for fewer steps, and no longer.
//!
//! **4. No disk state `N` is read while a memory state `A` below it is held.** Else let the runs that save or write
//! between `A` and `N` stop there, and be made only when the front has reached `N`, in the same order: what lies above `N`
//! is gone by then, so at no higher prices, and before that they were of no use but to run on beyond `N`, which
//! now starts from `N` itself, held in `A`'s slot:
//! - If `A` was in memory and `N` on disk at `F`, let it be the other way round; a late `N` changes places with `A`, its
//!   write too. All reads of `N`, one at least for its price, are saved; `A` is read once, when the front is at `N`.
//! - If `A` was saved after `F`, on a run from `B`, and `N` was on disk by then, read `N` when that run, or the first one
//!   from its saves, goes beyond `N`: one of the reads of `N` that followed, made sooner. The way from `B` to `A` is
//!   spared now and made when the front is at `N`, with the read of `B` if it had one; `B`, if in memory, is
//!   still there.
//! - If `N` was written while `A` was held, write `A` at that moment, and keep `N` in its slot. Again the reads of `N` are
//!   saved, and `A` is read once.
//!
//! **5. Reads find memory empty.** A memory state above the state read would be the better start of the run, unless
//! the run only writes; one below is excluded. If a run ends in a write, of `x_i`, make its last stretch when `x_i` is first
//! read, in place of that read, and write `x_i` then if it is read again: the stretch starts from a read too, since a
//! start in memory would still be held; and nothing is cheaper than steps with empty memory. So all runs end in a
//! reverse step.
//!
//! **6. Nobody passes a disk state.** If `N` is not read for its own step, write instead the lowest state that its
//! reads are for: whoever wrote `N` passes it. Else a run from a lower disk state beyond `N` starts with a read of `N` instead,
//! at the same price; it saves nothing below `N`, by form 4, and what it writes there is made when first read, as in
//! form 5.
//!
//! **Gaps.** So the states at hand part the chain into gaps, each reversed from its own first state alone. Those of memory
//! states that stay lie above all others, by form 4; the lowest has all slots, the next one slot less: `M(g, s)`,
//! `M(g, s - 1)`, ... with `M` of [`memory`](super::memory). A gap of `g` steps that starts on disk is read with empty memory:
//! it costs a read and `Q(g)`, the optimum of Disk-Revolve with `M` for Revolve; and `m w` if it was written before
//! `F`. If its first state is late, it costs `c w` and a read and `min(Q(g), min_j j f + Q(j) + Q(g - j))`: with its
//! first read for nothing, it is read again, so it is cut. Staying and late states are at most `s` together: `P_0(l)`
//! is the least cost of their gaps, `l` steps in all, where `P_i(l) = min(Z_i(l), min_g late(g) + P_{i+1}(l - g))` and
//! `Z_i`, the least cost of gaps at the levels `i + 1, ..., s`, is the sum of their smallest increments. The bound is
//! `(1-m) f (n-1) + (1-a-c) b + min P_0(l) + sum (Q(g) + m w + (a+c) r)` over the ways to cut `n - 1` steps, for all weights;
//! it is concave in them.
//!
//! A search over all schedules of short chains, at many prices, finds none that is cheaper (`bound/relaxed.rs`).
//!
//! **Long chains.** A gap of more than [`LONGEST_GAP`] steps costs no less than its parts, each with a first state given
//! for nothing. So each step costs at least the mean of the cheapest gap, or `u`, that of the longest unpaid one. If the
//! gaps of `P_0` are longer than that together, each costs `Q(g)` at least, since `Q(g)` is at most a read above
//! its cut: they cost `u` a step less `max_g u g - Q(g)` for each slot.

use std::cell::Cell;

use super::golden_section;
use super::memory::{Price, increments};
use crate::disk_revolve::Again;
use crate::least::{Backwards, least_sum};
use crate::{Channels, Costs, Transfer};

/// The longest gap that is priced exactly; longer ones are cut for nothing.
const LONGEST_GAP: usize = 1000;

/// The most late states that are counted.
const MOST_LATE: usize = 32;

/// The weights `a` of reads and work with full memory, and `c` of all transfers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weights {
    pub(super) full: f64,
    pub(super) channel: f64,
}

/// What follows the first reverse step, at given weights.
struct Second {
    length: usize,
    /// `Q` by length.
    gaps: Vec<f64>,
    /// `P_0` by length.
    tails: Vec<f64>,
    /// The reverse step `n - 1`.
    last: f64,
    read: f64,
    /// The weight of a write.
    write: f64,
    slots: f64,
}

impl Second {
    fn new(steps: usize, slots: usize, costs: &Costs, channels: Channels, weights: Weights) -> Self {
        let Weights { full, channel } = weights;
        let price = |unit: f64| Price { open: unit * (1.0 - full - channel), full: unit * (1.0 - channel) };
        let (forward, backward) = (price(costs.forward), price(costs.backward));
        let share = if channels == Channels::Shared { channel } else { 0.5 * channel };
        let disk = costs.tier(1);
        let disk = Transfer { write: disk.write * share, read: disk.read * (full + share) };
        let longest = (steps - 1).min(LONGEST_GAP);
        let rising = increments(slots.min(longest), longest, forward, backward);
        let again = Again::over(sums(&rising), forward.open, disk);
        let late = late_gaps(&again, forward.open, disk);
        let tails = tails(slots.min(longest), &late, forward, backward);
        let (last, read, slots) = (backward.open, disk.read, slots as f64);
        Self { length: steps - 1, gaps: again.value, tails, last, read, write: share, slots }
    }

    /// The least cost, where a gap that starts on disk pays `write` for having been written.
    fn least(&self, write: f64) -> f64 {
        let per_gap = write + self.read;
        let longest = self.gaps.len() - 1;
        if self.length == longest {
            let cuts = least_cuts(&self.gaps, per_gap);
            // With very many slots it is more to count only that each saves a write and a read.
            return self.last + least_sum_of(&self.tails, &cuts).max(cuts[longest] - self.slots * per_gap);
        }
        let mean = |gap: usize| (self.gaps[gap] + per_gap) / gap as f64;
        let unpaid = self.gaps[longest] / longest as f64;
        let rate = (1..=longest).map(mean).fold(unpaid, f64::min);
        let below: Vec<f64> =
            (self.length - longest..=self.length).map(|length| rate * length as f64).collect();
        let short = (1..=longest).map(|gap| unpaid * gap as f64 - self.gaps[gap]).fold(0.0, f64::max);
        let long = unpaid * longest as f64 - self.slots * short + below[0];
        self.last + least_sum_of(&self.tails, &below).min(long)
    }
}

/// `min_l tails(l) + below(longest - l)`.
pub(super) fn least_sum_of(tails: &[f64], below: &[f64]) -> f64 {
    tails.iter().zip(below.iter().rev()).map(|(tail, below)| tail + below).fold(f64::INFINITY, f64::min)
}

/// `late`, by length.
pub(super) fn late_gaps(again: &Again, forward: f64, disk: Transfer) -> Vec<f64> {
    let behind = Backwards::of(&again.value);
    let ahead: Vec<f64> =
        again.value.iter().enumerate().map(|(l, value)| value + l as f64 * forward).collect();
    let cost = |l: usize| {
        let twice = least_sum(&ahead[1..l], behind.below(l)).map_or(f64::INFINITY, |(sum, _)| sum);
        again.value[l].min(twice) + disk.write + disk.read
    };
    [f64::INFINITY].into_iter().chain((1..again.value.len()).map(cost)).collect()
}

/// `P_0`; where there are many slots, all but some may hold any number of late states.
fn tails(slots: usize, late: &[f64], forward: Price, backward: Price) -> Vec<f64> {
    let longest = late.len() - 1;
    let mut smallest = vec![];
    let mut stay = |level: usize| {
        smallest.extend(increments(level, longest, forward, backward));
        smallest.sort_by(f64::total_cmp);
        smallest.truncate(longest);
        sums(&smallest)
    };
    let mut value = vec![f64::INFINITY; longest + 1];
    value[0] = 0.0;
    if slots > MOST_LATE {
        (MOST_LATE + 1..=slots).rev().for_each(|level| value = stay(level));
        let many = least_cuts(late, 0.0);
        value = with_gap(&value, &many, value.clone());
    }
    for level in (1..=slots.min(MOST_LATE)).rev() {
        value = with_gap(&value, late, stay(level));
    }
    value
}

/// `min(otherwise(l), min_g gap(g) + value(l - g))` by `l`.
pub(super) fn with_gap(value: &[f64], gap: &[f64], otherwise: Vec<f64>) -> Vec<f64> {
    let behind = Backwards::of(value);
    let mut least = otherwise;
    for l in 1..least.len() {
        if let Some((sum, _)) = least_sum(&gap[1..=l], behind.down_from(l, l)) {
            least[l] = least[l].min(sum);
        }
    }
    least
}

/// The least `sum (gaps[g_i] + per_gap)` over all ways to cut each length into gaps.
pub(super) fn least_cuts(gaps: &[f64], per_gap: f64) -> Vec<f64> {
    let single: Vec<f64> = gaps.iter().map(|gap| gap + per_gap).collect();
    let behind = Backwards::of(&single);
    let mut value = single;
    value[0] = 0.0;
    for len in 2..value.len() {
        if let Some((sum, _)) = least_sum(&value[1..len], behind.below(len)) {
            value[len] = value[len].min(sum);
        }
    }
    value
}

/// `0, x_1, x_1 + x_2, ...`
pub(super) fn sums(increments: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0];
    sums.extend(increments.iter().scan(0.0, |sum, increment| {
        *sum += increment;
        Some(*sum)
    }));
    sums
}

/// The best `m` of one pair of weights is looked for so far around that of the one before, which is near.
const NEAR: f64 = 0.1;

/// The bound at these weights, with the best `m` found; every `m` gives one.
pub(super) fn two_phases(
    steps: usize,
    slots: usize,
    costs: &Costs,
    channels: Channels,
    weights: Weights,
    near: &Cell<Option<f64>>,
) -> f64 {
    let second = Second::new(steps, slots, costs, channels, weights);
    let sweep = costs.forward * (steps - 1) as f64;
    let write = costs.tier(1).write;
    let under_way = |m: f64| (second.write - m).max(0.0) * write;
    let bound = |m: f64| (1.0 - m) * sweep + second.least(m * write) - under_way(m);
    let (low, high, rounds) = match near.get() {
        Some(m) => ((m - NEAR).max(0.0), (m + NEAR).min(1.0), 8),
        None => (0.0, 1.0, 14),
    };
    let (mut m, mut best) = golden_section(low, high, rounds, bound);
    // At the edge: the best one is beyond.
    if near.get().is_some_and(|before| (m - before).abs() > 0.9 * NEAR) {
        let wider = golden_section(0.0, 1.0, 14, bound);
        if wider.1 > best {
            (m, best) = wider;
        }
    }
    near.set(Some(m));
    best
}

#[cfg(test)]
mod tests {
    use super::super::{any_slots, largest};
    use super::*;
    use crate::Async;

    /// The bound if no state could be written after the first reverse step.
    fn without_late(steps: usize, slots: usize, costs: &Costs) -> f64 {
        let at = |weights: Weights| {
            let price = |unit: f64| Price {
                open: unit * (1.0 - weights.full - weights.channel),
                full: unit * (1.0 - weights.channel),
            };
            let never = vec![f64::INFINITY; steps];
            let tails = tails(slots, &never, price(costs.forward), price(costs.backward));
            let second = Second { tails, ..Second::new(steps, slots, costs, Channels::Shared, weights) };
            let bound = |m: f64| {
                (1.0 - m) * costs.forward * (steps - 1) as f64 + second.least(m * costs.tier(1).write)
            };
            golden_section(0.0, 1.0, 14, bound).1
        };
        let reads = largest(0.0, 0.5, |full| at(Weights { full, channel: 0.0 }));
        reads.max(largest(0.0, 0.5, |channel| at(Weights { full: 0.0, channel })))
    }

    #[test]
    fn late_states_for_the_price_of_their_write_make_the_bound_loose() {
        for (steps, slots, w, apart) in [
            (200, 5, 50.0, 1.045),
            (200, 10, 20.0, 1.025),
            (500, 8, 100.0, 1.03),
            (500, 15, 50.0, 1.035),
            (500, 20, 50.0, 1.03),
        ] {
            let costs = Costs::unit().disk(w, w).unwrap();
            let without = without_late(steps, slots, &costs);
            let any = any_slots(steps, slots, &costs, Channels::Shared);
            assert!(without > apart * any, "({steps}, {slots}, {w}): {without} {any}");
        }
    }

    #[test]
    fn plans_with_late_states_beat_what_there_is_without() {
        let costs = Costs::unit().disk(50.0, 50.0).unwrap();
        let plan = Async::new(500, 15, &costs, Channels::Shared).unwrap();
        let without = without_late(500, 15, &costs);
        assert!(plan.run().unwrap().makespan < without, "{without}");
    }
}
