//! What the public interface costs over bare kernels, and what overlap gives: three ratios, each the median over rounds in
//! which both sides take one step in turn. On a quiet machine: `cargo run --release --workspace --example ratios -- [ROUNDS]`.
//!
//! 1. Four ViT-S blocks through `Residual`, against the same blocks on bare kernels (unit A): at least 0.95.
//! 2. `PaReprop` against `Reprop` on a network of fused kernels: at least 0.99.
//! 3. `PaReprop` against `Reprop` on a network of a user's own Burn modules: at least 1.15.

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

fn main() {
    let rounds = std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(15).max(1);
    reprop::keep_freed_memory();
    reprop::join_pool(None);
    let device = Device::flex().autodiff();
    println!("{} threads, {rounds} rounds", rayon::current_num_threads());

    let ws = reprop_kernels::Workspace::default();
    for batch in [8, 1] {
        let mut bare = transformer::Unit::new(batch, &ws);
        let blocks = Blocks::new(batch, &device);
        let found = ratio(rounds, || bare.step(&ws), || blocks.step());
        println!("interface / bare kernels, unit A, batch {batch}: {found} (at least 0.95)");
    }

    let network = RevVitConfig::small().init(1, &device);
    let images = Tensor::random([2, 3, 224, 224], Distribution::Normal(0.0, 1.0), &Device::flex());
    let labels = Tensor::<1, Int>::zeros([2], &Device::flex());
    let step = |strategy| {
        network.step(images.clone(), labels.clone(), Pass::training(1), strategy).expect("noise is in range");
    };
    let found = ratio(rounds, || step(Strategy::Reprop), || step(Strategy::PaReprop));
    println!("pareprop / reprop, RevViT-S on fused kernels, batch 2: {found} (at least 0.99)");

    let own = own::Own::new(&device);
    let found = ratio(rounds, || own.step(Strategy::Reprop), || own.step(Strategy::PaReprop));
    println!("pareprop / reprop, a user's own Burn modules: {found} (at least 1.15)");
}
