//! Disk-Revolve: memory and a disk that never fills.

use crate::error::{require, require_cells};
use crate::h_revolve::MOST_OPERATIONS;
use crate::least::{Backwards, least_sum};
use crate::tiers::{Place, Split, Splits, Walk};
use crate::{Action, Costs, Error, Transfer, advances};

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
///
/// // Twelve steps, two slots, w = r = 2: Revolve takes t(12, 2) + 12 = 28 + 12. With x_0 on disk, x_3 and x_8 have the
/// // slots: the way to x_3 takes 3, the nine steps from there t(9, 2) + 9 = 17 + 9, the three below
/// // t(3, 2) + 3 = 2 + 3 with both slots free again, and a write and a read 4.
/// let plan = DiskRevolve::new(12, 2, &Costs::unit().disk(2.0, 2.0)?)?;
/// assert_eq!((advances(12, 2), advances(9, 2), plan.makespan()), (28, 17, 38.0));
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
        let again = Again::new(steps, slots, &costs);
        let makespan = again.fresh;
        Ok(Self { makespan, walk: Walk::new(steps, Tables { again, capacities: [slots, usize::MAX] }) })
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

/// What sub-chains cost, by length.
///
/// With `S(n) = r + min_j j f + Q(j) + R(n - j)` the cost of cutting, `Q(n) = min(Opt0(n), S(n))` starts from
/// a state on disk and `R(n) = min(Opt0(n), w + S(n))` from one that is not. `R` is the paper's `Opt`. `Q` is
/// its `Opt1`, except that it may write again behind its cut; the paper proves that it never has to.
#[derive(Debug, Clone)]
pub(crate) struct Again {
    /// `Opt0`.
    pub(crate) memory: Vec<f64>,
    /// `Q`.
    pub(crate) value: Vec<f64>,
    /// `R` of the whole chain.
    pub(crate) fresh: f64,
    /// The `j` of `Q`, 0 for none.
    split: Vec<u32>,
    /// The `j` of `R`, 0 for none.
    writes: Vec<u32>,
}

impl Again {
    pub(crate) fn new(steps: usize, slots: usize, costs: &Costs) -> Self {
        let (f, b) = (costs.forward, costs.backward);
        let memory = (0..=steps).map(|len| f * advances(len, slots) as f64 + b * len as f64).collect();
        Self::over(memory, f, costs.tier(1))
    }

    /// The same, with `memory` as the cost of sub-chains without the disk.
    pub(crate) fn over(memory: Vec<f64>, f: f64, disk: Transfer) -> Self {
        let steps = memory.len() - 1;
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
        let fresh = rest.get(steps);
        Self { memory, value, fresh, split, writes }
    }

    /// Where to cut a sub-chain whose first state is on disk (`stored`) or not.
    pub(crate) fn cut(&self, len: usize, stored: bool) -> Option<Split> {
        let at = if stored { self.split[len] } else { self.writes[len] } as usize;
        (at > 0).then_some(Split { at, rest: 2 })
    }
}

#[derive(Debug, Clone)]
struct Tables {
    again: Again,
    capacities: [usize; 2],
}

impl Splits for Tables {
    fn split(&self, Place { len, stored, .. }: Place) -> Option<Split> {
        self.again.cut(len, stored)
    }

    fn capacities(&self) -> &[usize] {
        &self.capacities
    }

    fn memory_is_free(&self) -> bool {
        true
    }
}
