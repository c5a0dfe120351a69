//! Periodic Disk-Revolve: a disk snapshot at equal distances.

use crate::disk_revolve::Again;
use crate::error::{require, require_cells};
use crate::h_revolve::MOST_OPERATIONS;
use crate::tiers::{Place, Split, Splits, Walk};
use crate::{Action, Costs, Error};

/// Periodic Disk-Revolve (Aupy & Herrmann 2017): writes `x_0, x_p, x_2p, …` to disk, and reverses each period
/// with Disk-Revolve's `Opt1`. The best period does not depend on the length of the chain:
/// `p = argmin (w + r + p f + Opt1(p - 1)) / p`, and the cost per step tends to Disk-Revolve's.
///
/// *Time* `O(p^2)` to plan, constant per action; *memory* `O(p + n / p)`. *Use it* for chains too long for
/// [`DiskRevolve`](crate::DiskRevolve). *Not* where that one can be afforded: it is never worse.
///
/// ```
/// use reprop_schedule::{Costs, Periodic};
/// let costs = Costs::unit().disk(5.0, 5.0)?;
/// let plan = Periodic::new(10_000_000, 5, &costs)?;
/// assert_eq!(plan.period(), Periodic::new(1000, 5, &costs)?.period());
/// # Ok::<(), reprop_schedule::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Periodic {
    makespan: f64,
    walk: Walk<Tables>,
}

impl Periodic {
    /// A schedule for `steps` steps with `slots` memory slots; `costs` prices tier 1.
    ///
    /// # Errors
    /// [`Error::NoSteps`], [`Error::NoSlots`], [`Error::Cost`], [`Error::TooLarge`].
    pub fn new(steps: usize, slots: usize, costs: &Costs) -> Result<Self, Error> {
        require(steps, slots)?;
        let costs = costs.clone().checked()?;
        let transfers = costs.tier(1).write + costs.tier(1).read;
        let price = |again: &Again, p: usize| transfers + p as f64 * costs.forward + again.value[p];
        let mut reach = steps.min(64);
        let (again, period) = loop {
            require_cells("periodic", steps, (reach as u128).pow(2), MOST_OPERATIONS)?;
            let again = Again::new(reach, slots, &costs);
            let per_step = |p: usize| price(&again, p) / p as f64;
            let period = (1..=reach).min_by(|&p, &q| per_step(p).total_cmp(&per_step(q))).unwrap_or(1);
            // The price per step falls to one valley and then rises: the minimum is inside once the table
            // reaches twice as far.
            if reach == steps || 2 * period <= reach {
                break (again, period);
            }
            reach = (2 * reach).min(steps);
        };
        let rounds = (steps - 1) / period;
        let makespan = rounds as f64 * price(&again, period) + again.memory[steps - rounds * period];
        let Again { split, writes, .. } = again;
        let tables = Tables { period, split, writes, capacities: [slots, usize::MAX] };
        Ok(Self { makespan, walk: Walk::new(steps, tables) })
    }

    /// Steps from one disk snapshot to the next.
    pub fn period(&self) -> usize {
        self.walk.splits.period
    }

    /// The time of the whole reversal.
    pub fn makespan(&self) -> f64 {
        self.makespan
    }
}

impl Iterator for Periodic {
    type Item = Action;

    fn next(&mut self) -> Option<Action> {
        self.walk.next()
    }
}

#[derive(Debug, Clone)]
struct Tables {
    period: usize,
    split: Vec<u32>,
    writes: Vec<u32>,
    capacities: [usize; 2],
}

impl Splits for Tables {
    fn split(&self, Place { len, stored, first, .. }: Place) -> Option<Split> {
        let at = match (stored, first) {
            (true, _) => self.split[len] as usize,
            (false, true) if len > self.period => self.period,
            (false, true) => 0,
            (false, false) => self.writes[len] as usize,
        };
        (at > 0).then_some(Split { at, rest: 2 })
    }

    fn capacities(&self) -> &[usize] {
        &self.capacities
    }

    fn memory_is_free(&self) -> bool {
        true
    }
}
