//! Chains: recurrences of any length, reversed in any memory.
//!
//! A chain is `n` steps `x_{i+1} = f_i(x_i)`: the time steps of a recurrent network or a solver. Its gradient needs the states in
//! reverse order. [`Chain::run`] goes there and back, and [`Checkpointed`] says how the states are had again: kept,
//! computed anew from snapshots by any schedule of `reprop-schedule`, or fetched from a
//! [`Store`](reprop_store::Store), with [`Async`] in the background and ahead of their turn. **The gradients are the same
//! bits whichever is chosen.**
//!
//! Nothing here knows tensors but the adapters in `tensors.rs` and `module.rs`: a solver on plain vectors is a chain
//! as good as a network.

mod asynchronous;
mod clock;
mod departure;
mod disk;
mod error;
mod machine;
mod measure;
mod module;
mod planner;
mod point;
mod recurrence;
mod report;
mod run;
mod slots;
mod state;
mod tensors;
mod transfers;
mod until;

pub use asynchronous::Async;
pub use departure::Departure;
pub use error::{Error, Result};
pub use measure::Measured;
pub use module::{ModuleSteps, ModuleSum, StepGraph};
pub use planner::{Move, Planned, Planner, View};
pub use point::point_identity;
pub use recurrence::{Recurrence, Steps};
pub use report::ChainReport;
pub use run::{Chain, Checkpointed, Done, Progress};
pub use state::{Number, State, Unreadable};
pub use tensors::Tensors;
pub use until::Until;
