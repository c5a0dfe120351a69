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

fn data(batch: usize, device: &Device) -> (Tensor<4>, Tensor<1, Int>) {
    (Tensor::ones([batch, 3, 32, 32], device), Tensor::zeros([batch], device))
}

/// Bytes of live allocations, without padding.
fn in_use(device: &Device) -> u64 {
    device.sync().expect("the device works");
    device.memory_pool_usage().expect("devices of CubeCL tell").bytes_in_use
}

/// Bytes that the allocator took for a step and its gradients.
fn taken(network: &RevVit, batch: usize, strategy: Strategy, device: &Device) -> u64 {
    let (images, labels) = data(batch, device);
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
    let (images, labels) = data(BATCH, device);
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

/// What is counted twice by the meter, such as one tensor that both streams begin with, and what it does not see, such as
/// labels, comes to less than this part of what an open tape holds.
const BESIDE_THE_METER: f64 = 0.2;
/// Pages of a pool are larger than what lies in them.
const GROWTH: f64 = 1.25;
const BATCH: usize = 8;

#[test]
fn the_allocator_holds_what_the_meter_says_and_is_flat_in_depth() {
    let device = device();
    let [small, large] = [3, 9].map(|depth| network(depth, &device));
    // Parameters take their memory when they are first used, which must not be counted as a tape's.
    for network in [&small, &large] {
        open_tape(network, Strategy::Reprop, &device);
    }
    let (held, metered) = open_tape(&small, Strategy::Stored, &device);
    println!("an open tape of `stored` holds {held} bytes, {metered} by the meter");
    let ratio = held as f64 / metered as f64;
    assert!((ratio - 1.0).abs() < BESIDE_THE_METER, "{ratio} of what the meter says");
    for strategy in [Strategy::Reprop, Strategy::PaReprop] {
        let [few, many] = [&small, &large].map(|network| open_tape(network, strategy, &device).0);
        assert_eq!(few, many, "an open tape of {strategy} holds as much of 3 blocks as of 9");
    }
    let steps = [Strategy::Stored, Strategy::Reprop, Strategy::PaReprop].map(|strategy| {
        let [few, many] = [&small, &large].map(|network| taken(network, BATCH, strategy, &device));
        let more = taken(&small, 4 * BATCH, strategy, &device);
        println!(
            "a step of {strategy} took {few} bytes of 3 blocks, {many} of 9, {more} of 3 at 4 times the batch"
        );
        (few, many)
    });
    for (few, many) in &steps[1..] {
        assert!(*many as f64 <= GROWTH * *few as f64, "{few} bytes of 3 blocks, {many} of 9");
    }
}
