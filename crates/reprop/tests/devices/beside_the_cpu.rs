//! The same network on the device and on the CPU: the same masks to the bit, and gradients within a named distance.

use burn::module::Module;
use burn::tensor::Device;
use reprop::{Key, Network, Pass, Strategy, named_gradients};
use reprop_models::RevVitConfig;

use crate::common::{labels, noise, scattered, trainable};

/// Of a gradient's largest value. Streams lie on a grid of `2^-14 = 6.1e-5`; where the device rounds another way than the
/// CPU in the last bit, a value next to the middle of two points falls on the other one, and each such step of `6.1e-5`
/// goes on through all later blocks. Measured on a software Vulkan: `2.2e-5`.
const FROM_THE_CPU: f32 = 1e-3;
/// Of the loss, for the same reason; it is a mean over the batch. Measured: `1.4e-6`.
const LOSS_FROM_THE_CPU: f32 = 1e-4;

#[test]
fn masks_have_the_bits_that_they_have_on_the_cpu() {
    let key = Key { seed: 1, step: 2, call: 3, block: 4, site: 5 };
    for (shape, rate) in [([1, 1], 0.1), ([40, 25], 0.5), ([700, 100], 0.25)] {
        let [here, there] = [crate::device(), Device::flex()].map(|device| {
            key.keep_mask(shape, rate, &device).into_data().try_to_vec::<f32>().expect("floats")
        });
        assert_eq!(here, there, "{shape:?}, rate {rate}");
    }
}

#[test]
fn gradients_are_those_of_the_cpu_within_a_named_distance() {
    let config = RevVitConfig { depth: 6, ..RevVitConfig::digits() }.with_dropout(0.1).with_drop_path(0.1);
    let network = scattered(config.init(3, &trainable()));
    let (images, labels) = (noise(4, [4, 1, 8, 8]), labels(4, 10));
    let on = |device: &Device| {
        let network = network.clone().fork(&device.clone().autodiff());
        let data = (images.clone().to_device(device), labels.clone().to_device(device));
        let step = network.step(data.0, data.1, Pass::training(1), Strategy::PaReprop).expect("a step");
        (step.loss, named_gradients(&network, &step.gradients))
    };
    let (here, there) = (on(&crate::device()), on(&Device::flex()));
    let mut largest: f32 = 0.0;
    for ((name, device), (_, cpu)) in here.1.iter().zip(&there.1) {
        let scale = cpu.iter::<f32>().fold(0.0, |scale: f32, value| scale.max(value.abs()));
        let difference = device.iter::<f32>().zip(cpu.iter::<f32>()).map(|(a, b)| (a - b).abs());
        let distance = difference.fold(0.0, f32::max) / scale;
        assert!(distance < FROM_THE_CPU, "{name}: {distance} of its largest value {scale}");
        largest = largest.max(distance);
    }
    let loss = (here.0 - there.0).abs() / there.0;
    println!(
        "from the CPU: gradients by {largest:e} of their largest values, the loss by {loss:e} of itself"
    );
    assert_eq!(here.1.len(), there.1.len());
    assert!(loss < LOSS_FROM_THE_CPU, "loss {} against {}", here.0, there.0);
}
