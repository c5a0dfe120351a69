//! The laws on a device other than the CPU: `REPROP_DEVICE` names it, else it is the first of the family that was compiled
//! in last. One command runs this suite and writes a report: `cargo xtask check --device wgpu`.
#![cfg(any(feature = "cuda", feature = "metal", feature = "rocm", feature = "vulkan", feature = "wgpu"))]

use std::env;
use std::sync::LazyLock;

use burn::tensor::Device;
use reprop::{Kernels, built_devices, named_device};

#[path = "../laws/accumulation.rs"]
mod accumulation;
mod beside_the_cpu;
#[path = "../chain/modules.rs"]
mod chains;
#[path = "../laws/common.rs"]
mod common;
#[path = "../laws/couplings.rs"]
mod couplings;
#[path = "../laws/evaluation.rs"]
mod evaluation;
mod families;
mod flat_memory;
mod inverse;
mod layouts;
#[path = "../laws/masks.rs"]
mod masks;
#[path = "../laws/networks.rs"]
mod networks;
#[path = "../laws/open_tapes.rs"]
mod open_tapes;
#[path = "../laws/precisions.rs"]
mod precisions;
#[path = "../laws/side_inputs.rs"]
mod side_inputs;
#[path = "../laws/stages.rs"]
mod stages;
mod streams;
#[path = "../laws/tied.rs"]
mod tied;
#[path = "../laws/transitions.rs"]
mod transitions;

/// What the layers compute with: on a device, that means Burn's operations.
const KERNELS: Kernels = Kernels::Auto;

/// Its name.
fn name() -> String {
    let last = || built_devices().last().expect("the CPU, at least").to_string();
    env::var("REPROP_DEVICE").unwrap_or_else(|_| last())
}

/// Where everything lies.
fn device() -> Device {
    static DEVICE: LazyLock<Device> = LazyLock::new(|| {
        let device = named_device(&name()).unwrap_or_else(|error| panic!("{error}; {}", error.hint()));
        assert_ne!(device, Device::flex(), "this suite is for other devices than the CPU");
        device
    });
    DEVICE.clone()
}

/// Whether the device runs streams side by side.
fn has_streams() -> bool {
    ["cuda", "rocm"].iter().any(|family| name().starts_with(family))
}
