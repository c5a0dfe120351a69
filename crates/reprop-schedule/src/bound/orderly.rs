//! The bound for orderly schedules.
//!
//! **Orderly** is a schedule whose writes are over before the first reverse step, and in which what is read first is used up
//! first: of two reads, the one that starts later serves the lower last step. States that memory holds at the first reverse
//! step count as read then. So no state is read while a state below it waits in memory for its turn.
//!
//! **Windows.** Let `F` be the time of the first reverse step, `C` the computation after it, and `y` the part of it that runs
//! while a certain read does, its *window*. Reads run one after the other, so what follows `F` takes at least
//! `C + sum (r - y) >= C + t sum (r - y)` for every `t` in `[0, 1]`: a read costs `t r`, and work in its window `1 - t`. A read
//! in the background holds a slot from its start to its end *without a break*; one that is waited for has an empty window.
//!
//! **Trees.** Trace each step's state back, through runs and memory, to the read, or the state held or being read at `F`, that
//! it came from; leave out runs that serve no step. The steps of one origin are its tree, `i` the lowest. It lives from the
//! start of its read until step `i` is reversed. All that time it has a slot, for its read or for a state at `i` or below, but
//! for its last run, and while a run moves its lowest state up, when nothing is computed above `i`.
//!
//! **Own work.** While a tree has a state in memory at `i` or below, let runs from further below that go beyond `i` start
//! there, and end below it if they save something on the way: for less work. So what is done at `i` or above, up to where the
//! next tree's lowest step is, is the tree's own work: trees that end below it are read after it.
//!
//! **Blocks.** The lowest steps of all trees cut the chain into blocks. Look at one, of `g` steps from `i` on, and at the
//! work in it alone: a schedule of `g` steps from a given first state with `s` slots, that of the first state counted. It
//! costs Revolve's `M(g, s)` without windows. Let the first window in which some of it runs be that of tree `x`, and the
//! next one that of `z`. Both have their lowest steps below `i`: others have not been read, as reads are used up in
//! order. So from the start of its window to the end of the block each of them holds a slot: the work has *one slot
//! less from the one, two from the other start on, until the block is done*. Up to the second start at most `min(y, r)` of it is in
//! a window, `y` being the work between the two: that takes `t min(y, r) <= u y + (t - u) r` from its price, for every `u` in
//! `[0, t]`. So the block costs at least `N(g, s) - (t - u) r`, with `N(g, m)` the least cost of `g` steps with `m` slots at price 1
//! up to some moment, with `m - 1` at price `1 - u` up to another one, and with `m - 2` at price `1 - t` from then on. If
//! the tree was held at `F`, so were those of the blocks above; each lower one held at `F` has a slot meanwhile: `N(g, s)`,
//! `N(g, s - 1)`, ... from the lowest up.
//!
//! **N.** Prices fall with time, so work that is put off costs no more; and a state dropped before its step is reversed
//! might be kept one step later instead. So let `x_j` be the lowest state saved on the first run. It stays, what lies above
//! starts from it, with a slot less, and what lies below comes after. Let `A(g, m)` be the same as `N` with the second moment
//! left out, and `B(g, m)` with the first moment at the start: `B(g, m) = (1 - u) A(g, m - 1)` with `(1 - t) / (1 - u)` for `1 - u`.
//! `N(g, m)` is the least of
//! - `M(g, m)`, and `B(g, m)` if the first moment comes before anything is saved;
//! - `j f + M(g - j, m - 1) + N(j, m)` if both come below `x_j`;
//! - `j f + A(g - j, m - 1) + B(j, m)` if the second one does;
//! - `j f + N(g - j, m - 1) + (1 - t) M(j, m - 2)` if none does.
//!
//! **Ways up.** A tree read from `x_d` goes up `e = i - d` steps first. If some of that way is in the window of a tree `x`, it
//! shares memory with `x` before it enters its block, and perhaps with `z` too: way and block cost at least
//! `(1 - u) e f + B(g, s) - (t - u) r` or `(1 - t) (e f + M(g, s - 2))`; otherwise `e f` and what the block costs.
//!
//! **Together.** Take each tree from the nearest state on disk below its block, leave out the others, and put these where the
//! lowest block above them starts: no way gets longer. So what lies between two of them is cut into blocks, and `Q(l)` is the
//! least of `t r + N(l, s) - (t - u) r` and, over `j`, of `Q(j)` and a tree of `l - j` steps with a way of `j`, its read included.
//! With `k` states on disk at `F`, `F >= max(f (n - 1), w k) >= (1 - a) f (n - 1) + a w k`. So each costs `a w` and its `Q`.

use super::memory::{Price, increments};
use super::phases::{least_cuts, least_sum_of, sums, with_gap};
use super::{golden_section, largest};
use crate::Costs;
use crate::least::{Backwards, least_sum};

/// With more slots `u = t` is all that is tried: the work between two windows is hardly more than a read then.
const MOST_SLOTS: usize = 8;

/// The `u / t` that are tried.
pub(super) const SHARES: [f64; 5] = [1.0, 0.75, 0.5, 0.25, 0.0];

/// `M(., m)` for `m` up to `slots`, by length; without a slot, one step can be reversed from the working state.
pub(super) fn revolve(longest: usize, slots: usize, costs: &Costs) -> Vec<Vec<f64>> {
    let flat = |unit: f64| Price { open: unit, full: unit };
    let (forward, backward) = (flat(costs.forward), flat(costs.backward));
    let mut none = vec![f64::INFINITY; longest + 1];
    (none[0], none[1]) = (0.0, costs.backward);
    let level = |level: usize| sums(&increments(level, longest, forward, backward));
    [none].into_iter().chain((1..=slots).map(level)).collect()
}

/// `costs` at a price, with `j f` for the way.
fn after_way(costs: &[f64], forward: f64) -> Vec<f64> {
    costs.iter().enumerate().map(|(j, cost)| cost + j as f64 * forward).collect()
}

/// `(1 - t) costs`.
fn in_window(costs: &[f64], t: f64) -> Vec<f64> {
    costs.iter().map(|&cost| if cost.is_finite() { (1.0 - t) * cost } else { cost }).collect()
}

/// `N(., m)` from `M(., m)`, `M(., m - 1)` and `N(., m - 1)`, which there is none of for `m = 1`.
fn windowed(own: &[f64], fewer: &[f64], above: Option<&Vec<f64>>, t: f64, forward: f64) -> Vec<f64> {
    let within = in_window(fewer, t);
    let within_after_way = after_way(&within, forward);
    let (fewer, above) = (Backwards::of(fewer), above.map(|row| Backwards::of(row)));
    let (mut row, mut ahead) = (vec![0.0; own.len()], vec![0.0; own.len()]);
    for l in 1..own.len() {
        let mut best = own[l].min(within[l]);
        let mut offer = |a: &[f64], b: &[f64]| {
            if let Some((sum, _)) = least_sum(a, b) {
                best = best.min(sum);
            }
        };
        offer(&ahead[1..l], fewer.below(l));
        if let Some(above) = &above {
            offer(&within_after_way[1..l], above.below(l));
        }
        row[l] = best;
        ahead[l] = best + l as f64 * forward;
    }
    row
}

/// `A(., m)` from `m = 1` on, with `t` for `u`.
fn once(revolve: &[Vec<f64>], t: f64, forward: f64) -> Vec<Vec<f64>> {
    let mut rows: Vec<Vec<f64>> = vec![];
    for pair in revolve.windows(2) {
        rows.push(windowed(&pair[1], &pair[0], rows.last(), t, forward));
    }
    rows
}

/// What blocks cost with given `u` and `t`.
pub(super) struct Blocks {
    pub(super) u: f64,
    /// `N(., m)` from `m = 1` on.
    pub(super) whole: Vec<Vec<f64>>,
    /// `B(., s)`.
    within: Vec<f64>,
}

impl Blocks {
    pub(super) fn new(revolve: &[Vec<f64>], u: f64, t: f64, forward: f64) -> Self {
        let slots = revolve.len() - 1;
        let ratio = if u < 1.0 { 1.0 - (1.0 - t) / (1.0 - u) } else { 0.0 };
        let first = once(revolve, u, forward);
        // `B(., m)` from `m = 1` on.
        let within: Vec<Vec<f64>> = [revolve[0].clone()]
            .into_iter()
            .chain(once(revolve, ratio, forward))
            .map(|row| in_window(&row, u))
            .take(slots)
            .collect();
        let mut whole: Vec<Vec<f64>> = vec![];
        for m in 1..=slots {
            let own = &within[m - 1];
            let below = Backwards::of(&revolve[m - 1]);
            let second_below = (m > 1).then(|| (after_way(own, forward), Backwards::of(&first[m - 2])));
            let none_below = (m > 2)
                .then(|| (after_way(&in_window(&revolve[m - 2], t), forward), Backwards::of(&whole[m - 2])));
            let (mut row, mut ahead) = (vec![0.0; own.len()], vec![0.0; own.len()]);
            for l in 1..row.len() {
                let mut best = revolve[m][l].min(own[l]);
                let mut offer = |lower: &[f64], upper: &Backwards| {
                    if let Some((sum, _)) = least_sum(&lower[1..l], upper.below(l)) {
                        best = best.min(sum);
                    }
                };
                offer(&ahead, &below);
                for (lower, upper) in second_below.iter().chain(&none_below) {
                    offer(lower, upper);
                }
                row[l] = best;
                ahead[l] = best + l as f64 * forward;
            }
            whole.push(row);
        }
        Self { u, whole, within: within[slots - 1].clone() }
    }
}

/// The largest of each value.
pub(super) fn upper(rows: impl Iterator<Item = Vec<f64>>) -> Vec<f64> {
    rows.reduce(|x, y| x.iter().zip(&y).map(|(x, y)| x.max(*y)).collect()).unwrap_or_default()
}

/// The chain at a given `t`.
struct Trees {
    /// `Q`.
    gaps: Vec<f64>,
    /// The least cost of the blocks of states held at `F`, by length.
    held: Vec<f64>,
}

impl Trees {
    fn new(revolve: &[Vec<f64>], t: f64, forward: f64, read: f64) -> Self {
        let slots = revolve.len() - 1;
        let shares = if slots > MOST_SLOTS { &SHARES[..1] } else { &SHARES[..] };
        let blocks: Vec<Blocks> =
            shares.iter().map(|share| Blocks::new(revolve, share * t, t, forward)).collect();
        let level = |m: usize, price: &dyn Fn(f64) -> f64| {
            let at = |blocks: &Blocks| blocks.whole[m].iter().map(|cost| cost + price(blocks.u)).collect();
            let mut row = upper(blocks.iter().map(at));
            row[0] = 0.0;
            row
        };
        let mut held = vec![f64::INFINITY; revolve[0].len()];
        held[0] = 0.0;
        for m in 0..slots {
            held = with_gap(&held, &level(m, &|u| (u - t) * read), held.clone());
        }
        Self { gaps: gaps(revolve, &blocks, &level(slots - 1, &|u| u * read), t, forward, read), held }
    }
}

/// `Q`, from what blocks without a way cost.
fn gaps(revolve: &[Vec<f64>], blocks: &[Blocks], plain: &[f64], t: f64, forward: f64, read: f64) -> Vec<f64> {
    let behind = Backwards::of(plain);
    let within: Vec<Backwards> = blocks.iter().map(|blocks| Backwards::of(&blocks.within)).collect();
    let twice = revolve.len().checked_sub(3).map(|fewer| Backwards::of(&in_window(&revolve[fewer], t)));
    let mut value = plain.to_vec();
    // `Q(j)` and the way, at full price, at `1 - t` and at each `1 - u`.
    let (mut full, mut cheap) = (vec![0.0; plain.len()], vec![0.0; plain.len()]);
    let mut between = vec![vec![0.0; plain.len()]; blocks.len()];
    for l in 1..value.len() {
        let least = |lower: &[f64], upper: &Backwards| {
            least_sum(&lower[1..l], upper.below(l)).map_or(f64::INFINITY, |(sum, _)| sum)
        };
        let shared = blocks.iter().zip(&within).zip(&between);
        let shared = shared.map(|((blocks, upper), lower)| blocks.u * read + least(lower, upper));
        let both = twice.as_ref().map_or(f64::INFINITY, |upper| t * read + least(&cheap, upper));
        let best = least(&full, &behind).min(shared.fold(0.0, f64::max)).min(both);
        value[l] = value[l].min(best);
        let way = l as f64 * forward;
        (full[l], cheap[l]) = (value[l] + way, value[l] + (1.0 - t) * way);
        for (row, blocks) in between.iter_mut().zip(blocks) {
            row[l] = value[l] + (1.0 - blocks.u) * way;
        }
    }
    value
}

/// The bound with the best `t` and `a`.
pub(super) fn orderly(steps: usize, slots: usize, costs: &Costs) -> f64 {
    let (forward, disk) = (costs.forward, costs.tier(1));
    let length = steps - 1;
    let revolve = revolve(length, slots.min(length), costs);
    largest(0.0, 1.0, |t| {
        let trees = Trees::new(&revolve, t, forward, disk.read);
        let bound = |a: f64| {
            let cuts = least_cuts(&trees.gaps, a * disk.write);
            let after = (1.0 - t) * costs.backward + least_sum_of(&trees.held, &cuts);
            (1.0 - a) * forward * length as f64 + after
        };
        golden_section(0.0, 1.0, 14, bound).1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least cost of a block by search: front, working state, states in memory (the first one among them), and how many
    /// of the two moments have come.
    fn searched(steps: usize, slots: u32, prices: [f64; 3], costs: &Costs) -> f64 {
        let sets = 1_usize << steps;
        // Costs to go by memory, working state and moment; `steps` stands for none.
        let index = |memory: usize, at: usize, moment: usize| (memory * (steps + 1) + at) * 3 + moment;
        let mut next = vec![0.0; sets * (steps + 1) * 3];
        for front in 1..=steps {
            let mut value = vec![f64::INFINITY; sets * (steps + 1) * 3];
            let mut changed = true;
            while std::mem::take(&mut changed) {
                for (memory, moment) in (0..sets).flat_map(|memory| [2, 1, 0].map(|moment| (memory, moment)))
                {
                    let price = prices[moment];
                    if memory.count_ones() + moment as u32 > slots {
                        continue;
                    }
                    for at in (0..front).rev().chain([steps]) {
                        let mut best = value[index(memory, at, moment)];
                        if moment < 2 {
                            best = best.min(value[index(memory, at, moment + 1)]);
                        }
                        for step in (0..front).filter(|step| memory >> step & 1 == 1) {
                            best = best.min(value[index(memory & !(1 << step), at, moment)]);
                            best = best.min(value[index(memory, step, moment)]);
                        }
                        if at < steps {
                            best = best.min(value[index(memory | 1 << at, at, moment)]);
                            best = best.min(if at + 1 == front {
                                next[index(memory & !(1 << at), steps, moment)] + price * costs.backward
                            } else {
                                value[index(memory, at + 1, moment)] + price * costs.forward
                            });
                        }
                        if best < value[index(memory, at, moment)] - 1e-12 {
                            value[index(memory, at, moment)] = best;
                            changed = true;
                        }
                    }
                }
            }
            next = value;
        }
        // From the working state at the first step.
        next[index(0, 0, 0)]
    }

    #[test]
    fn no_schedule_of_a_block_beats_the_recurrence() {
        for (forward, backward) in [(1.0, 1.0), (1.0, 0.0), (2.0, 3.0)] {
            let costs = Costs::new(forward, backward).unwrap();
            let revolve = revolve(7, 4, &costs);
            for (u, t) in
                [(0.0, 0.0), (0.0, 0.5), (0.25, 0.5), (0.5, 0.5), (0.5, 0.75), (0.0, 1.0), (1.0, 1.0)]
            {
                let blocks = Blocks::new(&revolve, u, t, forward);
                for (slots, row) in (1..).zip(&blocks.whole) {
                    for (steps, &found) in row.iter().enumerate().skip(1) {
                        let least = searched(steps, slots, [1.0, 1.0 - u, 1.0 - t], &costs);
                        assert!(
                            (found - least).abs() < 1e-9,
                            "({steps}, {slots}, {u}, {t}): {found} {least}"
                        );
                    }
                }
            }
        }
    }
}
