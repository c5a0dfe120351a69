//! What stages keep by formula, for the published sizes: `petra_memory > bench/runs/petra-memory.md`. RevResNet-50 on ImageNet
//! keeps less than half under PETRA.
//!
//! One place a stage, batches of 64, every batch an update. Each stage keeps what `Settings::kept` tells, which tests compare
//! with the meter: `w + 1` inputs, and `w` older sets of parameters. Images that wait for the stem are counted with it.

use burn::tensor::Device;
use reprop::{Network, Pass, parameter_count};
use reprop_models::{RevResNet, RevResNetConfig};
use reprop_pipeline::{Method, Queue, Settings, split, stage_sizes};

const BATCH: usize = 64;

/// Parameters of each place.
fn parameters(network: &RevResNet) -> Vec<usize> {
    let mut parameters = vec![parameter_count(&network.stem)];
    for stage in &network.stages {
        parameters.extend(stage.down.iter().map(parameter_count));
        parameters.extend(stage.blocks.iter().map(parameter_count));
    }
    parameters.push(parameter_count(&network.head));
    parameters
}

/// Gigabytes that all stages keep at most.
fn kept(network: &RevResNet, side: usize, settings: &Settings) -> f64 {
    let images = (BATCH * 3 * side * side * 4) as u64;
    let sizes = stage_sizes(network, settings, BATCH, images, &Pass::training(0)).expect("every part tells");
    let kept = settings.kept(&sizes).into_iter().zip(parameters(network));
    kept.map(|(kept, count)| (kept.inputs + kept.versions * 4 * count as u64) as f64 / 1e9).sum()
}

fn main() {
    println!(
        "| network, images | stages | `delayed` | `dsp` | `petra` | less | `--queue f16` | `--queue u8` | `--warm-up 1` |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for (side, classes) in [(32, 10), (224, 1000)] {
        for (name, config) in [
            ("RevResNet-18", RevResNetConfig::resnet18()),
            ("RevResNet-34", RevResNetConfig::resnet34()),
            ("RevResNet-50", RevResNetConfig::resnet50()),
        ] {
            let network = config.with_image(side).with_classes(classes).init(0, &Device::flex());
            let places = network.places();
            let stages = split(&vec![1.0; places], places).expect("a place for each stage");
            let of = |method| Settings::new(method, stages.clone(), 1_000_000);
            let queued = |queue| kept(&network, side, &Settings { queue, ..of(Method::Petra) });
            let [delayed, dsp] =
                [Method::Delayed, Method::Dsp].map(|method| kept(&network, side, &of(method)));
            let petra = queued(Queue::F32);
            let short = kept(&network, side, &Settings { depth: 1.0, ..of(Method::Petra) });
            println!(
                "| {name}, {side}x{side} | {places} | {delayed:.2} GB | {dsp:.2} GB | {petra:.2} GB | {:.1} % | {:.2} GB | {:.2} GB | {short:.2} GB |",
                100.0 * (1.0 - petra / delayed),
                queued(Queue::F16),
                queued(Queue::U8),
            );
        }
    }
}
