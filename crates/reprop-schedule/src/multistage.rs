//! Multistage: Revolve's slots divided between memory and disk.

use crate::error::require;
use crate::{Action, Costs, Error, Revolve, Slot};

/// Multistage checkpointing (Stumm & Walther 2009): Revolve with `memory + disk` slots, where the slots used
/// most are in memory. It has the fewest advances that the total number of slots allows, and among such
/// schedules with Revolve's splits the least transfer time.
///
/// If Revolve saves to slot `i` `a_i` times and loads from it `z_i` times, a place on disk costs `w a_i + r z_i`: the
/// `disk` slots with the least such sums go there, and the transfer time is their total.
///
/// *Time* one run through the schedule to count how often each slot is used, then constant per action;
/// *memory* one entry per slot. *Use it* where forward steps are dear and the disk is quick. *Not* where
/// transfers are dear: [`HRevolve`](crate::HRevolve) weighs them and is never worse.
///
/// ```
/// use reprop_schedule::{Costs, Multistage, check, advances};
/// let counts = check(100, &[3, 7], Multistage::new(100, 3, 7, &Costs::unit())?).unwrap();
/// assert_eq!(counts.advances, advances(100, 10));
/// # Ok::<(), reprop_schedule::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Multistage {
    revolve: Revolve,
    /// Where Revolve's slots are.
    places: Vec<Slot>,
}

impl Multistage {
    /// A schedule for `steps` steps with `memory` and `disk` slots; `costs` prices tier 1.
    ///
    /// # Errors
    /// [`Error::NoSteps`], [`Error::NoSlots`], [`Error::Cost`].
    pub fn new(steps: usize, memory: usize, disk: usize, costs: &Costs) -> Result<Self, Error> {
        let slots = memory.saturating_add(disk).min(steps);
        require(steps, slots)?;
        let costs = costs.clone().checked()?;
        let revolve = Revolve::new(steps, slots)?;
        // (saves, loads) per slot: what the slot would cost on disk. With one tier alone there is nothing to choose.
        let mut uses = vec![(0_u64, 0_u64); slots];
        if memory > 0 && memory < slots {
            for action in revolve.clone() {
                match action {
                    Action::Save { slot, .. } => uses[slot.index].0 += 1,
                    Action::Load { slot, .. } => uses[slot.index].1 += 1,
                    _ => {}
                }
            }
        }
        let disk = costs.tier(1);
        let price = |slot: &usize| {
            let (saves, loads) = uses[*slot];
            saves as f64 * disk.write + loads as f64 * disk.read
        };
        let mut order: Vec<usize> = (0..slots).collect();
        // With free transfers the counts themselves decide, so that the plan is the same for all zero costs.
        order.sort_by(|a, b| price(b).total_cmp(&price(a)).then(uses[*b].cmp(&uses[*a])).then(b.cmp(a)));
        let mut places = vec![Slot::memory(0); slots];
        for (rank, slot) in order.into_iter().enumerate() {
            places[slot] = if rank < memory { Slot::memory(rank) } else { Slot::disk(rank - memory) };
        }
        Ok(Self { revolve, places })
    }
}

impl Iterator for Multistage {
    type Item = Action;

    #[inline]
    fn next(&mut self) -> Option<Action> {
        Some(match self.revolve.next()? {
            Action::Save { step, slot } => Action::Save { step, slot: self.places[slot.index] },
            Action::Load { step, slot, keep } => Action::Load { step, slot: self.places[slot.index], keep },
            other => other,
        })
    }
}
