//! The bound for two memory slots.
//!
//! **Windows.** Let `F` be the time of the first reverse step. A read after `F` that serves a step counts, with `y` the
//! computation `C` that runs beside it: what follows `F` takes at least `C + sum (r - y) >= C + t sum (r - y)` for every `t`
//! in `[0, 1]`, since reads run one after the other. So a read costs `t r`, and work beside it, in its *window*, `1 - t`. A read
//! in the background holds a slot from its start; a *direct* one, into the working state, stops the computation and costs `r`.
//!
//! **Trees.** Trace the state that each step is reversed from back, through runs and memory, to the read after `F`, or to the
//! state held (or being read) at `F`, that it came from. The steps of one origin are its tree; let `i` be its lowest. The tree
//! is *open* from the start of its read (the end of a direct one), or from `F`, until `i` is reversed: all that time the trace of
//! `i` is at or below `i`, in the tree's own slot or in the working state. So trees that are open at once hold a slot each, but for one whose trace is
//! being run; and *whenever a state is loaded, and all the while that work is done above their lowest steps, they all do*.
//!
//! **Blocks.** The lowest steps of all trees cut the chain into blocks. A forward step is a block's *own* work if it serves one of
//! the block's steps through memory alone, *foreign* if it serves only steps above. The block `i .. i + g` is served by trees
//! whose lowest steps are at most `i`. While it has own work to do, one of them holds a slot with a state at or below `i`.
//!
//! *Own work in a window is done when the front is in the block.* Else let it be work of tree `j` for step `q`, in the window of
//! tree `k`. When the next state is loaded, the slots hold what was read for `k`, the trace of `q`, above `i`, and the trace of
//! `j`, at or below it: three. So `k` is at or below `i`, open until the block is done, and so is the tree that did the work: from
//! then on the block has one slot less. From the first own work in the window of a further tree on it has two less.
//! In between `y` of its work gains at most `t min(y, r) <= u y + (t - u) r` from the first window, for every `u` in `[0, t]`. So
//! it costs at least `N(g, s) - (t - u) r` with `N` of [`orderly`](super::orderly). If `h` trees held at `F` are open, its own one
//! perhaps among them, `N(g, s - h + 1)` takes its place for `h > 1`.
//!
//! **Sources.** A tree of lowest step `i` that is read also pays for what it is read from. Let `i - e` be the lowest step of the next
//! tree below. Follow the trace of `i` down to the state read; if that is above `i - e` and was written after `F`, on through the
//! slot that it was written from (or the working state) down to the state read before; and so on. It ends
//! - at or below `i - e`: so the block below has been crossed by `e` forward steps. If they are all foreign, they cost
//!   `(1 - t) e f` beyond all own work. Else one of them serves a step `q` of that block too, for a tree `j`. When
//!   the state read for tree `i` is loaded, it, the trace of `q` and the trace of `j`, at or below `i - e`, take three slots: the
//!   read was a direct one, for `(1 - t) r` more;
//! - at a state between that was on disk by `F`. With `k` such states, `F >= max(f (n - 1), w k) >= (1 - a) f (n - 1) + a w k` for
//!   every `a` in `[0, 1]`: each costs `a w`, and belongs to one tree;
//! - at a state between that memory held at `F`: two at most.
//!
//! So all but two trees pay `min(a w, (1 - t) e f, (1 - t) r)`. The lowest tree, with nothing below, pays `a w`.
//!
//! **Together.** From the highest block down, each is that of a tree held at `F`, for `N`, or of one read, for `t r` and `N` and its
//! source, which the block below pays by its length. The reverse step at `F` costs `(1 - t) b`. A block of more than
//! [`LONGEST_BLOCK`] steps costs no less than its parts do at the same `u`, each with its first state given.
//!
//! *Where it is loose.* It lets each way over a block run in a window, and all but two states be written after `F` for the
//! way to them. A search over all orders, from all states on disk and in memory at `F`, finds nothing that is cheaper
//! (`bound/windowed.rs`).
//!
//! *More slots.* The three that are counted above are there then, and the proof fails: states of a lower block can be made in
//! the window of a higher one, and the way to a state that is written after `F` be own work of the block below. The search finds
//! nothing cheaper with three and four slots either, in chains of up to seven steps; that is no proof, and the bound is not used.

use super::orderly::{Blocks, SHARES, revolve, upper};
use super::{golden_section, largest};
use crate::Costs;
use crate::least::{Backwards, least_sum};

const SLOTS: usize = 2;

/// The longest block that is priced exactly.
const LONGEST_BLOCK: usize = 300;

/// The chain at a given `t`.
pub(super) struct Pair<'a> {
    costs: &'a Costs,
    t: f64,
    /// `max_u N(., m) - (t - u) r`, by `m - 1` and length.
    blocks: Vec<Vec<f64>>,
    /// `min_u N(., m)` of the longest block, by `m - 1`: a part of a longer one.
    parts: Vec<f64>,
}

impl<'a> Pair<'a> {
    pub(super) fn new(costs: &'a Costs, revolve: &[Vec<f64>], t: f64) -> Self {
        let read = costs.tier(1).read;
        let shares: Vec<Blocks> =
            SHARES.iter().map(|share| Blocks::new(revolve, share * t, t, costs.forward)).collect();
        let level = |m: usize| {
            let at =
                |blocks: &Blocks| blocks.whole[m].iter().map(|cost| cost + (blocks.u - t) * read).collect();
            upper(shares.iter().map(at))
        };
        let part = |m: usize| {
            let longest = |blocks: &Blocks| blocks.whole[m].last().copied().unwrap_or_default();
            shares.iter().map(longest).fold(f64::INFINITY, f64::min)
        };
        let slots = revolve.len() - 1;
        Self { costs, t, blocks: (0..slots).map(level).collect(), parts: (0..slots).map(part).collect() }
    }

    /// What a block of this length pays for the tree above it, if that is read.
    fn source(&self, length: usize, a: f64) -> f64 {
        let disk = self.costs.tier(1);
        (a * disk.write).min((1.0 - self.t) * disk.read.min(length as f64 * self.costs.forward))
    }

    /// The least cost of all blocks of `length` steps, where a state on disk by `F` costs `a w`.
    pub(super) fn least(&self, length: usize, a: f64) -> f64 {
        let (disk, slots) = (self.costs.tier(1), self.blocks.len());
        let mut best = f64::INFINITY;
        // The least cost of so many steps below a tree that was held, with one held tree less to come.
        let mut fewer: Option<Vec<f64>> = None;
        for held in 0..=slots {
            let (blocks, part) = (&self.blocks[slots - held.max(1)], self.parts[slots - held.max(1)]);
            let source = |(length, cost): (usize, &f64)| cost + self.source(length, a);
            let with_source: Vec<f64> = blocks.iter().enumerate().map(source).collect();
            let longest = blocks.len() - 1;
            let mut below_held = vec![if held == 0 { 0.0 } else { f64::INFINITY }];
            // What is left below a block, with the price of its own tree.
            let mut rest = Backwards::of(&vec![f64::INFINITY; length + 1]);
            let after = |below_read: f64, l: usize| {
                let read = self.t * disk.read + below_read;
                fewer.as_ref().map_or(read, |fewer| read.min(fewer[l]))
            };
            rest.set(0, after(if held == 0 { a * disk.write } else { f64::INFINITY }, 0));
            for l in 1..=length {
                let least = |first: &[f64]| {
                    let count = l.min(longest);
                    least_sum(&first[1..=count], rest.down_from(l, count))
                        .map_or(f64::INFINITY, |(sum, _)| sum)
                };
                below_held.push(least(blocks));
                let next = after(least(&with_source), l);
                let same = if l >= longest { part + rest.get(l - longest) } else { f64::INFINITY };
                rest.set(l, next.min(same));
            }
            best = best.min(below_held[length]);
            fewer = Some(below_held);
        }
        best
    }
}

/// The bound with the best `t` and `a`.
pub(super) fn two_slots(steps: usize, costs: &Costs) -> f64 {
    let (length, write) = (steps - 1, costs.tier(1).write);
    let revolve = revolve(length.min(LONGEST_BLOCK), SLOTS, costs);
    largest(0.0, 1.0, |t| {
        let pair = Pair::new(costs, &revolve, t);
        let bound = |a: f64| {
            let first = (1.0 - a) * costs.forward * length as f64 + (1.0 - t) * costs.backward;
            first + pair.least(length, a) - SLOTS as f64 * a * write
        };
        golden_section(0.0, 1.0, 14, bound).1
    })
}

#[cfg(test)]
mod tests {
    use super::super::any_slots;
    use super::*;
    use crate::Channels;

    #[test]
    fn with_two_slots_no_schedule_comes_within_three_percent_of_the_bounds_for_any_number() {
        for (steps, w, apart) in
            [(200, 20.0, 1.07), (1000, 20.0, 1.08), (1000, 10.0, 1.05), (2000, 50.0, 1.14)]
        {
            let costs = Costs::unit().disk(w, w).unwrap();
            let bound = two_slots(steps, &costs);
            let any = any_slots(steps, SLOTS, &costs, Channels::Shared);
            assert!(bound > apart * any, "({steps}, {w}): {bound} {any}");
        }
    }
}
