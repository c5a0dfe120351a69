//! What the meter counts is what the process allocates. In a process of its own, one test at a time: the allocator
//! counts all threads.

use std::sync::{Mutex, PoisonError};

use burn::tensor::{Device, Int, Tensor};
use peak_alloc::PeakAlloc;
use reprop::{Kernels, MemoryReport, Network, Pass, Strategy, Workspace};
use reprop_models::{RevVit, RevVitConfig};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;
static ALONE: Mutex<()> = Mutex::new(());

/// The law's own. What is left of it: packed panels of matrices, a gradient that is made twice for a moment, and, side
/// by side, the temporaries of the half that needs less of them.
const TOLERANCE: f64 = 0.10;

const STRATEGIES: [Strategy; 3] = [Strategy::Stored, Strategy::Reprop, Strategy::PaReprop];

const KERNELS: [Kernels; 2] = [Kernels::Auto, Kernels::Burn];

/// The most bytes that a step allocates at once, and what its meter says. A first step, which makes the parameters, the
/// threads and their buffers, is not counted. How much of two halves lives at once side by side depends on which of them
/// is ahead; the meter counts the most, so that the most of several steps is compared with it. Each step has a
/// workspace of its own: one that is warm allocates nothing.
fn measured(
    network: &RevVit,
    config: &RevVitConfig,
    batch: usize,
    kernels: Kernels,
    strategy: Strategy,
) -> (u64, MemoryReport) {
    let images = Tensor::<4>::ones([batch, config.channels, config.image, config.image], &Device::flex());
    let labels = Tensor::<1, Int>::zeros([batch], &Device::flex());
    let step = || {
        let before = ALLOCATOR.current_usage();
        ALLOCATOR.reset_peak_usage();
        let pass = Pass::training(1).kernels(kernels).workspace(&Workspace::new());
        let step = network.step(images.clone(), labels.clone(), pass, strategy).expect("a step");
        ((ALLOCATOR.peak_usage() - before) as u64, step.memory)
    };
    let (_, memory) = step();
    let steps = if strategy == Strategy::PaReprop { 4 } else { 1 };
    let found: Vec<_> = (0..steps).map(|_| step()).collect();
    let peaks = |memory: &MemoryReport| [memory.activation_peak, memory.total_peak];
    assert!(
        found.iter().all(|(_, other)| peaks(other) == peaks(&memory)),
        "the meter says the same each time"
    );
    (found.iter().map(|(allocated, _)| *allocated).max().unwrap_or(0), memory)
}

fn check(name: &str, config: &RevVitConfig, batch: usize) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let network = config.init(1, &Device::flex().autodiff());
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("a pool");
    let cases = STRATEGIES.into_iter().flat_map(|strategy| KERNELS.map(|kernels| (strategy, kernels)));
    for (strategy, kernels) in cases {
        let (allocated, memory) = pool.install(|| measured(&network, config, batch, kernels, strategy));
        // A workspace keeps what is given back to it, and buffers of sizes that were not lent at the peak.
        let counted =
            if kernels == Kernels::Auto { memory.pooled_peak + memory.idle } else { memory.total_peak };
        let error = counted as f64 / allocated as f64 - 1.0;
        println!(
            "{name}, {strategy}, {kernels}: {:.2} MB counted, {:.2} MB allocated ({:+.1} %)",
            counted as f64 / 1e6,
            allocated as f64 / 1e6,
            100.0 * error
        );
        assert!(
            error.abs() <= TOLERANCE,
            "{name}, {strategy}, {kernels}: {counted} counted, {allocated} allocated"
        );
    }
}

#[test]
fn the_meter_counts_what_is_allocated_for_small_images() {
    let config = RevVitConfig::digits();
    check("digits", &config, 64);
    check("digits with masks", &config.with_dropout(0.1).with_drop_path(0.1), 64);
}

#[test]
fn the_meter_counts_what_is_allocated_at_a_published_width() {
    let config = RevVitConfig { depth: 6, ..RevVitConfig::small() }.with_dropout(0.1).with_drop_path(0.1);
    check("RevViT-S, 6 blocks", &config, 2);
}

#[test]
fn the_meter_counts_what_is_allocated_for_many_tokens() {
    let config = RevVitConfig::new(128, 4, 256, 4, 4, 512);
    check("1024 tokens", &config, 1);
}
