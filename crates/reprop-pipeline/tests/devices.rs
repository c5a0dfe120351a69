//! Stages exchange tensors of any device: what a stage sends leaves its device and comes back to the next one's.

use std::time::Duration;

use burn::optim::{ModuleOptimizer, SgdConfig};
use burn::tensor::{Device, Int, Tensor, TensorData};
use reprop::{FoundDevice, Gradients, Meter, Network, Pass, Strategy, found_devices, parameter_digest};
use reprop_models::{RevVit, RevVitConfig};
use reprop_pipeline::{Job, Method, Score, Settings, run_in_process, split};

const BATCHES: u64 = 4;
const RATE: f64 = 0.05;

/// Training on noise that lies on a device.
struct OnDevice(Device);

impl OnDevice {
    fn network(&self) -> RevVit {
        let config = RevVitConfig::new(8, 4, 8, 3, 2, 16).with_classes(5).with_deviation(0.2);
        config.with_dropout(0.1).with_drop_path(0.1).init(3, &self.0.clone().autodiff())
    }

    fn data(&self, batch: u64) -> (Tensor<4>, Tensor<1, Int>) {
        let pixel = |index: u64| ((index + 1) * (batch + 3) * 2_654_435_761 % 997) as f32 / 498.5 - 1.0;
        let pixels: Vec<f32> = (0..2 * 3 * 8 * 8).map(pixel).collect();
        let images = Tensor::from_data(TensorData::new(pixels, [2, 3, 8, 8]), &self.0);
        (images, Tensor::from_data(TensorData::new(vec![batch as i64 % 5, 2], [2]), &self.0))
    }
}

impl Job<3, RevVit> for OnDevice {
    fn device(&self) -> Device {
        self.0.clone()
    }

    fn pass(&self, _: usize, batch: u64) -> Pass {
        Pass::training(7).step(batch)
    }

    fn evaluation_pass(&self, _: u64) -> Pass {
        Pass::evaluation()
    }

    fn optimizer(&self) -> ModuleOptimizer {
        SgdConfig::new().init()
    }

    fn rate(&self, _: u64) -> f64 {
        RATE
    }

    fn batch(&self, batch: u64) -> (Tensor<4>, Tensor<1, Int>) {
        self.data(batch)
    }

    fn test_batch(&self, _: u64) -> Option<(Tensor<4>, Tensor<1, Int>)> {
        None
    }

    fn score(&self, _: Tensor<2>, target: Tensor<1, Int>) -> Score {
        Score { right: 0, seen: target.dims()[0] as u64 }
    }
}

/// The CPU always, and every other device that is compiled in and found.
#[test]
fn stages_of_every_device_end_with_the_bits_of_ordinary_training_there() {
    for FoundDevice { name, device, .. } in found_devices() {
        let job = OnDevice(device);
        let mut network = job.network();
        let mut optimizer = job.optimizer();
        for batch in 0..BATCHES {
            let (images, labels) = job.data(batch);
            let mut gradients = Gradients::new(&Meter::new());
            let tape = network.record(images, labels, job.pass(0, batch), Strategy::Stored).expect("a tape");
            tape.backward(&mut gradients).expect("a backward");
            network = optimizer.step(RATE, network, gradients.into_params());
        }
        let ordinary = parameter_digest(&network);
        let network = job.network();
        assert_ne!(parameter_digest(&network), ordinary, "{name}: training changes parameters");
        for (method, stages) in [(Method::Reversible, 2), (Method::Reversible, 3), (Method::Petra, 1)] {
            let cut = split(&vec![1.0; network.places()], stages).expect("no more stages than places");
            let patience = Duration::from_mins(5);
            let settings = Settings { patience, run: 77, ..Settings::new(method, cut, BATCHES) };
            let found = run_in_process(&network, &settings, &job, 1).expect("the pipeline runs");
            assert_eq!(parameter_digest(&found.network), ordinary, "{name}: {method}, {stages} stages");
        }
    }
}
