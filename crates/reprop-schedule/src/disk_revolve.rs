//! Disk-Revolve: memory and a disk that never fills.

use crate::error::{require, require_cells};
use crate::h_revolve::MOST_OPERATIONS;
use crate::least::{Backwards, least_sum};
use crate::tiers::{Place, Split, Splits, Walk};
use crate::{Action, Costs, Error, advances};

/// Disk-Revolve (Aupy, Herrmann, Hovland & Robert 2016): the least time with `c` memory slots and an unlimited
/// disk, where every transfer is waited for and a disk snapshot may be read any number of times.
///
/// With `Opt0(l, c)` Revolve's cost of `l + 1` steps:
/// `Opt1(l) = min(Opt0(l, c), min_j j f + Opt0(l-j, c) + r + Opt1(j-1))` starts from a state on disk, and
/// `Opt(l) = min(Opt0(l, c), min_j w + j f + Opt(l-j) + r + Opt1(j-1))` (theorem 1).
///
/// *Time* `O(n^2)` to plan, constant per action; *memory* `O(n)`. *Use it* with a disk and no background
/// transfers. *Not* for very long chains ([`Periodic`](crate::Periodic) plans in constant time) nor with background
/// transfers ([`Async`](crate::Async)).
///
/// ```
/// use reprop_schedule::{Costs, DiskRevolve, advances};
/// let costs = Costs::unit().disk(5.0, 5.0)?;
/// let plan = DiskRevolve::new(100, 5, &costs)?;
/// assert!(plan.makespan() < advances(100, 5) as f64 + 100.0);
/// # Ok::<(), reprop_schedule::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct DiskRevolve {
    makespan: f64,
    walk: Walk<Tables>,
}

impl DiskRevolve {
    /// A schedule for `steps` steps with `slots` memory slots; `costs` prices tier 1.
    ///
    /// # Errors
    /// [`Error::NoSteps`], [`Error::NoSlots`], [`Error::Cost`], [`Error::TooLarge`].
    pub fn new(steps: usize, slots: usize, costs: &Costs) -> Result<Self, Error> {
        require(steps, slots)?;
        let costs = costs.clone().checked()?;
        require_cells("disk-revolve", steps, (steps as u128).pow(2), MOST_OPERATIONS)?;
        Ok(Self::with_first_write(steps, slots, &costs, costs.tier(1).write))
    }

    /// The same where a write on the first way forward has a price of its own. If it is the dearer one,
    /// snapshots are also written on later ways forward.
    pub(crate) fn with_first_write(steps: usize, slots: usize, costs: &Costs, first_write: f64) -> Self {
        let again = Again::new(steps, slots, costs);
        let (makespan, first) = again.sweep(costs, first_write);
        let Again { split, writes, .. } = again;
        let tables = Tables { first, split, writes, capacities: [slots, usize::MAX] };
        Self { makespan, walk: Walk::new(steps, tables) }
    }

    /// The time of the whole reversal, by the dynamic programme.
    pub fn makespan(&self) -> f64 {
        self.makespan
    }
}

impl Iterator for DiskRevolve {
    type Item = Action;

    fn next(&mut self) -> Option<Action> {
        self.walk.next()
    }
}

/// The optimum alone.
pub(crate) fn optimum(steps: usize, slots: usize, costs: &Costs) -> f64 {
    Again::new(steps, slots, costs).sweep(costs, costs.tier(1).write).0
}

/// What sub-chains cost once the first way forward is done, by length.
///
/// With `S(n) = r + min_j j f + Q(j) + R(n - j)` the cost of cutting, `Q(n) = min(Opt0(n), S(n))` starts from
/// a state on disk and `R(n) = min(Opt0(n), w + S(n))` from one that is not. `Q` is the paper's `Opt1`: that
/// `R` behind the cut could write again is never used at equal prices, but is at unequal ones.
#[derive(Debug, Clone)]
pub(crate) struct Again {
    /// `Opt0`.
    pub(crate) memory: Vec<f64>,
    /// `Q`.
    pub(crate) value: Vec<f64>,
    /// The `j` of `Q`, 0 for none.
    pub(crate) split: Vec<u32>,
    /// The `j` of `R`, 0 for none.
    pub(crate) writes: Vec<u32>,
}

impl Again {
    pub(crate) fn new(steps: usize, slots: usize, costs: &Costs) -> Self {
        let (f, b, disk) = (costs.forward, costs.backward, costs.tier(1));
        let memory: Vec<f64> =
            (0..=steps).map(|len| f * advances(len, slots) as f64 + b * len as f64).collect();
        let mut rest = Backwards::of(&memory);
        let mut value = memory.clone();
        let (mut split, mut writes) = (vec![0; steps + 1], vec![0; steps + 1]);
        let mut ahead = vec![f64::INFINITY; steps + 1];
        for len in 1..=steps {
            if let Some((sum, index)) = least_sum(&ahead[1..len], rest.below(len)) {
                let cut = sum + disk.read;
                if cut < value[len] {
                    (value[len], split[len]) = (cut, index as u32 + 1);
                }
                if disk.write + cut < memory[len] {
                    rest.set(len, disk.write + cut);
                    writes[len] = index as u32 + 1;
                }
            }
            ahead[len] = value[len] + len as f64 * f;
        }
        Self { memory, value, split, writes }
    }

    /// `Opt` of the whole chain and its splits on the first way forward.
    fn sweep(&self, costs: &Costs, first_write: f64) -> (f64, Vec<u32>) {
        let steps = self.value.len() - 1;
        let transfers = first_write + costs.tier(1).read;
        // w + j f + r + Opt1(j-1), read backwards beside Opt(l-j), which grows.
        let first: Vec<f64> =
            self.value.iter().enumerate().map(|(j, v)| transfers + j as f64 * costs.forward + v).collect();
        let behind = Backwards::of(&first);
        let mut value = self.memory.clone();
        let mut split = vec![0; steps + 1];
        for len in 2..=steps {
            // Index i stands for a rest of i + 1 steps, hence for j = len - 1 - i.
            if let Some((sum, index)) = least_sum(&value[1..len], behind.below(len))
                && sum < value[len]
            {
                value[len] = sum;
                split[len] = (len - 1 - index) as u32;
            }
        }
        (value[steps], split)
    }
}

#[derive(Debug, Clone)]
struct Tables {
    first: Vec<u32>,
    split: Vec<u32>,
    writes: Vec<u32>,
    capacities: [usize; 2],
}

impl Splits for Tables {
    fn split(&self, Place { len, stored, first, .. }: Place) -> Option<Split> {
        let table = match (stored, first) {
            (true, _) => &self.split,
            (false, true) => &self.first,
            (false, false) => &self.writes,
        };
        let at = table[len] as usize;
        (at > 0).then_some(Split { at, rest: 2 })
    }

    fn capacities(&self) -> &[usize] {
        &self.capacities
    }

    fn memory_is_free(&self) -> bool {
        true
    }
}
