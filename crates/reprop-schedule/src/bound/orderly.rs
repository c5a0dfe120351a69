//! The bound for orderly schedules.
//!
//! **Orderly** is a schedule in which nothing is written after the first reverse step, and what is read first is used up
//! first: of two reads, the one that starts later serves the lower last step. So no state is read while a state below it
//! waits in memory for its turn.
//!
//! **Windows.** Let `F` be the time of the first reverse step, `C` the computation after it, and `y` the part of it that runs
//! while a certain read does, its *window*. Reads run one after the other, so what follows `F` takes at least
//! `C + sum (r - y) >= C + t sum (r - y)` for every `t` in `[0, 1]`: a read costs `t r`, and work in its window `1 - t`. A read
//! in the background holds a slot from its start to its end *without a break*; one that is waited for has an empty window.
//!
//! **Trees.** Trace each step's state back, through runs and memory, to the read, or the state held at `F`, that it came from;
//! leave out runs that serve no step. The steps of one origin are its tree, `i` the lowest. It lives from the start of its read
//! until step `i` is reversed. All that time it has a slot, for its read or for a state at `i` or below, but for its last
//! run, and while a run moves its lowest state up, when nothing is computed above `i`.
//!
//! **Blocks.** The lowest steps of all trees cut the chain into blocks. Look at one, of `g` steps from `i` on, and at the
//! work in it alone. It is done by trees whose lowest step is `i` or lower, since no tree has its lowest step inside. Each of
//! them that lives holds a slot at `i` or below: so the work is a schedule of `g` steps from a given first state, with
//! `m` slots, that of the first state counted. With `m = s` it costs Revolve's `M(g, s)` without windows. Let the first
//! window in which some of it runs be that of tree `x`. Then `x` has its lowest step below `i`: others have not been
//! read, as reads are used up in order. So from the window's start to the end of the block `x` holds a slot, and
//! another tree one at `i` or below: the work has *one slot less until the block is done*, and at best all of it is in windows.
//! So the block costs at least `N(g, s)`, the least cost of `g` steps with `m` slots at price 1 up to some moment, and with
//! `m - 1` at price `1 - t` from then on. If the tree was held at `F`, so were those of the blocks below that, each of which holds a
//! slot too: they cost `N(g, s)`, `N(g, s - 1)`, ... from the lowest up.
//!
//! **N.** Prices fall with time, so work that is put off costs no more; and a state dropped before its step is reversed
//! might be kept one step later instead. So let `x_j` be the lowest state saved on the first run. It stays, what lies above
//! starts from it, with a slot less, and what lies below comes after. `N(g, m)` is the least of
//! - `M(g, m)`, and `(1 - t) M(g, m - 1)` if the moment comes before anything is saved;
//! - `j f + M(g - j, m - 1) + N(j, m)` if it comes below `x_j`;
//! - `j f + N(g - j, m - 1) + (1 - t) M(j, m - 1)` if it comes above.
//!
//! **Ways up.** A tree read from `x_d` goes up `e = i - d` steps first. If some of that way is in the window of a tree `x`, it
//! shares memory with `x` from before it enters its block: way and block cost at least `(1 - t) (e f + M(g, s - 1))`; otherwise
//! `e f + N(g, s)`. What other trees below did in the block before was done beside this one: again with `s - 1`.
//!
//! **Together.** Take each tree from the nearest state on disk below its block, leave out the others, and put these where the
//! lowest block above them starts: no way gets longer. So what lies between two of them is cut into blocks:
//! `Q(l) = min(N(l, s), min_j min(j f + N(l - j, s), (1 - t) (j f + M(l - j, s - 1))) + t r + Q(j))`. With `k` states on disk at
//! `F`, `F >= max(f (n - 1), w k) >= (1 - a) f (n - 1) + a w k`. So each costs `a w + t r` and its `Q`. The bound is
//! concave in `t` and `a`.

use super::memory::{Price, increments};
use super::phases::{least_cuts, least_sum_of, sums, with_gap};
use super::{golden_section, largest};
use crate::Costs;
use crate::least::{Backwards, least_sum};

/// The costs of blocks with a given `t`.
struct Blocks {
    /// `N(., m)` by `m`, from `m = 1` on.
    windowed: Vec<Vec<f64>>,
    /// `Q`.
    gaps: Vec<f64>,
}

/// `M(., m)` for `m` up to `slots`, by length; without a slot, one step can be reversed from the working state.
fn revolve(longest: usize, slots: usize, costs: &Costs) -> Vec<Vec<f64>> {
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

impl Blocks {
    fn new(revolve: &[Vec<f64>], t: f64, forward: f64, read: f64) -> Self {
        let mut rows: Vec<Vec<f64>> = vec![];
        for pair in revolve.windows(2) {
            rows.push(windowed(&pair[1], &pair[0], rows.last(), t, forward));
        }
        let slots = rows.len();
        let (whole, within) = (&rows[slots - 1], in_window(&revolve[slots - 1], t));
        let (whole_behind, within_behind) = (Backwards::of(whole), Backwards::of(&within));
        let mut gaps = whole.clone();
        let (mut ahead, mut ahead_within) = (vec![0.0; gaps.len()], vec![0.0; gaps.len()]);
        for l in 1..gaps.len() {
            for (ahead, behind) in [(&ahead, &whole_behind), (&ahead_within, &within_behind)] {
                if let Some((sum, _)) = least_sum(&ahead[1..l], behind.below(l)) {
                    gaps[l] = gaps[l].min(sum + t * read);
                }
            }
            let way = l as f64 * forward;
            (ahead[l], ahead_within[l]) = (gaps[l] + way, gaps[l] + (1.0 - t) * way);
        }
        Self { windowed: rows, gaps }
    }

    /// The least cost of the blocks of states held at `F`, by length.
    fn held(&self) -> Vec<f64> {
        let mut value = vec![f64::INFINITY; self.gaps.len()];
        value[0] = 0.0;
        self.windowed.iter().fold(value, |value, row| with_gap(&value, row, value.clone()))
    }
}

/// The bound with the best `t` and `a`.
pub(super) fn orderly(steps: usize, slots: usize, costs: &Costs) -> f64 {
    let (forward, disk) = (costs.forward, costs.tier(1));
    let length = steps - 1;
    let revolve = revolve(length, slots.min(length), costs);
    largest(0.0, 1.0, |t| {
        let blocks = Blocks::new(&revolve, t, forward, disk.read);
        let held = blocks.held();
        let bound = |a: f64| {
            let cuts = least_cuts(&blocks.gaps, a * disk.write + t * disk.read);
            (1.0 - a) * forward * length as f64 + (1.0 - t) * costs.backward + least_sum_of(&held, &cuts)
        };
        golden_section(0.0, 1.0, 14, bound).1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least cost of a block by search: front, working state, states in memory (the first one among them), and whether the
    /// moment has come, after which there is a slot less and work is cheaper.
    fn searched(steps: usize, slots: u32, t: f64, costs: &Costs) -> f64 {
        let sets = 1_usize << steps;
        // Costs to go by memory, working state and moment; `steps` stands for none.
        let index = |memory: usize, at: usize, late: usize| (memory * (steps + 1) + at) * 2 + late;
        let mut next = vec![0.0; sets * (steps + 1) * 2];
        for front in 1..=steps {
            let mut value = vec![f64::INFINITY; sets * (steps + 1) * 2];
            let mut changed = true;
            while std::mem::take(&mut changed) {
                for (memory, late) in (0..sets).flat_map(|memory| [(memory, 1), (memory, 0)]) {
                    let (price, room) = if late == 1 { (1.0 - t, slots - 1) } else { (1.0, slots) };
                    if memory.count_ones() > room {
                        continue;
                    }
                    for at in (0..front).rev().chain([steps]) {
                        let mut best = value[index(memory, at, late)];
                        if late == 0 {
                            best = best.min(value[index(memory, at, 1)]);
                        }
                        for step in (0..front).filter(|step| memory >> step & 1 == 1) {
                            best = best.min(value[index(memory & !(1 << step), at, late)]);
                            best = best.min(value[index(memory, step, late)]);
                        }
                        if at < steps {
                            best = best.min(value[index(memory | 1 << at, at, late)]);
                            best = best.min(if at + 1 == front {
                                next[index(memory & !(1 << at), steps, late)] + price * costs.backward
                            } else {
                                value[index(memory, at + 1, late)] + price * costs.forward
                            });
                        }
                        if best < value[index(memory, at, late)] - 1e-12 {
                            value[index(memory, at, late)] = best;
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
            for t in [0.0, 0.25, 0.5, 0.75, 1.0] {
                let revolve = revolve(7, 4, &costs);
                let blocks = Blocks::new(&revolve, t, forward, 0.0);
                for (slots, row) in (1..).zip(&blocks.windowed) {
                    for (steps, &found) in row.iter().enumerate().skip(1) {
                        let least = searched(steps, slots, t, &costs);
                        assert!((found - least).abs() < 1e-9, "({steps}, {slots}, {t}): {found} {least}");
                    }
                }
            }
        }
    }
}
