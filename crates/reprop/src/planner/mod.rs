//! From a budget to the fastest way that fits it.
//!
//! A [`Mode`] is a rung of the ladder between storing everything and recovering everything. Each block that is kept
//! removes one recovery, so that a [`Plan`] has only two numbers to compare for each mode: the bytes, which a walk through
//! the pass on sizes alone tells, and the time, which is a sum over the [`Costs`] of the parts, or what the mode took when it
//! was tried. Costs come from a short probe, and a [`CostBook`] remembers them.

mod batch;
mod book;
mod costs;
mod key;
mod mode;
mod plan;
mod probe;
mod race;
mod rounds;

pub(crate) use batch::largest_batch;
pub use book::CostBook;
pub use costs::{Costs, PlaceCosts, Tried};
pub use key::cost_key;
pub use mode::{Inputs, Mode};
pub(crate) use mode::{modes, stored, usual};
pub use plan::{Candidate, Plan, Refusal};
pub(crate) use probe::measure;
