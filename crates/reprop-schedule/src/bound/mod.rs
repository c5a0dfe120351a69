//! How little time any schedule can take.
//!
//! **What was tried to make it tighter, and why it is not here.**
//!
//! *A price for late states* (`phases`). The writes of late states overlap neither reads nor work with full memory, so that
//! `R + U + W` is a bound too, `W` being their time; late states would cost `(a + c) w` instead of `c w`, and the bound rise by
//! 0.2 to 0.8 %. That holds for a late state that no run starts from in memory. One that is loaded from its slot while or after it is
//! written is written for nothing while it waits for its turn; form 4 makes a state below it late in its place, for which the price
//! is not paid. Such states do hold their slots until the turn of one above them. To count that, one needs to know that they cannot
//! give them up sooner: but a run from one may go beyond the next state, and free its slot, for the way between.
//!
//! *Prices for more levels*: that work with `s - j` or more states held overlaps no time in which more than `j` late states wait.
//! The best prices found are 0. Over the whole run there is room for that work; it is lacking only right after `F`.
//!
//! *Numbers of late states told apart*, each with its own best weights: nothing is gained, the cost is convex in the number.
//!
//! *Unbroken reads for three slots or more* (`pair`). If it held, (1000, 3, 20) and (1000, 4, 20) would be 5.8 and 3.8 % above. It fails
//! twice. A state that is written after `F` on the own way of the block below costs only a slot of the block
//! above: with that let through, the bound is 3859 and 3455, less than what there is. And work below a tree in the window of its read
//! takes two slots from its block, but a block of a few steps does not need them, and its read then costs nothing.
//!
//! *Ways at full price for two slots* would give 4965 instead of 4747 for (1000, 2, 20). A way in a window takes a slot from the
//! block that it leads to; but the blocks in question are reversed with one slot anyway, and nothing is gained. What is lacking is a
//! price for states written after `F`: a tree pays only for its way over one block, as if each were written there.
//!
//! *A charge for each opening of memory* (`phases`). Let work with all slots full part the time after `F` into open periods. A read
//! lies in one of them; one of `y` work and `k` reads takes at least `max(y, k r) >= min(y, q + (1 - a) y) + (a r - q) k` for `q <= a r`:
//! open work is cheap only once a charge `q` has been paid, and anew after each time of full memory, so that no read is
//! hidden piece by piece. That is concave and falls with the states held, so the forms seem to stay true for
//! `q <= (1 - a - c) f` and `2 q <= (a + c) r`: a step or a read that a form spares pays for one charge. That is a sketch, not a proof.
//! In an endless chain it would give 1.5 % for (8, 62) and (5, 30), and about 1 % for three to five slots with longer writes.
//! In 1000 steps a coarse search of weights finds 0.4 % for (5, 30) and (3, 20), and nothing for eight slots: late states cost
//! `c w` instead of `m w` there, eight of them, which keeps `m` at 0.14 where an endless chain has 0.5, and the weight `a` at 0.
//!
//! *Where a write takes longer than two repetitions of Revolve reach*, (1000, 8, 62): the best weights found are `a = 0` and
//! `c = 0.016`, so a read costs 1, wherever it is hidden. Without late states the bound would be 0.7 % higher, 3761.5, and
//! the plan still 3.3 % above. What is lacking is both at once: a price for late states, so that `m` and `a` may rise, and reads
//! without a break. Windows that end with the load of the state read, with ways at the open price, would give 3 % in an
//! endless chain; but the forms fail there, since work for lower steps in a window is cheaper than the same work put off.

mod memory;
mod orderly;
mod pair;
mod phases;
#[cfg(test)]
mod relaxed;
mod single;
#[cfg(test)]
mod windowed;

use std::cell::Cell;

use crate::disk_revolve::Again;
use crate::{Channels, Costs, Error, Transfer, advances};
use phases::{Weights, two_phases};

/// The longest chain for which the whole run is weighed.
pub(crate) const LONGEST_WEIGHED: usize = 3000;

/// A time that no schedule with `slots` memory slots and an unlimited disk beats, with transfers in the
/// background, whatever its order: the largest of five bounds. Only states are snapshots, not steps' saved tensors.
///
/// *Whole run.* Let a schedule compute for `C` and transfer for `X` (one channel). Each runs on its own clock, so
/// the makespan is at least `max(C, X) >= (1 - a) C + a X` for every `a` in `[0, 1]`. The same actions, each
/// waited for, are a synchronous schedule that costs `(1 - a) C + a X` at the prices `(1 - a) f`,
/// `(1 - a) b`, `a w`, `a r`; the cheapest of those is Disk-Revolve's optimum at these prices. As a minimum
/// of linear functions it is concave in `a`: a golden-section search finds the largest.
///
/// *Two phases.* Let `F` be the time of the first reverse step, and `k` the number of snapshots on disk by
/// then: `F >= max(f (n-1), w k)`. After it, reads compete with the computation for memory: a read fills a
/// slot, so none runs while all slots hold snapshots and the computation goes on. With `U` the computation done
/// then, what is left takes at least `max(C, R + U, X)`, `R` being its reads. Weighed together, this is again a
/// synchronous schedule, with a price of its own for work with full memory; `bound/phases.rs` has the
/// proof that its optimum is a Disk-Revolve too.
///
/// *One slot.* A read then hides behind a single run, and the schedule falls apart into the runs between reads;
/// `bound/single.rs` prices them.
///
/// *Two slots.* A read needs its slot without a break, so it hides behind the end of what is reversed before it, with a slot less;
/// and no state of a lower part can be made meanwhile, for that takes a third slot. `bound/pair.rs` has the proof, for reads in any
/// order and writes at any time.
///
/// *No reads.* A schedule that reads nothing takes as long as Revolve; any other at least `w + r + b`.
///
/// *Where it is loose.* With three or four slots: it lets a read be hidden piece by piece between times of full memory.
/// [`orderly_bound`] prices that, for schedules that keep an order. Without one the proof
/// fails: a state far below may be read first, and its block swept, while a higher one is read; that hides the
/// later read behind work that the order would put after it. With two slots: it lets the way to a state be hidden behind a read,
/// and the state be written at its end, for nothing more, though a write holds its slot without a break too. And where `s w` is near `n f` or above: it lets
/// states wait in memory for their write after the way forward without taking the slots from the work meanwhile, and the
/// channel serve these writes and all reads in any order. If nothing could be written then, the bound would be 2 to 5 % higher
/// for 200 and 500 steps; but plans that do so beat that. The exact optima of short chains are 9 to 15 % above it with
/// two slots, 0 to 5 % with three, 0 to 2 % with four; the table is with [`Async`](crate::Async).
///
/// With separate channels the transfer time is at least half the sum of both: in `X` transfers count half.
///
/// *Time* `O(n^2)` for each of some hundred trials and `O(s n^2)` for some seventy up to 1000 steps, no more beyond: half
/// a second. The whole-run bound stops at 3000 steps.
///
/// ```
/// use reprop_schedule::{Channels, Costs, lower_bound};
/// let costs = Costs::unit().disk(2.0, 2.0).unwrap();
/// let bound = lower_bound(8, 2, &costs, Channels::Shared).unwrap();
/// assert!(15.0 <= bound && bound <= 17.0); // 2n - 1 = 15; the exact optimum is 17
/// ```
///
/// # Errors
/// [`Error::NoSteps`], [`Error::NoSlots`], [`Error::Cost`].
pub fn lower_bound(steps: usize, slots: usize, costs: &Costs, channels: Channels) -> Result<f64, Error> {
    crate::error::require(steps, slots)?;
    let costs = costs.clone().checked()?;
    let computation = costs.forward * (steps - 1) as f64 + costs.backward * steps as f64;
    if steps == 1 {
        return Ok(computation);
    }
    let scarce = match slots {
        1 => single::single_slot(steps, &costs),
        2 if steps <= LONGEST_WEIGHED => pair::two_slots(steps, &costs),
        _ => 0.0,
    };
    Ok(computation.max(any_slots(steps, slots, &costs, channels)).max(scarce))
}

/// The bounds that hold for any number of slots: whole run, two phases and no reads.
fn any_slots(steps: usize, slots: usize, costs: &Costs, channels: Channels) -> f64 {
    let share = if channels == Channels::Shared { 1.0 } else { 0.5 };
    let weighed = |a: f64| Again::new(steps, slots, &weigh(costs, 1.0 - a, a * share, a * share)).fresh;
    let whole = if steps <= LONGEST_WEIGHED { largest(0.0, 1.0, weighed) } else { 0.0 };
    // Either nothing is read, or a write, a read and a reverse step follow one another.
    let (disk, memory_only) = (costs.tier(1), costs.forward * advances(steps, slots) as f64);
    let idle = (memory_only + costs.backward * steps as f64).min(disk.write + disk.read + costs.backward);
    whole.max(phases(steps, slots, costs, channels)).max(idle)
}

/// A time that no *orderly* schedule beats: one whose writes are over before its first reverse step, and that uses up what it has
/// read in the order of the reads, so that no state is read while one below it waits in memory.
///
/// What it counts beyond [`lower_bound`]: a read needs its slot without a break, so it hides behind one stretch of work with a
/// slot less, at the end of what is reversed before it; `bound/orderly.rs` has the proof. Schedules that are not orderly can
/// beat it: with many slots some [`Async`](crate::Async) plans do, by writing on after the first reverse step. None does that
/// is short enough for a search over all orders. What it leaves out is that
/// transfers take the channel's time: where that is what counts, [`lower_bound`] is the larger.
///
/// *Time* `O(s n^2)` for some twenty trials and `O(n^2)` for some three hundred; over 3000 steps it is [`lower_bound`].
///
/// ```
/// use reprop_schedule::{Async, Channels, Costs, lower_bound, orderly_bound};
/// let costs = Costs::unit().disk(20.0, 20.0)?;
/// let makespan = Async::new(200, 2, &costs, Channels::Shared)?.run().unwrap().makespan;
/// assert!(makespan > 1.09 * lower_bound(200, 2, &costs, Channels::Shared)?);
/// assert!(makespan < 1.04 * orderly_bound(200, 2, &costs, Channels::Shared)?);
/// # Ok::<(), reprop_schedule::Error>(())
/// ```
///
/// # Errors
/// [`Error::NoSteps`], [`Error::NoSlots`], [`Error::Cost`].
pub fn orderly_bound(steps: usize, slots: usize, costs: &Costs, channels: Channels) -> Result<f64, Error> {
    if steps <= 1 || steps > LONGEST_WEIGHED {
        return lower_bound(steps, slots, costs, channels);
    }
    crate::error::require(steps, slots)?;
    Ok(orderly::orderly(steps, slots, &costs.clone().checked()?))
}

/// The bound from two phases.
fn phases(steps: usize, slots: usize, costs: &Costs, channels: Channels) -> f64 {
    let near = Cell::new(None);
    let best = |full: f64| {
        largest(0.0, 1.0, |a| {
            let weights = Weights { full: a * full, channel: a * (1.0 - full) };
            two_phases(steps, slots, costs, channels, weights, &near)
        })
    };
    SHARES.into_iter().map(best).fold(0.0, f64::max)
}

/// How the weight is shared between the two constraints on transfers.
const SHARES: [f64; 4] = [0.0, 0.4, 0.8, 1.0];

/// The largest value found of a concave function between `low` and `high`, each of whose values is a bound by itself.
fn largest(low: f64, high: f64, function: impl Fn(f64) -> f64) -> f64 {
    const ROUNDS: usize = 16;
    golden_section(low, high, ROUNDS, function).1
}

/// Where the largest value found is, and the value; one new value a round.
fn golden_section(mut low: f64, mut high: f64, rounds: usize, function: impl Fn(f64) -> f64) -> (f64, f64) {
    const GOLDEN: f64 = 0.618_033_988_749_895;
    let (mut left, mut right) = (high - GOLDEN * (high - low), low + GOLDEN * (high - low));
    let (mut at_left, mut at_right) = (function(left), function(right));
    let mut best = if at_left < at_right { (right, at_right) } else { (left, at_left) };
    for _ in 0..rounds {
        let (at, value) = if at_left < at_right {
            low = left;
            (left, at_left) = (right, at_right);
            right = low + GOLDEN * (high - low);
            at_right = function(right);
            (right, at_right)
        } else {
            high = right;
            (right, at_right) = (left, at_left);
            left = high - GOLDEN * (high - low);
            at_left = function(left);
            (left, at_left)
        };
        if value > best.1 {
            best = (at, value);
        }
    }
    best
}

/// The costs with computation, writes and reads weighed differently.
pub(crate) fn weigh(costs: &Costs, compute: f64, write: f64, read: f64) -> Costs {
    let disk = costs.tier(1);
    Costs {
        forward: costs.forward * compute,
        backward: costs.backward * compute,
        tiers: vec![Transfer::default(), Transfer { write: disk.write * write, read: disk.read * read }],
    }
}
