//! Periodic Disk-Revolve: a disk snapshot at equal distances.

use crate::disk_revolve::Again;
use crate::error::{require, require_cells};
use crate::h_revolve::MOST_OPERATIONS;
use crate::tiers::{Place, Split, Splits, Walk};
use crate::{Action, Costs, Error};

/// Periodic Disk-Revolve (Aupy & Herrmann 2017): writes `x_0, x_p, x_2p, …` to disk, and reverses each period
/// with Disk-Revolve's `Opt1`. The best period of an endless chain,
/// `argmin (w + r + p f + Opt1(p - 1)) / p`, bounds the search; the one taken is the best for this length, and
/// the cost per step tends to Disk-Revolve's.
///
/// *Time* `O(p^2)` to plan, constant per action; *memory* `O(p + n / p)`. *Use it* for chains too long for
/// [`DiskRevolve`](crate::DiskRevolve). *Not* where that one can be afforded: it is never worse.
///
/// ```
/// use reprop_schedule::{Costs, Periodic};
/// let costs = Costs::unit().disk(5.0, 5.0)?;
/// let plan = Periodic::new(10_000_000, 5, &costs)?;
/// assert_eq!(plan.period(), 21); // C(5 + 2, 2): the longest chain with two repetitions
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
        let again = loop {
            require_cells("periodic", steps, (reach as u128).pow(2), MOST_OPERATIONS)?;
            let again = Again::new(reach, slots, &costs);
            let endless = least(1..=reach, |&p| price(&again, p) / p as f64).map_or(1, |(p, _)| p);
            // The price per step falls to one valley and then rises: the minimum is inside once the table
            // reaches twice as far.
            if reach == steps || 2 * endless <= reach {
                break again;
            }
            reach = (2 * reach).min(steps);
        };
        // The last part stays in memory and may be longer than a period.
        let plans = (1..=reach).flat_map(|p| {
            let tails = (0..=(steps - 1) / p).rev().map(move |rounds| steps - rounds * p);
            tails.take_while(|&tail| tail <= reach).map(move |tail| (p, tail))
        });
        let whole =
            |&(p, tail): &(usize, usize)| ((steps - tail) / p) as f64 * price(&again, p) + again.memory[tail];
        let Some(((period, tail), makespan)) = least(plans, whole) else { return Err(Error::NoSteps) };
        let tables = Tables { period, tail, again, capacities: [slots, usize::MAX] };
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

/// The first candidate of the least value, and the value.
fn least<T>(candidates: impl Iterator<Item = T>, value: impl Fn(&T) -> f64) -> Option<(T, f64)> {
    let valued = candidates.map(|candidate| (value(&candidate), candidate));
    let best = valued.reduce(|best, found| if found.0 < best.0 { found } else { best });
    best.map(|(value, candidate)| (candidate, value))
}

#[derive(Debug, Clone)]
struct Tables {
    period: usize,
    /// Steps behind the last disk snapshot.
    tail: usize,
    again: Again,
    capacities: [usize; 2],
}

impl Splits for Tables {
    fn split(&self, Place { len, stored, first, .. }: Place) -> Option<Split> {
        if stored || !first {
            return self.again.cut(len, stored);
        }
        (len > self.tail).then_some(Split { at: self.period, rest: 2 })
    }

    fn capacities(&self) -> &[usize] {
        &self.capacities
    }

    fn memory_is_free(&self) -> bool {
        true
    }
}
