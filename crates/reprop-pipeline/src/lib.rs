//! Stages of a network that train in parallel: PETRA and the methods it stands beside.
//!
//! A network is cut into stages, each with its own worker. Stages talk only to their neighbours: activations go up,
//! activations and gradients come down. A reversible stage keeps nothing between a batch's forward and its backward: it
//! computes its inputs back from its outputs, with the parameters of the day (Rivaud et al., *PETRA: Parallel End-to-end
//! Training with Reversible Architectures*, 2024).
//!
//! The [`Order`] of a stage is fixed, so that a run on many machines ends with the bits of a run in one process.

mod align;
mod ending;
mod error;
mod evaluation;
mod exchange;
mod formula;
mod job;
mod message;
mod method;
mod order;
mod parameters;
mod part;
mod probe;
mod queue;
mod record;
mod replicas;
mod report;
mod run;
mod settings;
mod split;
mod stash;
pub mod transport;
mod wire;
mod worker;

pub use error::{Error, Result};
pub use formula::{Kept, StageSizes, stage_sizes};
pub use job::{Job, Orders, Piped, Score};
pub use message::{Header, Kind, Message};
pub use method::{Method, UnknownMethod};
pub use order::{Order, Turn};
pub use probe::{PlaceTimes, probe};
pub use queue::{Queue, UnknownQueue};
pub use report::{Report, Summary};
pub use run::run_in_process;
pub use settings::{Settings, needed_depth};
pub use split::{measured_costs, split};
pub use transport::{InProcess, Side, Transport, links};
pub use wire::Wire;
pub use worker::{Outcome, Worker};
