//! The bound from what comes after the first reverse step.
//!
//! **Constraints.** Let `F` be the time of the first reverse step and `k` the states on disk by then;
//! `F >= max(f (n-1), w k) >= (1 - m) f (n-1) + m w k`. Let what follows compute for `C`, of which `U` while all
//! `s` slots hold states that are loaded later, read for `R` and transfer for `X`. A read in the background
//! fills a slot, which can hold nothing else from the read's start; one that is waited for stops the
//! computation: neither overlaps `U`. So it takes at least
//! `max(C, R + U, X) >= (1 - a - c) C + a (R + U) + c X`: the cost of a synchronous schedule at the prices `1 - a - c`
//! for computation with a slot free ("open"), `1 - c` with none ("full"), `(a + c) r` for a read and `c w`
//! for a write. Prices never fall as slots fill; nothing else is used of them.
//!
//! **Memory states stay.** If a memory state `x_i` is dropped before step `i` is reversed from it, each of its loads
//! goes on to `x_{i+1}`: keep that one instead, saved when first passed. Fewer steps, and held no longer. If it
//! is never loaded, keep nothing. The same holds for a disk state never read for its own step. Repeat.
//!
//! **No disk state is read above a memory state.** Let a disk state `N` be read while a memory state `A` below it is
//! held. Exchange the two, which adds no cost:
//! - If both were made before `F`, write `A` there instead of `N` and keep `N` instead of `A`. Returns to `N`, by
//!   reads or by passes from `A`, become free, at least one read is saved, and one read of `A` is enough, when
//!   the front reaches `N`.
//! - If `A` was saved after `F` and `N` written before it, then on a pass from a lower state `B` beyond `N` (if the
//!   pass ended earlier, save `A` on the next from it that does not). Read `N` into memory then instead: that
//!   saves the way from `B` to `A` and the read of `B`, if it had one, which are spent again to make `A` when the
//!   front reaches `N`; the read of `N` replaces a later one.
//! - If `N` was written after `F` and `A` held by then, write `A` instead, at the same price, when `N` would be;
//!   keep `N` in its slot from then on, and read `A` once, as in the first case.
//!
//! What was saved between `A` and `N` meanwhile is saved when the front has reached `N`: before, it was of no use.
//! As many slots are held at every moment as before, or fewer. Each exchange moves a disk state down, so it
//! ends. Then a state is read from disk only when all slots are free for what lies above it; and nobody
//! passes it on the way up from a lower disk state, since reading that one costs as much as reading it. A search over
//! all such schedules of short chains, at many prices, finds none that is cheaper (`bound/relaxed.rs`).
//!
//! **Gaps.** At `F` the states at hand, `k` on disk, at most `s` in memory (fetches under way included) and
//! `x_{n-1}`, part the chain into gaps, each entered through its own first state alone. Call that state on disk in
//! any case, all slots free, and its first read paid apart: a gap of `g` steps then costs at least `Q(g)`, the optimum of
//! Disk-Revolve with `M` of [`memory`](super::memory) for Revolve. All gaps but `s` pay `m w` and a read. So the
//! bound is `(1-m) f (n-1) + (1-a-c) b + min sum (Q(g) + m w + (a+c) r) - s (m w + (a+c) r)` over the ways to cut
//! `n - 1` steps into gaps, for all weights; it is concave in them.
//!
//! **Long chains.** A gap of more than [`LONGEST_GAP`] steps costs no less than its parts, each with a first state given
//! for nothing. So each step costs at least the mean of the cheapest gap, or of the longest unpaid one.

use super::largest;
use super::memory::{Price, increments};
use crate::disk_revolve::Again;
use crate::least::{Backwards, least_sum};
use crate::{Channels, Costs, Transfer};

/// The longest gap that is priced exactly; longer ones are cut for nothing.
const LONGEST_GAP: usize = 1000;

/// The weights `a` of reads and work with full memory, and `c` of all transfers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weights {
    pub(super) full: f64,
    pub(super) channel: f64,
}

/// What follows the first reverse step, at given weights.
struct Second {
    length: usize,
    slots: f64,
    /// `Q` by length.
    gaps: Vec<f64>,
    /// The reverse step `n - 1`.
    last: f64,
    read: f64,
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
        let memory = increments(slots.min(longest), longest, forward, backward).into_iter();
        let memory = memory.scan(0.0, |sum, increment| {
            *sum += increment;
            Some(*sum)
        });
        let gaps = Again::over([0.0].into_iter().chain(memory).collect(), forward.open, disk).value;
        Self { length: steps - 1, slots: slots as f64, gaps, last: backward.open, read: disk.read }
    }

    /// The least cost, where a gap that starts on disk pays `write` for having been written.
    fn least(&self, write: f64) -> f64 {
        let per_gap = write + self.read;
        let longest = self.gaps.len() - 1;
        let cut = if self.length == longest {
            least_cut(&self.gaps, per_gap)
        } else {
            let mean = |gap: usize| (self.gaps[gap] + per_gap) / gap as f64;
            let unpaid = self.gaps[longest] / longest as f64;
            self.length as f64 * (1..=longest).map(mean).fold(unpaid, f64::min)
        };
        self.last + cut - self.slots * per_gap
    }
}

/// The least `sum (gaps[g_i] + per_gap)` over all ways to cut the whole length into gaps.
fn least_cut(gaps: &[f64], per_gap: f64) -> f64 {
    let single: Vec<f64> = gaps.iter().map(|gap| gap + per_gap).collect();
    let behind = Backwards::of(&single);
    let mut value = single;
    for len in 2..value.len() {
        if let Some((sum, _)) = least_sum(&value[1..len], behind.below(len)) {
            value[len] = value[len].min(sum);
        }
    }
    value.last().copied().unwrap_or(0.0)
}

/// The bound at these weights, with the best `m`.
pub(super) fn two_phases(
    steps: usize,
    slots: usize,
    costs: &Costs,
    channels: Channels,
    weights: Weights,
) -> f64 {
    let second = Second::new(steps, slots, costs, channels, weights);
    let sweep = costs.forward * (steps - 1) as f64;
    let write = costs.tier(1).write;
    largest(0.0, 1.0, |m| (1.0 - m) * sweep + second.least(m * write))
}
