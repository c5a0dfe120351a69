//! Burn's optimizers on fused kernels: one pass over memory for a parameter, its gradient and its moments, on all
//! threads, in place.
//!
//! They are ordinary [`Optimizer`](burn::optim::Optimizer)s: groups, clipping, learning rates and records work as with
//! Burn's own. On devices other than the CPU, and in other types than `f32`, they compute with Burn's operations.

mod adamw;
mod sgd;

pub use adamw::{AdamW, AdamWConfig};
pub use sgd::{Sgd, SgdConfig, SgdState};

use burn::tensor::{DType, Device, Tensor};

/// Whether the update of these tensors runs on a fused kernel.
fn fuses<const D: usize>(tensors: &[&Tensor<D>]) -> bool {
    tensors.iter().all(|tensor| tensor.dtype() == DType::F32 && tensor.device() == Device::flex())
}
