//! The CPU kernels under the layers: which passes run on them, and how they meet Burn's tensors.
//!
//! A layer asks its context for [`Fused`]: what it needs to run on fused kernels, if it may. It then takes its tensors as
//! [`Floats`], its weights from the pass's [`Packs`] and its memory from the pass's [`Workspace`].

mod choice;
mod floats;
mod fused;
mod grads;
mod output;
mod packs;
mod workspace;

pub use choice::{Kernels, UnknownKernels};
pub use workspace::Workspace;

pub(crate) use floats::{Floats, tensor, update};
pub(crate) use fused::{Fused, lent};
pub(crate) use grads::Grad;
pub(crate) use output::{onto, value};
pub(crate) use packs::{Packed, Packs};
