//! What the meter counts is what the process allocates. One test in a process of its own: the allocator counts all
//! threads.

use burn::tensor::{Device, Int, Tensor};
use peak_alloc::PeakAlloc;
use reprop::{Holder, Meter, Network, Pass, Strategy};
use reprop_models::{RevVit, RevVitConfig};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

struct Case {
    name: &'static str,
    config: RevVitConfig,
    batch: usize,
}

fn main() {
    let depth: usize = std::env::var("DEPTH").map_or(6, |d| d.parse().unwrap());
    let cases = [
        Case { name: "digits", config: RevVitConfig { depth, ..RevVitConfig::digits() }, batch: 64 },
        Case {
            name: "digits-drop",
            config: RevVitConfig { depth, ..RevVitConfig::digits() }.with_dropout(0.1).with_drop_path(0.1),
            batch: 64,
        },
        Case { name: "vit-s", config: RevVitConfig { depth, ..RevVitConfig::small() }, batch: 2 },
        Case {
            name: "vit-s-drop",
            config: RevVitConfig { depth, ..RevVitConfig::small() }.with_dropout(0.1).with_drop_path(0.1),
            batch: 4,
        },
        Case { name: "long", config: RevVitConfig::new(128, 4, 64, depth, 2, 128), batch: 1 },
    ];
    for case in &cases {
        let network: RevVit = case.config.init(1, &Device::flex().autodiff());
        let side = case.config.image;
        let images = Tensor::<4>::ones([case.batch, case.config.channels, side, side], &Device::flex());
        let labels = Tensor::<1, Int>::zeros([case.batch], &Device::flex());
        for strategy in [Strategy::Stored, Strategy::Reprop, Strategy::PaReprop] {
            let run = || {
                let meter = Meter::new();
                let pass = Pass::training(1).meter(meter.clone());
                let before = ALLOCATOR.current_usage();
                ALLOCATOR.reset_peak_usage();
                let step = network.step(images.clone(), labels.clone(), pass, strategy).unwrap();
                let peak = ALLOCATOR.peak_usage() - before;
                (peak, step.memory)
            };
            run();
            let (peak, memory) = run();
            let predicted = network.predicted(case.batch, &Pass::training(1), strategy).unwrap().unwrap();
            println!(
                "{:12} {strategy:9} real {:8.2} MB, total {:8.2} MB ({:+.1} %), activations {:8.2}, predicted {:8.2}, {:?}",
                case.name,
                peak as f64 / 1e6,
                memory.total_peak as f64 / 1e6,
                (memory.total_peak as f64 / peak as f64 - 1.0) * 100.0,
                memory.activation_peak as f64 / 1e6,
                predicted.activation_peak as f64 / 1e6,
                Holder::ALL.map(|h| (memory.at_peak(h) as f64 / 1e4).round() / 1e2)
            );
        }
    }
}
