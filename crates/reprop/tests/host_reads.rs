//! Where the host reads a tensor, it waits for the device. A step reads before its backward pass, and not in it.
//!
//! In a process of their own: the count is the process's.

use std::fs;
use std::path::Path;

use burn::tensor::{Int, Tensor};
use reprop::{FoundDevice, Gradients, Kernels, Meter, Network, Pass, Strategy, host_reads};
use reprop_models::RevVitConfig;

/// Labels, the extremes of all streams, and the loss.
const OF_A_FORWARD: u64 = 3;

#[test]
fn a_backward_pass_reads_nothing() {
    for FoundDevice { device, .. } in reprop::found_devices() {
        let config =
            RevVitConfig { depth: 3, ..RevVitConfig::digits() }.with_dropout(0.1).with_drop_path(0.1);
        let network = config.init(3, &device.clone().autodiff());
        let images = Tensor::<4>::ones([2, 1, 8, 8], &device);
        let labels = Tensor::<1, Int>::ones([2], &device);
        for strategy in [Strategy::Stored, Strategy::Reprop, Strategy::PaReprop] {
            let before = host_reads();
            let pass = Pass::training(1).kernels(Kernels::Burn);
            let tape = network.record(images.clone(), labels.clone(), pass, strategy).expect("a tape");
            assert_eq!(host_reads() - before, OF_A_FORWARD, "forward of {strategy} on {device:?}");
            let mut gradients = Gradients::new(&Meter::new());
            tape.backward(&mut gradients).expect("a backward");
            assert_eq!(host_reads() - before, OF_A_FORWARD, "backward of {strategy} on {device:?}");
        }
    }
}

/// Files of the library that may read tensors without being counted: parameters by name and states of chains, which are
/// asked for; fused kernels, whose tensors are in main memory.
const UNCOUNTED: [&str; 6] = [
    "host.rs",
    "names.rs",
    "chain/tensors.rs",
    "chain/module.rs",
    "layers/attention/fused.rs",
    "optim/sgd.rs",
];
const READING: [&str; 7] =
    [".into_data(", ".to_data(", ".into_scalar", "_data_async(", ".sync(", "try_into_data", "try_to_data"];

/// So that the count above misses none.
#[test]
fn every_other_read_is_counted() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![source.clone()];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("the sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).expect("a source file");
            let name = path.strip_prefix(&source).expect("below").to_string_lossy().replace('\\', "/");
            files += 1;
            if UNCOUNTED.contains(&name.as_str()) {
                continue;
            }
            let tests = text.find("#[cfg(test)]").unwrap_or(text.len());
            for line in text[..tests].lines().filter(|line| !line.trim_start().starts_with("//")) {
                assert!(!READING.iter().any(|read| line.contains(read)), "{name}: {line}");
            }
        }
    }
    assert!(files > 50, "{files} files");
}
