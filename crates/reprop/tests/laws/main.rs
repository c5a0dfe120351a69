//! The laws that every network, block and strategy must keep, each in a file of its own. Here the layers run on fused
//! kernels, in `laws_on_burn` on Burn's operations.

use burn::tensor::Device;
use reprop::Kernels;

mod accumulation;
mod arithmetic;
mod common;
mod couplings;
mod errors;
mod evaluation;
mod finite_differences;
mod frozen;
mod kernels;
mod masks;
mod networks;
mod open_tapes;
mod precisions;
mod prediction;
mod rev_resnet;
mod side_inputs;
mod stages;
mod threads;
mod tied;
mod transitions;

/// What the layers compute with.
const KERNELS: Kernels = Kernels::Auto;

/// Where everything lies.
fn device() -> Device {
    Device::flex()
}
