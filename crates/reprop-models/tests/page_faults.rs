//! A steady training step, optimizer and all, touches no fresh memory: scratch, saved tensors and packed weights come from
//! the workspace, and the allocator gives streams and gradients the memory of the step before.

use std::fs;

use burn::tensor::{Device, Int, Tensor};
use reprop::optim::AdamWConfig;
use reprop::{Network as _, Pass, Strategy};
use reprop_models::RevVitConfig;

/// Page faults of this process so far that needed no disk.
fn faults() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("Linux tells a process about itself");
    // The name, in brackets, may hold spaces; minor faults are the eighth number after it.
    let (_, numbers) = stat.rsplit_once(')').expect("a name in brackets");
    numbers.split_whitespace().nth(7).and_then(|number| number.parse().ok()).expect("a number of faults")
}

/// How many buffers are lent at once depends on which task runs beside which: the pools have seen every case after a few
/// steps, not after one.
#[test]
fn steady_steps_have_no_page_faults() {
    let config = RevVitConfig { depth: 4, ..RevVitConfig::digits() };
    let device = Device::flex();
    let images = Tensor::<4>::ones([16, config.channels, config.image, config.image], &device);
    let labels = Tensor::<1, Int>::zeros([16], &device);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("a pool");
    for strategy in [Strategy::Stored, Strategy::Reprop, Strategy::PaReprop] {
        let mut network = config.init(1, &device.clone().autodiff());
        let mut optimizer = AdamWConfig::new().init();
        let mut counts = Vec::new();
        let steady = (0..200).any(|index| {
            let before = faults();
            network = pool.install(|| {
                let pass = Pass::training(1).step(index);
                let step = network.step(images.clone(), labels.clone(), pass, strategy).expect("a step");
                optimizer.step(1e-3, network.clone(), step.gradients)
            });
            counts.push(faults() - before);
            counts.ends_with(&[0; 5])
        });
        assert!(steady, "{strategy}: no five steps in a row without a page fault: {counts:?}");
    }
}
