//! The CPU kernels under the layers: which passes run on them, and how they meet Burn's tensors.
//!
//! A layer asks its context whether it may run on fused kernels. If so it takes its tensors as [`Floats`], its weights
//! [`Packed`] and its memory from the pass's [`Workspace`].

mod choice;
mod filters;
mod floats;
mod grads;
mod output;
mod packed;
mod streams;
mod workspace;

pub use choice::{Kernels, UnknownKernels};
pub use workspace::Workspace;

pub(crate) use filters::Filters;
pub(crate) use floats::{Floats, join, modify, on_lines, split, tensor, update};
pub(crate) use grads::Grad;
pub(crate) use output::{added, adds_to, onto, value};
pub(crate) use packed::{Packed, RowsWeight, Use};
pub(crate) use streams::{enter, grid_of, in_range};
pub(crate) use workspace::{lent, spared};
