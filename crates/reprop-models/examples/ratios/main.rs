//! What the public interface costs over bare kernels, and what `PaReprop` gives, by overlap or by keeping more: three ratios, each the median over rounds in
//! which both sides take one step in turn. On a quiet machine:
//! `cargo run --release --workspace --example ratios -- [ROUNDS [interface] [fused] [own]]`.
//!
//! 1. Four ViT-S blocks through `Residual`, against the same blocks on bare kernels (unit A): at least 0.95.
//! 2. `PaReprop` against `Reprop` on a network of fused kernels: at least 0.99.
//! 3. `PaReprop` against `Reprop` on a transformer of a user's own Burn modules: at least 1.15. Perceptrons alone, whose products leave fewer
//!    threads idle, stand beside it.

mod interface;
mod own;
#[path = "../../../reprop-kernels/examples/units/mod.rs"]
#[allow(dead_code)]
mod units;

use std::time::Instant;

use burn::tensor::{Device, Distribution, Int, Tensor};
use reprop::{Network as _, Pass, Strategy};
use reprop_models::RevVitConfig;

use interface::Blocks;
use units::transformer;

fn seconds(step: impl FnOnce()) -> f64 {
    let start = Instant::now();
    step();
    start.elapsed().as_secs_f64()
}

fn median(found: impl Iterator<Item = f64>) -> f64 {
    let mut found: Vec<f64> = found.collect();
    found.sort_by(f64::total_cmp);
    found[found.len() / 2]
}

/// The median over rounds of the first side's time by the second's, after a round to warm up, and both sides' own medians.
fn ratio(rounds: usize, mut first: impl FnMut(), mut second: impl FnMut()) -> String {
    let pair = |_| (seconds(&mut first), seconds(&mut second));
    let pairs: Vec<(f64, f64)> = (0..=rounds).map(pair).skip(1).collect();
    let ratio = median(pairs.iter().map(|(first, second)| first / second));
    let [first, second] = [median(pairs.iter().map(|pair| pair.0)), median(pairs.iter().map(|pair| pair.1))];
    format!("{ratio:.3}, {:.1} ms by {:.1}", 1e3 * first, 1e3 * second)
}

fn interface(rounds: usize, device: &Device) {
    let ws = reprop_kernels::Workspace::default();
    for batch in [8, 1] {
        let mut bare = transformer::Unit::new(batch, &ws);
        let blocks = Blocks::new(batch, device);
        let found = ratio(rounds, || bare.step(&ws), || blocks.step());
        println!("interface / bare kernels, unit A, batch {batch}: {found} (at least 0.95)");
    }
}

fn fused(rounds: usize) {
    let device = Device::flex();
    let network = RevVitConfig::small().init(1, &device.clone().autodiff());
    let images = Tensor::random([2, 3, 224, 224], Distribution::Normal(0.0, 1.0), &device);
    let labels = Tensor::<1, Int>::zeros([2], &device);
    let step = |strategy| {
        network.step(images.clone(), labels.clone(), Pass::training(1), strategy).expect("noise is in range");
    };
    let found = ratio(rounds, || step(Strategy::Reprop), || step(Strategy::PaReprop));
    println!("pareprop / reprop, RevViT-S on fused kernels, batch 2: {found} (at least 0.99)");
}

fn own(rounds: usize, device: &Device) {
    let transformer = own::Own::new(own::Attention::new, device);
    let found = ratio(rounds, || transformer.step(Strategy::Reprop), || transformer.step(Strategy::PaReprop));
    println!("pareprop / reprop, a transformer of a user's own Burn modules: {found} (at least 1.15)");
    let perceptrons = own::Own::new(own::Perceptron::new, device);
    let found = ratio(rounds, || perceptrons.step(Strategy::Reprop), || perceptrons.step(Strategy::PaReprop));
    println!("pareprop / reprop, perceptrons of a user's own Burn modules: {found}");
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rounds = arguments.first().and_then(|rounds| rounds.parse().ok()).unwrap_or(15).max(1);
    let is_asked = |name: &str| arguments.len() < 2 || arguments[1..].iter().any(|asked| asked == name);
    reprop::keep_freed_memory();
    reprop::join_pool(None);
    let device = Device::flex().autodiff();
    println!("{} threads, {rounds} rounds", rayon::current_num_threads());

    if is_asked("interface") {
        interface(rounds, &device);
    }
    if is_asked("fused") {
        fused(rounds);
    }
    if is_asked("own") {
        own(rounds, &device);
    }
}
