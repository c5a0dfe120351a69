//! Train deep networks whose activations do not fit in memory, with gradients equal bit for bit.
//!
//! A [`Network`] is a stem, reversible blocks with ordinary transitions between stages, and a head. A block is a
//! [`Couple`]: two sub-blocks, F and G, each a [`Residual`] with an explicit derivative or a plain Burn module behind
//! [`Autodiff`]. [`Network::step`] gives loss, output and gradients of one batch; its [`Pass`] says what is random,
//! exact and counted; its [`Strategy`] says how the backward pass gets its activations.

mod arithmetic;
mod autodiff;
mod average;
mod block;
pub mod chain;
mod couple;
mod devices;
mod engine;
mod error;
mod footprint;
mod gradients;
mod host;
mod kernels;
pub mod layers;
mod loss_scale;
mod meter;
mod names;
mod network;
pub mod optim;
mod pass;
mod plain;
mod planner;
mod precision;
mod random;
mod residual;
mod saved;
mod side;
mod spill;
mod statistics;
mod storage;
mod strategy;
mod streams;
mod swap;
mod trace;

pub use arithmetic::{Arithmetic, Direction, RangeWatch};
pub use autodiff::{
    Autodiff, AutodiffHead, AutodiffStem, AutodiffTransition, Layer, LossLayer, StemLayer, StreamsLayer,
};
pub use average::Average;
pub use block::{Block, BlockFootprint, Head, Piece, Stem, Transition};
pub use couple::{Couple, Coupling};
pub use devices::{DeviceError, FoundDevice, built_devices, found_devices, named_device};
pub use engine::{Descent, Entry, Keep, Prediction, Stage, Tape, Trail};
pub use error::{Error, Result};
pub use footprint::{Footprint, Reversal};
pub use gradients::{Gradients, scaled};
pub use host::host_reads;
pub use kernels::{Kernels, UnknownKernels, Workspace};
pub use loss_scale::LossScale;
pub use meter::{Held, Holder, Kept, MemoryReport, Meter};
pub use names::{
    gradient_digest, load_parameters, named_gradients, named_parameters, parameter_count, parameter_digest,
};
pub use network::{Input, Network, Output, Step, Target};
pub use pass::{Context, Pass};
pub use plain::Plain;
pub use planner::{Candidate, CostBook, Costs, Inputs, Mode, PlaceCosts, Plan, Refusal, Tried, cost_key};
pub use precision::Precision;
pub use random::Key;
pub use residual::Residual;
pub use saved::{AnySaved, Saved};
pub use side::{HiddenKeys, MixedLabels, Side};
pub use spill::Spill;
pub use statistics::Statistics;
pub use storage::{Storage, Storing, UnknownStorage};
pub use strategy::{Strategy, UnknownStrategy};
pub use streams::Streams;
pub use swap::Swap;
pub use trace::{Activity, Span, Trace};

pub use reprop_kernels::heap::keep_freed_memory;
pub use reprop_kernels::pool::join_pool;

/// Keeps the README's example compiling.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
