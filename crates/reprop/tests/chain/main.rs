//! The laws of chains: equal bits under every plan, at the cost the plan says, and errors that tell.

use burn::tensor::Device;

mod asynchronous;
mod common;
mod disks;
mod errors;
mod late;
mod modules;
mod schedules;
mod stacks;

/// Where tensors lie.
fn device() -> Device {
    Device::flex()
}
