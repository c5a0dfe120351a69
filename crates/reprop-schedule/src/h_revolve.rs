//! H-Revolve: any number of tiers, each with its size and its costs.

use crate::error::{require, require_cells};
use crate::least::{Backwards, least_sum};
use crate::tiers::{Place, Split, Splits, Walk};
use crate::{Action, Costs, Error, Transfer, advances};

/// The most elementary operations a dynamic programme may take: about ten seconds.
pub(crate) const MOST_OPERATIONS: u128 = 20_000_000_000;

/// One storage: how many snapshots it holds and what they cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tier {
    /// Snapshots it holds.
    pub slots: usize,
    /// What one write and one read cost.
    pub transfer: Transfer,
}

impl Tier {
    /// A tier of `slots` slots with these costs.
    pub const fn new(slots: usize, write: f64, read: f64) -> Self {
        Self { slots, transfer: Transfer { write, read } }
    }
}

/// H-Revolve (Herrmann & Pallez 2020): the least time with `K` tiers, where every transfer is waited for.
///
/// For a sub-chain of `l + 1` steps and `m` free slots on tier `k` (equations 6 and 7 of the paper):
/// `opt_k(l, m) = min(opt_{k-1}(l, c_{k-1}), w_k + opt'_k(l, m))` and
/// `opt'_k(l, m) = min(opt_{k-1}(l, c_{k-1}), min_j j f + opt_k(l-j, m-1) + r_k + opt'_k(j-1, m))`.
/// Memory with free transfers is Revolve's closed form.
///
/// *Time* `O(n^2 sum_k c_k)` to plan, constant per action; *memory* `O(n sum_k c_k)`.
/// *Use it* with a disk of limited size and no background transfers. *Not* with background transfers
/// ([`Async`](crate::Async) hides them) nor with unlimited disk ([`DiskRevolve`](crate::DiskRevolve) plans faster).
///
/// ```
/// use reprop_schedule::{Costs, HRevolve, Tier};
/// let tiers = [Tier::new(5, 0.0, 0.0), Tier::new(10, 5.0, 5.0)];
/// let plan = HRevolve::new(100, &tiers, &Costs::unit())?;
/// assert_eq!(plan.makespan(), 380.0);
/// # Ok::<(), reprop_schedule::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct HRevolve {
    makespan: f64,
    walk: Walk<Tables>,
}

impl HRevolve {
    /// A schedule for `steps` steps; the transfer costs are those of `tiers`, memory first.
    ///
    /// # Errors
    /// [`Error::NoSteps`], [`Error::NoSlots`], [`Error::Cost`], [`Error::TooLarge`].
    pub fn new(steps: usize, tiers: &[Tier], costs: &Costs) -> Result<Self, Error> {
        let costs = Costs { tiers: tiers.iter().map(|tier| tier.transfer).collect(), ..*costs }.checked()?;
        let slots: Vec<usize> = tiers.iter().map(|tier| tier.slots.min(steps)).collect();
        require(steps, slots.first().copied().unwrap_or(0))?;
        let memory_is_free = costs.tier(0) == Transfer::default();
        let tables = Tables::new(steps, slots, &costs, memory_is_free)?;
        Ok(Self { makespan: tables.makespan, walk: Walk::new(steps, tables) })
    }

    /// The time of the whole reversal, by the dynamic programme.
    pub fn makespan(&self) -> f64 {
        self.makespan
    }
}

impl Iterator for HRevolve {
    type Item = Action;

    fn next(&mut self) -> Option<Action> {
        self.walk.next()
    }
}

/// The best split of one sub-chain: 0 where the faster tiers do it alone.
#[derive(Debug, Clone, Copy, Default)]
struct Choice {
    fresh: u32,
    stored: u32,
}

#[derive(Debug, Clone)]
struct Tables {
    slots: Vec<usize>,
    memory_is_free: bool,
    /// Per level, the choices of `(free, len)` at `(free - 1) * (steps + 1) + len`.
    choices: Vec<Vec<Choice>>,
    width: usize,
    makespan: f64,
}

impl Tables {
    fn new(steps: usize, slots: Vec<usize>, costs: &Costs, memory_is_free: bool) -> Result<Self, Error> {
        let first = usize::from(memory_is_free);
        let planned = slots[first..].iter().map(|&c| c as u128).sum::<u128>();
        require_cells("h-revolve", steps, planned * (steps as u128).pow(2), MOST_OPERATIONS)?;
        let (f, b) = (costs.forward, costs.backward);
        // What the tiers below the first planned one do: Revolve, or reverse a single step.
        let mut faster: Vec<f64> = (0..=steps)
            .map(|len| match len {
                _ if memory_is_free => f * advances(len, slots[0]) as f64 + b * len as f64,
                1 => b,
                _ => f64::INFINITY,
            })
            .collect();
        let mut choices = vec![vec![]; first];
        for (tier, &capacity) in slots.iter().enumerate().skip(first) {
            let mut chosen = vec![Choice::default(); capacity * (steps + 1)];
            let mut fresh = faster.clone();
            for row in chosen.chunks_exact_mut(steps + 1) {
                fresh = fill_row(row, &faster, &fresh, f, costs.tier(tier));
            }
            choices.push(chosen);
            faster = fresh;
        }
        Ok(Self { slots, memory_is_free, choices, width: steps + 1, makespan: faster[steps] })
    }
}

/// One more slot on a tier: from `opt_{k-1}` and `opt_k(., m-1)` to `opt_k(., m)`, noting the choices.
fn fill_row(row: &mut [Choice], faster: &[f64], one_less: &[f64], f: f64, cost: Transfer) -> Vec<f64> {
    let behind = Backwards::of(one_less);
    let mut fresh = faster.to_vec();
    // opt'(j) + j f, so that the inner loop is one addition.
    let mut ahead = vec![f64::INFINITY; faster.len()];
    for len in 1..faster.len() {
        let best = least_sum(&ahead[1..len], behind.below(len));
        let mut stored = faster[len];
        if let Some((split, index)) = best.map(|(sum, index)| (sum + cost.read, index)) {
            if split < stored {
                stored = split;
                row[len].stored = index as u32 + 1;
            }
            if cost.write + split < fresh[len] {
                fresh[len] = cost.write + split;
                row[len].fresh = index as u32 + 1;
            }
        }
        ahead[len] = stored + len as f64 * f;
    }
    fresh
}

impl Splits for Tables {
    fn split(&self, Place { level, len, free, stored, .. }: Place) -> Option<Split> {
        let row = free.checked_sub(1)? * self.width;
        let choice = self.choices[level - 1][row + len];
        let at = if stored { choice.stored } else { choice.fresh } as usize;
        (at > 0).then_some(Split { at, rest: level })
    }

    fn capacities(&self) -> &[usize] {
        &self.slots
    }

    fn memory_is_free(&self) -> bool {
        self.memory_is_free
    }
}
