//! The bound for one memory slot.
//!
//! **Trees.** After the first reverse step, at time `F`, trace each step's state back through runs and memory to the
//! read, or the state held at `F`, that it came from. The steps of one read are its *tree*: `g` of them, the lowest
//! `e` above the state read. Each run reverses one step, and starts at the state read or at what the slot holds,
//! which is at or below the tree's lowest step and only rises. So a tree computes for `e f + t(g) + b g` at least,
//! with `t(g) = f g (g - 1) / 2`, and `h f` more for each run but the first that starts `h` below its lowest step.
//!
//! **Reads.** A read in the background holds the slot. So it hides behind one run only, the last of a tree: while the
//! slot holds a state still needed no such read runs, and after the run there is nothing to compute from. That run
//! takes `b`, or `f` more for each step that it starts lower, which costs the tree's other runs as much. With the
//! read behind it, a tree of `g > 1` steps takes at least `e f + t(g) + b g + max(r - b, 0)`, and one of a single step
//! `max(e f + b, r)`. While the slot is held, a read can only go straight into the working state: it hides nothing
//! and serves one step, for `r + b` at least. Without those steps, trees lie one above the other. The tree of
//! the state held at `F` has no read of its own: `b + t(l - 1) + b (l - 1) - min(r, b)` for `l` steps.
//!
//! **Writes after `F`.** Let a tree write a state for a later one, `h` below its lowest step and `d` below the next state
//! that it writes, or again its lowest step. Either its next run starts from there, for `h f`; or the slot is filled
//! anew on the same run, after a wait of `w - d f`; or no run follows, and the last one hides that much less of a
//! read. A write straight from the working state takes `w`. So it costs at least
//! `p(d, h) = min(h f, max(w - d f, 0), r)`; if `r < b`, nothing.
//!
//! **Gaps.** A gap is what lies above a state on disk, up to the next. Let `Q(l)` be the least time of `l` steps, and
//! `V(e, h) = min(Q(e), min_d p(d, h + d) + Q(d) + V(e - d, h + d))` that of the `e` lowest of them, `h` below the
//! lowest step of the tree that has just been there. Then `Q(l)` is the least of
//! - `tree(e, l - e) + V(e, 0)`: the first tree that starts here;
//! - `Q(l - 1) + r + b`: a step on its own;
//! - `l f + Q(d) + V(l - d, d)`: a tree from further below has crossed the gap, `l f` that it could have saved, and
//!   has written states in it, the first of them for nothing.
//!
//! **Together.** With `k` states on disk at `F`, it is at least `max(f (n - 1), w k) >= (1 - m) f (n - 1) + m w k` for every
//! `m` in `[0, 1]`. So each gap pays `m w`, but for one: its first state may be the one held at `F`. The tree of that
//! one crosses the gap that it lies in for less: only the way from the lowest state written on.

use std::ops::Range;

use super::largest;
use crate::Costs;
use crate::least::{Backwards, least_sum};

/// The longest gap that is priced exactly; a longer one costs no less than its parts, each with its first state and
/// the first read of it given.
const LONGEST_GAP: usize = 400;

fn least(range: Range<usize>, cost: impl Fn(usize) -> f64) -> f64 {
    range.map(cost).fold(f64::INFINITY, f64::min)
}

/// What gaps cost, by length, and what one of them may cost less.
struct Gaps {
    costs: Vec<f64>,
    gift: f64,
}

struct Single {
    forward: f64,
    backward: f64,
    write: f64,
    read: f64,
}

impl Single {
    /// Revolve's time with one slot.
    fn revolve(&self, steps: usize) -> f64 {
        let n = steps as f64;
        self.forward * 0.5 * n * (n - 1.0) + self.backward * n
    }

    /// `p(below, lowest)`.
    fn late_write(&self, below: usize, lowest: usize) -> f64 {
        if self.read < self.backward {
            return 0.0;
        }
        let wait = self.write - below as f64 * self.forward;
        (lowest as f64 * self.forward).min(wait.max(0.0)).min(self.read)
    }

    fn gaps(&self, longest: usize) -> Gaps {
        let (f, b, r) = (self.forward, self.backward, self.read);
        let hops = if f * (longest as f64) > self.write { (self.write / f).ceil() as usize } else { longest };
        let trees: Vec<f64> = (0..=longest).map(|g| self.revolve(g) + (r - b).max(0.0)).collect();
        let late: Vec<Vec<f64>> =
            (0..=hops).map(|h| (0..=longest).map(|d| self.late_write(d, h)).collect()).collect();
        let mut q = vec![0.0; longest + 1];
        // `V(e, h)` by `h`, as far as it matters, and `e`; and the same for a tree that pays its way over the gap.
        let mut rest = vec![vec![0.0; longest + 1]; hops + 1];
        let mut paid = rest.clone();
        for l in 1..=longest {
            let single = ((l - 1) as f64 * f + b).max(r) + rest[0][l - 1];
            let more = least(0..l - 1, |e| e as f64 * f + trees[l - e] + rest[0][e]);
            let crossed = l as f64 * f + least(1..l, |d| q[d] + rest[d.min(hops)][l - d]);
            q[l] = single.min(more).min(crossed).min(q[l - 1] + r + b);
            for d in 0..=hops {
                let (mut free, mut way) = (q[l], q[l]);
                for below in 1..l {
                    let far = (d + below).min(hops);
                    let written = late[far][below] + q[below];
                    free = free.min(written + rest[far][l - below]);
                    way = way.min(written + below as f64 * f + paid[far][l - below]);
                }
                (rest[d][l], paid[d][l]) = (free, way);
            }
        }
        let entered = |l: usize| least(1..l, |d| d as f64 * f + q[d] + paid[d.min(hops)][l - d]);
        let gift = (1..=longest).map(|l| q[l] - entered(l)).fold(0.0, f64::max);
        Gaps { costs: q, gift }
    }

    /// The time after `F`, and `m w` for each state on disk by then.
    fn after(&self, steps: usize, Gaps { costs: gaps, gift }: &Gaps, m: f64) -> f64 {
        let longest = gaps.len() - 1;
        let hidden = self.read.min(self.backward);
        let held = |l: usize| self.backward + self.revolve(l - 1) - hidden;
        let paid: Vec<f64> = (0..=longest).map(|l| gaps[l] + m * self.write).collect();
        let gift = m * self.write + gift;
        if steps <= longest {
            let behind = Backwards::of(&paid);
            let mut value = paid;
            value[0] = 0.0;
            for l in 1..=steps {
                if let Some((sum, _)) = least_sum(&value[1..l], behind.below(l)) {
                    value[l] = value[l].min(sum);
                }
                value[l] = value[l].min(value[l - 1] + self.read + self.backward);
            }
            return least(1..steps + 1, |l| held(l) + value[steps - l]) - gift;
        }
        let whole = least(1..longest + 1, |l| paid[l] / l as f64).min(self.read + self.backward);
        let rate = least(longest / 2..longest + 1, |l| (gaps[l] - self.read) / l as f64).min(whole);
        least(1..longest + 1, |l| held(l) + rate * (steps - l) as f64) - gift
    }
}

/// The bound with the best `m`.
pub(super) fn single_slot(steps: usize, costs: &Costs) -> f64 {
    let disk = costs.tier(1);
    let single =
        Single { forward: costs.forward, backward: costs.backward, write: disk.write, read: disk.read };
    let gaps = single.gaps(steps.min(LONGEST_GAP));
    let sweep = costs.forward * (steps - 1) as f64;
    largest(0.0, 1.0, |m| (1.0 - m) * sweep + single.after(steps, &gaps, m))
}
