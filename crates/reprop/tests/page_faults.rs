//! A steady training step touches no fresh memory: network, gradients and optimizer. In a process of its own, one test:
//! faults are counted for the whole process.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::fs;

use burn::tensor::{Device, Int, Tensor};
use reprop::optim::SgdConfig;
use reprop::{Head, Network, Pass, Stem, Storage, Strategy, Workspace, keep_freed_memory};
use reprop_models::{RevResNetConfig, RevVitConfig};

/// Steps in a row without a fault that count as steady.
const STEADY: usize = 20;
/// How many buffers are in use at once depends on which task runs beside which: every case has been met after a few
/// steps, not after one.
const MOST: usize = 400;

/// Page faults of this process so far that needed no disk: the tenth field, counted behind the name in brackets, which may
/// hold spaces.
fn faults() -> u64 {
    let status = fs::read_to_string("/proc/self/stat").expect("Linux tells about processes");
    let (_, fields) = status.rsplit_once(") ").expect("a name in brackets");
    fields.split(' ').nth(7).and_then(|field| field.parse().ok()).expect("a number of faults")
}

fn assert_becomes_steady<const D: usize, N>(name: &str, network: &N, side: usize, channels: usize)
where
    N: Network<D, Stem: Stem<D, Input = Tensor<4>>, Head: Head<D, Target = Tensor<1, Int>>>,
{
    let images = Tensor::ones([4, channels, side, side], &Device::flex());
    let labels = Tensor::zeros([4], &Device::flex());
    let workspace = Workspace::new();
    let ways = [
        (Strategy::Stored, Storage::F32),
        (Strategy::Reprop, Storage::F32),
        (Strategy::Stored, Storage::Bf16),
    ];
    for (strategy, storage) in ways {
        let mut optimizer = SgdConfig::new().init();
        let mut network = network.clone();
        let (mut in_a_row, mut history) = (0, Vec::new());
        while in_a_row < STEADY {
            assert!(
                history.len() < MOST,
                "{name}, {strategy}, {storage}: page faults of each step: {history:?}"
            );
            let before = faults();
            let pass = Pass::training(1).workspace(&workspace).saved_in(storage);
            let step = network.step(images.clone(), labels.clone(), pass, strategy).expect("a step");
            network = step.statistics.apply(optimizer.step(1e-3, network, step.gradients));
            history.push(faults() - before);
            in_a_row = if history.last() == Some(&0) { in_a_row + 1 } else { 0 };
        }
    }
}

#[test]
fn steady_steps_have_no_page_faults() {
    assert!(keep_freed_memory());
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("a pool");
    pool.install(|| {
        let device = Device::flex().autodiff();
        let vit = RevVitConfig { image: 64, depth: 3, classes: 10, ..RevVitConfig::tiny() };
        assert_becomes_steady("RevViT", &vit.init(1, &device), 64, 3);
        let resnet = RevResNetConfig::resnet18().with_image(32).with_classes(10).with_width(16);
        assert_becomes_steady("RevResNet", &resnet.init(1, &device), 32, 3);
    });
}
