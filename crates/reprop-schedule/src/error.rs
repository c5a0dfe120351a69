//! What can be wrong with a request for a schedule.

use thiserror::Error;

use crate::Broken;

/// Why a schedule cannot be made; the numbers that matter are in the message.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum Error {
    /// A chain without steps has nothing to reverse.
    #[error("the chain has 0 steps: a schedule needs at least 1")]
    NoSteps,
    /// Recomputation starts from a snapshot, so one slot is the least.
    #[error("a chain of {steps} steps cannot be reversed with {slots} slots: at least 1 is needed")]
    NoSlots {
        /// Steps of the chain.
        steps: usize,
        /// Slots given.
        slots: usize,
    },
    /// Costs are times: finite and not negative.
    #[error("the {name} cost is {value}: it must be a finite number, 0 or more")]
    Cost {
        /// Which cost.
        name: &'static str,
        /// Its value.
        value: f64,
    },
    /// A dynamic programme whose tables or time would not be reasonable.
    #[error("{method} would fill {cells} table cells for {steps} steps, and {limit} is the most")]
    TooLarge {
        /// The schedule asked for.
        method: &'static str,
        /// Steps of the chain.
        steps: usize,
        /// Table cells (or elementary operations) it would need.
        cells: u128,
        /// The most this library takes on.
        limit: u128,
    },
    /// No plan fits the byte budget.
    #[error("the budget of {budget} bytes is too small: this chain needs at least {needed}")]
    Budget {
        /// Bytes given.
        budget: u64,
        /// Bytes of the leanest plan found.
        needed: u64,
    },
    /// A schedule that plans for an unlimited disk does not fit the one given.
    #[error(
        "{method} has {needed} snapshots on disk at once and {given} disk slots are given: h-revolve plans for a limited disk"
    )]
    DiskFull {
        /// The schedule asked for.
        method: &'static str,
        /// Disk slots it uses.
        needed: usize,
        /// Disk slots given.
        given: usize,
    },
    /// A schedule that breaks a law: a fault of whoever made it.
    #[error(transparent)]
    Broken(#[from] Broken),
    /// A method that this library does not have.
    #[error(
        "unknown method `{0}`: choose one of stored, revolve, mixed, multistage, disk-revolve, periodic, h-revolve, online, async"
    )]
    UnknownMethod(String),
    /// A method that cannot be used without some number.
    #[error("method {method} needs {what}")]
    Missing {
        /// The method asked for.
        method: &'static str,
        /// What it lacks.
        what: &'static str,
    },
}

/// Refuses an empty chain, and a long one without slots.
pub(crate) fn require(steps: usize, slots: usize) -> Result<(), Error> {
    if steps == 0 {
        return Err(Error::NoSteps);
    }
    if slots == 0 && steps > 1 {
        return Err(Error::NoSlots { steps, slots });
    }
    Ok(())
}

/// Refuses tables that would not be reasonable: half a gigabyte, or a minute of work.
pub(crate) fn require_cells(
    method: &'static str,
    steps: usize,
    cells: u128,
    limit: u128,
) -> Result<(), Error> {
    if cells > limit {
        return Err(Error::TooLarge { method, steps, cells, limit });
    }
    Ok(())
}
