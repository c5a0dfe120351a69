//! Expect: one digest for every budget, and no peak above it; more blocks kept, as a rule, the larger it is.
//!
//! From a budget to a plan: `cargo run --release -p reprop --example plan`.

use burn::tensor::{Device, Int, Tensor};
use reprop::{Error, Network, Pass, Result, Strategy, gradient_digest};
use reprop_models::RevVitConfig;

const BATCH: usize = 16;

fn main() -> Result<()> {
    check()
}

/// Plans, runs and compares.
///
/// # Errors
///
/// A step that fails.
pub fn check() -> Result<()> {
    let network = RevVitConfig { depth: 12, ..RevVitConfig::digits() }.init(42, &Device::flex().autodiff());
    let images = Tensor::<4>::ones([BATCH, 1, 8, 8], &Device::flex());
    let labels = Tensor::<1, Int>::zeros([BATCH], &Device::flex());
    let pass = Pass::training(42);
    let stored = network.step(images.clone(), labels.clone(), pass.clone(), Strategy::Stored)?;
    let (expected, most) = (gradient_digest(&network, &stored.gradients), stored.memory.activation_peak);

    // Measured once; the same costs plan every budget.
    let costs = network.measure(images.clone(), labels.clone(), &pass, most)?;
    for eighths in [2, 3, 4, 6, 8] {
        let budget = most * eighths / 8;
        let plan = network.plan(BATCH, &pass, budget, &costs)?;
        let chosen = plan.chosen();
        let step = network.step(
            images.clone(),
            labels.clone(),
            pass.clone().meter(reprop::Meter::new()),
            plan.strategy(),
        )?;
        let digest = gradient_digest(&network, &step.gradients);
        println!(
            "{budget:>8} bytes: {:<30} {:>8} bytes predicted, {:>8} measured, {:.1} ms predicted, digest {digest}",
            plan.name(chosen),
            chosen.prediction.activation_peak,
            step.memory.activation_peak,
            1e3 * chosen.time,
        );
        assert_eq!(digest, expected);
        assert!(step.memory.activation_peak <= budget);
    }

    println!("the largest batch for {most} bytes is {}", network.largest_batch(&pass, most)?);
    // A budget that nothing fits is an error that names the least.
    match network.plan(BATCH, &pass, 1000, &costs) {
        Err(error @ Error::BudgetTooSmall { .. }) => println!("{error}"),
        other => panic!("1000 bytes are too few, but: {other:?}"),
    }
    Ok(())
}
