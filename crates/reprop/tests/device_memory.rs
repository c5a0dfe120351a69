//! What the device's allocator really holds, beside our meter. In a process of its own: pools are the process's.
#![cfg(any(feature = "cuda", feature = "metal", feature = "rocm", feature = "vulkan", feature = "wgpu"))]

use std::env;

use burn::tensor::{Device, Int, Tensor};
use reprop::{Gradients, Holder, Meter, Network, Pass, Strategy, built_devices, named_device};
use reprop_models::{RevVit, RevVitConfig};

/// Wide enough that tensors are large beside the pages they lie in.
fn network(depth: usize, device: &Device) -> RevVit {
    RevVitConfig::new(32, 4, 64, depth, 2, 128).with_classes(10).init(3, &device.clone().autodiff())
}

fn device() -> Device {
    let last = || built_devices().last().expect("the CPU, at least").to_string();
    let name = env::var("REPROP_DEVICE").unwrap_or_else(|_| last());
    named_device(&name).unwrap_or_else(|error| panic!("{error}; {}", error.hint()))
}

fn data(device: &Device) -> (Tensor<4>, Tensor<1, Int>) {
    (Tensor::ones([8, 3, 32, 32], device), Tensor::zeros([8], device))
}

/// Bytes of live allocations, without padding.
fn in_use(device: &Device) -> u64 {
    device.sync().expect("the device works");
    device.memory_pool_usage().expect("devices of CubeCL tell").bytes_in_use
}

/// Bytes that the allocator took for a step and its gradients.
fn taken(network: &RevVit, strategy: Strategy, device: &Device) -> u64 {
    let (images, labels) = data(device);
    device.sync().expect("the device works");
    device.memory_cleanup();
    let reserved = || device.memory_pool_usage().expect("devices of CubeCL tell").bytes_reserved;
    let before = reserved();
    let step = network.step(images, labels, Pass::training(1), strategy).expect("a step");
    device.sync().expect("the device works");
    drop(step);
    reserved() - before
}

/// What an open tape holds by the allocator, and by the meter.
fn open_tape(network: &RevVit, strategy: Strategy, device: &Device) -> (u64, u64) {
    let (images, labels) = data(device);
    let before = in_use(device);
    let meter = Meter::new();
    let pass = Pass::training(1).meter(meter.clone());
    let tape = network.record(images, labels, pass, strategy).expect("a tape");
    let held = in_use(device) - before;
    let metered = Holder::ALL.into_iter().map(|holder| meter.report().live(holder)).sum();
    let mut gradients = Gradients::new(&Meter::new());
    tape.backward(&mut gradients);
    (held, metered)
}

#[test]
fn the_allocator_holds_what_the_meter_says() {
    let device = device();
    let small = network(4, &device);
    let large = network(16, &device);
    for (depth, network) in [(4, &small), (16, &large)] {
        for strategy in [Strategy::Stored, Strategy::Reprop, Strategy::PaReprop] {
            let (held, metered) = open_tape(network, strategy, &device);
            let taken = taken(network, strategy, &device);
            println!(
                "depth {depth}, {strategy}: an open tape holds {held} bytes, {metered} by the meter; a step took {taken}"
            );
        }
    }
}
