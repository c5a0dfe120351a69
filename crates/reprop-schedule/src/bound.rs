//! How little time any schedule can take.

use crate::disk_revolve::Again;
use crate::least::{Backwards, least_sum};
use crate::{Channels, Costs, Error, Transfer};

/// The longest chain for which the bound weighs transfers; beyond, it counts the computation alone.
pub(crate) const LONGEST_WEIGHED: usize = 3000;

/// A time that no schedule with `slots` memory slots and an unlimited disk beats, with transfers in the
/// background, whatever its order: the larger of two bounds.
///
/// *Whole run.* Let a schedule compute for `C` and transfer for `X` (one channel). Each runs on its own clock, so
/// the makespan is at least `max(C, X) >= (1 - a) C + a X` for every `a` in `[0, 1]`. The same actions, each
/// waited for, are a synchronous schedule that costs `(1 - a) C + a X` at the prices `(1 - a) f`,
/// `(1 - a) b`, `a w`, `a r`; the cheapest of those is Disk-Revolve's optimum at these prices. As a minimum
/// of linear functions it is concave in `a`: a golden-section search finds the largest.
///
/// *Two phases.* Let `F` be the time of the first reverse step, and `k` the number of snapshots on disk by
/// then. Before it, `F >= max(f (n-1), w k) >= (1 - m) f (n-1) + m w k`. After it, the chain lies in gaps
/// between the states at hand: `k` on disk, at most `s` in memory, and `x_{n-1}` itself. Given all slots for
/// itself, a gap of `g` steps costs at least `Q(g)` at the prices above (Disk-Revolve's `Opt1`), and one
/// whose state is on disk a read. So the makespan is at least
/// `(1 - m) f (n-1) - s (m w + a r) + (1 - a) b + min sum (Q(g_i) + m w + a r)` over the ways to cut `n - 1`
/// steps into gaps, for all `a` and `m`; it is concave in both.
///
/// With separate channels the transfer time is at least half the sum of both: transfers count half.
///
/// *Time* `O(n^2)` for each of some three hundred trials. Chains beyond 3000 steps get `f (n - 1) + b n`.
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
    if steps > LONGEST_WEIGHED || steps == 1 {
        return Ok(computation);
    }
    let share = if channels == Channels::Shared { 1.0 } else { 0.5 };
    let weighed = |a: f64| Again::new(steps, slots, &weigh(&costs, 1.0 - a, a * share, a * share)).fresh;
    let whole = largest(0.0, 1.0, weighed);
    let phases = largest(0.0, 1.0, |a| two_phases(steps, slots, &costs, a, share));
    Ok(computation.max(whole).max(phases))
}

fn two_phases(steps: usize, slots: usize, costs: &Costs, a: f64, share: f64) -> f64 {
    let priced = weigh(costs, 1.0 - a, a * share, a * share);
    let gaps = Again::new(steps - 1, slots, &priced).value;
    let sweep = costs.forward * (steps - 1) as f64;
    // Writes have their own channel when there are two, so before the first reverse step they count whole.
    largest(0.0, 1.0, |m| {
        let per_gap = m * costs.tier(1).write + priced.tier(1).read;
        let cut = least_cut(&gaps, per_gap);
        (1.0 - m) * sweep - slots as f64 * per_gap + priced.backward + cut
    })
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

/// The largest value found of a concave function between `low` and `high`, by golden section: one new value a
/// round, and each value is a bound by itself.
fn largest(mut low: f64, mut high: f64, function: impl Fn(f64) -> f64) -> f64 {
    const GOLDEN: f64 = 0.618_033_988_749_895;
    const ROUNDS: usize = 16;
    let (mut left, mut right) = (high - GOLDEN * (high - low), low + GOLDEN * (high - low));
    let (mut at_left, mut at_right) = (function(left), function(right));
    let mut best = at_left.max(at_right);
    for _ in 0..ROUNDS {
        if at_left < at_right {
            low = left;
            (left, at_left) = (right, at_right);
            right = low + GOLDEN * (high - low);
            at_right = function(right);
        } else {
            high = right;
            (right, at_right) = (left, at_left);
            left = high - GOLDEN * (high - low);
            at_left = function(left);
        }
        best = best.max(at_left).max(at_right);
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
