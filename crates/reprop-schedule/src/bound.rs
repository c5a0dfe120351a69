//! How little time any schedule can take.

use crate::{Channels, Costs, Error, Transfer, disk_revolve};

/// The longest chain for which the bound weighs transfers; beyond, it counts the computation alone.
pub(crate) const LONGEST_WEIGHED: usize = 3000;

/// A time that no schedule with `slots` memory slots and an unlimited disk beats, with transfers in the
/// background, whatever its order.
///
/// *Proof.* Let a schedule compute for `C` and transfer for `X` (one channel). Both run on clocks of their own, so its
/// makespan is at least `max(C, X) >= (1 - a) C + a X` for every `a` in `[0, 1]`. The same actions, each
/// waited for, are a synchronous schedule that costs `(1 - a) C + a X` at the prices `(1 - a) f`,
/// `(1 - a) b`, `a w`, `a r`; the cheapest of those is Disk-Revolve's optimum at these prices. The bound is
/// the largest over `a`: as a minimum of linear functions it is concave in `a`, so a ternary search finds
/// it, and every `a` tried is a bound by itself. With separate channels `X` is the longer of the two, and
/// half their sum is no longer than that: transfers count half.
///
/// *Time* `O(n^2)` times the number of `a` tried. Chains beyond 3000 steps get `f (n - 1) + b n`.
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
    if steps > LONGEST_WEIGHED {
        return Ok(computation);
    }
    let share = if channels == Channels::Shared { 1.0 } else { 0.5 };
    let weighed = |a: f64| disk_revolve::optimum(steps, slots, &weigh(&costs, 1.0 - a, a * share, a * share));
    let (mut low, mut high) = (0.0, 1.0);
    let mut best = computation;
    for _ in 0..40 {
        let (left, right) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
        let (at_left, at_right) = (weighed(left), weighed(right));
        best = best.max(at_left).max(at_right);
        if at_left < at_right { low = left } else { high = right }
    }
    Ok(best)
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
