//! Expect: one digest on every line; `stored` needs the most memory, `reprop` the least, `auto` what it was given at most.
//!
//! A network's memory under each strategy before it runs, beside what a step then takes, and the same under budgets:
//! `cargo run --release -p reprop-models --example choose`.

use std::time::Instant;

use burn::tensor::{Device, Int, Tensor};
use reprop::{Meter, Network, Pass, Strategy, gradient_digest};
use reprop_models::RevVitConfig;

const BATCH: usize = 8;

fn main() -> reprop::Result<()> {
    let device = Device::flex();
    let network = RevVitConfig::digits().init(42, &device.clone().autodiff());
    let images = Tensor::<4>::ones([BATCH, 1, 8, 8], &device);
    let labels = Tensor::<1, Int>::zeros([BATCH], &device);
    let pass = || Pass::training(42).meter(Meter::new());
    let peak = |strategy| -> reprop::Result<u64> {
        Ok(network.predicted(BATCH, &pass(), strategy)?.map_or(0, |prediction| prediction.activation_peak))
    };

    // Between the least and the most that any strategy needs, a budget is a dial.
    let (least, most) = (peak(Strategy::Reprop)?, peak(Strategy::Stored)?);
    let budgets = [1, 2, 3].map(|quarter| Strategy::Auto { budget: least + (most - least) * quarter / 4 });
    println!("strategy   predicted   measured     time  gradients");
    for strategy in [Strategy::Stored, Strategy::Reprop, Strategy::PaReprop].into_iter().chain(budgets) {
        let predicted = peak(strategy)?;
        let start = Instant::now();
        let step = network.step(images.clone(), labels.clone(), pass(), strategy)?;
        let time = 1e3 * start.elapsed().as_secs_f64();
        let digest = gradient_digest(&network, &step.gradients);
        let measured = step.memory.activation_peak;
        println!("{strategy:<9} {predicted:>10} {measured:>10} {time:>5.1} ms  {digest}");
        assert_eq!(predicted, measured, "what is foretold is what is measured");
    }
    Ok(())
}
