//! What the device's allocator really holds, beside our meter. In a process of its own: pools are the process's.
#![cfg(any(feature = "cuda", feature = "metal", feature = "rocm", feature = "vulkan", feature = "wgpu"))]

use std::env;
use std::sync::{Mutex, MutexGuard, PoisonError};

use burn::module::Module;
use burn::nn::{LayerNorm, LayerNormConfig, Linear};
use burn::tensor::{Device, Int, Tensor, activation};
use reprop::layers::{Initial, MlpConfig};
use reprop::{
    Autodiff, Context, Gradients, Holder, Layer, Meter, Network, Pass, Residual, Strategy, built_devices,
    named_device,
};
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

/// One test at a time, since the allocator is one.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
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
    tape.backward(&mut gradients).expect("a backward");
    (held, metered)
}

/// What is counted twice by the meter, such as one tensor that both streams begin with, and what it does not see, such as
/// labels, comes to less than this part of what an open tape holds.
const BESIDE_THE_METER: f64 = 0.2;
/// Pages of a pool are larger than what lies in them.
const GROWTH: f64 = 1.25;
const BATCH: usize = 8;
/// What pages add to the least that two halves of a backward pass need. Pages of a pool grow with its tensors from 2 MiB on;
/// a second stream begins with a page of 8 MiB for small tensors, beside two of those.
const PAGES: u64 = if cfg!(any(feature = "cuda", feature = "rocm")) { 12 << 20 } else { 4 << 20 };

#[test]
fn the_allocator_holds_what_the_meter_says_and_is_flat_in_depth() {
    let _alone = alone();
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
    let [stored, reprop, pareprop] = [Strategy::Stored, Strategy::Reprop, Strategy::PaReprop].map(|strategy| {
        let [few, many] = [&small, &large].map(|network| taken(network, BATCH, strategy, &device));
        let more = taken(&small, 4 * BATCH, strategy, &device);
        println!(
            "a step of {strategy} took {few} bytes of 3 blocks, {many} of 9, {more} of 3 at 4 times the batch"
        );
        Taken { few, many, more }
    });
    for Taken { few, many, .. } in [&reprop, &pareprop] {
        assert!(*many as f64 <= GROWTH * *few as f64, "{few} bytes of 3 blocks, {many} of 9");
    }
    // Recovery keeps one block more than its gradients need, where it runs beside them.
    let block = (stored.many - stored.few) / 6;
    for (what, beside, alone, block) in
        [("a batch", pareprop.few, reprop.few, block), ("4 batches", pareprop.more, reprop.more, 4 * block)]
    {
        let most = alone + block + PAGES;
        assert!(beside <= most, "{what}: {beside} bytes beside {alone} of reprop, and {block} of a block");
    }
}

/// Bytes that the allocator took for a step of 3 blocks, of 9, and of 3 at 4 times the batch.
struct Taken {
    few: u64,
    many: u64,
    more: u64,
}

/// The perceptron of a transformer as a user of Burn writes it.
#[derive(Module, Debug)]
struct Perceptron {
    norm: LayerNorm,
    inner: Linear,
    outer: Linear,
}

impl Layer<3> for Perceptron {
    fn forward(&self, x: Tensor<3>, _: &Context<'_>) -> Tensor<3> {
        self.outer.forward(activation::gelu(self.inner.forward(self.norm.forward(x))))
    }
}

/// What a sub-block keeps for its derivative, by the allocator.
fn kept<R: Residual<3>>(block: &R, device: &Device) -> u64 {
    let pass = Pass::training(1);
    let x = || Tensor::<3>::ones([BATCH, 64, 64], device).mul_scalar(0.5);
    let hold = || {
        let x = x();
        let before = in_use(device);
        let (_, saved) = block.forward_saving(x, &pass.context(0));
        let held = in_use(device).saturating_sub(before);
        drop(saved);
        held
    };
    // The first call brings the parameters.
    hold();
    hold()
}

#[test]
fn a_hand_written_derivative_keeps_less_than_a_graph() {
    let _alone = alone();
    let device = device();
    let mut initial = Initial::new(3, &device.clone().autodiff());
    let written = MlpConfig::new(64, 128).init(&mut initial);
    let graph = Autodiff::new(Perceptron {
        norm: LayerNormConfig::new(64).init(&device.clone().autodiff()),
        inner: initial.linear(64, 128),
        outer: initial.linear(128, 64),
    });
    let (written, graph) = (kept(&written, &device), kept(&graph, &device));
    println!("a perceptron keeps {written} bytes for its own derivative, {graph} in a graph");
    assert!(written < graph, "{written} against {graph}");
}
