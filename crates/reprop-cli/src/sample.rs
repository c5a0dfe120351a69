//! Networks of any kind with a batch of noise for them: what measuring and verifying need.

use burn::tensor::{Device, Int, Tensor, TensorData};
use reprop::{Head, Input, Network, Stem, Target};
use reprop_data::NOT_ASKED;
use reprop_models::{ImageShape, Model, RevRobertaConfig};

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
pub trait Scored<const D: usize>: Network<D, Head: Head<D, Output = Tensor<2>>> + 'static {}

impl<const D: usize, N: Network<D, Head: Head<D, Output = Tensor<2>>> + 'static> Scored<D> for N {}

/// A batch of noise, the same for the same seed.
pub struct Sample<const D: usize, N: Network<D>> {
    pub input: Input<D, N>,
    pub target: Target<D, N>,
    /// Both by name, for files.
    pub named: Vec<(String, TensorData)>,
}

/// Makes a batch of so many samples.
pub type Noise<const D: usize, N> = Box<dyn Fn(usize) -> Sample<D, N> + Send>;

/// Something to do with a network and batches for it, whatever their types.
pub trait Trial {
    type Output;

    fn run<const D: usize, N: Scored<D>>(self, network: N, noise: Noise<D, N>) -> Self::Output;
}

/// Makes the network that `model` describes, and does the trial with it.
pub fn with_model<T: Trial>(model: &AnyModel, seed: u64, device: &Device, trial: T) -> T::Output {
    match model {
        AnyModel::Images(model) => {
            let on_images = OnImages { shape: model.images(), seed, device: device.clone(), trial };
            with_network(model, seed, device, on_images)
        }
        AnyModel::Text(config) => {
            // Wide initial weights, so that no gradient drowns in the rounding of the loss.
            let deviation = (config.width as f64).sqrt().recip();
            let config = RevRobertaConfig { deviation, ..config.clone() };
            let network = config.init(seed, device);
            let device = device.clone().inner();
            trial.run(network, Box::new(move |batch| tokens(&config, batch, seed, &device)))
        }
    }
}

/// Tokens that hash to anything, with some of them asked for.
fn tokens<N>(config: &RevRobertaConfig, batch: usize, seed: u64, device: &Device) -> Sample<3, N>
where
    N: Network<3, Stem: Stem<3, Input = Tensor<2, Int>>, Head: Head<3, Target = Tensor<2, Int>>>,
{
    let (count, length) = (batch * config.length, config.length);
    let token = |index: usize| {
        // As in batches of images.
        let hash = (index as u64).wrapping_add(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        (hash % config.vocabulary as u64) as i64
    };
    let asked = |index: usize| if index.is_multiple_of(ASKED) { token(index + count) } else { NOT_ASKED };
    let tensor = |values: Vec<i64>| -> Tensor<2, Int> {
        Tensor::from_data(TensorData::new(values, [batch, length]), device)
    };
    let input = tensor((0..count).map(token).collect());
    let target = tensor((0..count).map(asked).collect());
    let named = named(input.to_data(), target.to_data());
    Sample { input, target, named }
}

fn named(input: TensorData, labels: TensorData) -> Vec<(String, TensorData)> {
    vec![("input".to_owned(), input), ("labels".to_owned(), labels)]
}

struct OnImages<T> {
    shape: ImageShape,
    seed: u64,
    device: Device,
    trial: T,
}

impl<T: Trial> Task for OnImages<T> {
    type Output = T::Output;

    fn run<const D: usize, N: ImageNetwork<D>>(self, network: N) -> T::Output {
        let Self { shape, seed, device, trial } = self;
        let noise = move |batch| {
            let Batch { images, labels } = Batch::noise(batch, shape, seed, &device);
            let named = named(images.to_data(), labels.to_data());
            Sample { input: images, target: labels, named }
        };
        trial.run(network, Box::new(noise))
    }
}
