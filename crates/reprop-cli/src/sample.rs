//! Networks of any kind with a batch of noise for them: what measuring and verifying need.

use burn::tensor::{Device, Int, Tensor, TensorData};
use reprop::{Head, Input, Network, Target};
use reprop_data::NOT_ASKED;
use reprop_models::{Model, RevRobertaConfig};

use crate::images::{Batch, ImageNetwork, Task, with_network};

/// The settings of a network of images or of text.
#[derive(Clone, Debug)]
pub enum AnyModel {
    Images(Model),
    Text(RevRobertaConfig),
}

/// One token in so many is asked for.
const ASKED: usize = 7;

/// A network that gives a row of scores for each sample or token asked for.
pub trait Scored<const D: usize>: Network<D, Head: Head<D, Output = Tensor<2>>> {}

impl<const D: usize, N: Network<D, Head: Head<D, Output = Tensor<2>>>> Scored<D> for N {}

/// A batch of noise, the same for the same seed.
pub struct Sample<const D: usize, N: Network<D>> {
    pub input: Input<D, N>,
    pub target: Target<D, N>,
    /// Both by name, for files.
    pub named: Vec<(String, TensorData)>,
}

/// Something to do with a network and a batch, whatever their types.
pub trait Trial {
    type Output;

    fn run<const D: usize, N: Scored<D>>(self, network: N, sample: &Sample<D, N>) -> Self::Output;
}

/// Makes the network that `model` describes and a batch for it, and does the trial with them.
pub fn with_sample<T: Trial>(
    model: &AnyModel,
    batch: usize,
    seed: u64,
    device: &Device,
    trial: T,
) -> T::Output {
    match model {
        AnyModel::Images(model) => {
            let batch = Batch::noise(batch, model.images(), seed, device);
            with_network(model, seed, device, OnImages { batch, trial })
        }
        AnyModel::Text(config) => {
            // Wide initial weights, so that no gradient drowns in the rounding of the loss.
            let deviation = (config.width as f64).sqrt().recip();
            let config = RevRobertaConfig { deviation, ..config.clone() };
            let (count, length) = (batch * config.length, config.length);
            let token = |index: usize| {
                // As in batches of images.
                let hash = (index as u64).wrapping_add(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
                (hash % config.vocabulary as u64) as i64
            };
            let asked =
                |index: usize| if index.is_multiple_of(ASKED) { token(index + count) } else { NOT_ASKED };
            let tensor = |values: Vec<i64>| -> Tensor<2, Int> {
                Tensor::from_data(TensorData::new(values, [batch, length]), &device.clone().inner())
            };
            let input = tensor((0..count).map(token).collect());
            let target = tensor((0..count).map(asked).collect());
            let named = named(input.to_data(), target.to_data());
            trial.run(config.init(seed, device), &Sample { input, target, named })
        }
    }
}

fn named(input: TensorData, labels: TensorData) -> Vec<(String, TensorData)> {
    vec![("input".to_owned(), input), ("labels".to_owned(), labels)]
}

struct OnImages<T> {
    batch: Batch,
    trial: T,
}

impl<T: Trial> Task for OnImages<T> {
    type Output = T::Output;

    fn run<const D: usize, N: ImageNetwork<D>>(self, network: N) -> T::Output {
        let Batch { images, labels } = self.batch;
        let named = named(images.to_data(), labels.to_data());
        self.trial.run(network, &Sample { input: images, target: labels, named })
    }
}
