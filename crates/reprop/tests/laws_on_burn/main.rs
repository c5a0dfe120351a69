//! The same laws for layers on Burn's operations, as on every device but the CPU.

use burn::tensor::Device;
use reprop::Kernels;

#[path = "../laws/accumulation.rs"]
mod accumulation;
#[path = "../laws/arithmetic.rs"]
mod arithmetic;
#[path = "../laws/common.rs"]
mod common;
#[path = "../laws/couplings.rs"]
mod couplings;
#[path = "../laws/errors.rs"]
mod errors;
#[path = "../laws/evaluation.rs"]
mod evaluation;
#[path = "../laws/finite_differences.rs"]
mod finite_differences;
#[path = "../laws/frozen.rs"]
mod frozen;
#[path = "../laws/kernels.rs"]
mod kernels;
#[path = "../laws/masks.rs"]
mod masks;
#[path = "../laws/networks.rs"]
mod networks;
#[path = "../laws/open_tapes.rs"]
mod open_tapes;
#[path = "../laws/precisions.rs"]
mod precisions;
#[path = "../laws/prediction.rs"]
mod prediction;
#[path = "../laws/rev_resnet.rs"]
mod rev_resnet;
#[path = "../laws/side_inputs.rs"]
mod side_inputs;
#[path = "../laws/stages.rs"]
mod stages;
#[path = "../laws/threads.rs"]
mod threads;
#[path = "../laws/tied.rs"]
mod tied;
#[path = "../laws/transitions.rs"]
mod transitions;

/// What the layers compute with.
const KERNELS: Kernels = Kernels::Burn;

/// Where everything lies.
fn device() -> Device {
    Device::flex()
}
