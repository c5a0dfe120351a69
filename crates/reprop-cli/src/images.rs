//! Networks that classify images, and batches for them.

use burn::tensor::{Device, Int, Tensor, TensorData};
use reprop::{Head, Network, Stem};
use reprop_models::{ImageShape, Model, ResNet, Vit};
use reprop_pipeline::Piped;

/// A network from images to classes.
pub trait ImageNetwork<const D: usize>:
    Network<D, Stem: Stem<D, Input = Tensor<4>>, Head: Head<D, Target = Tensor<1, Int>, Output = Tensor<2>>>
    + Piped<D>
    + 'static
{
}

impl<const D: usize, N> ImageNetwork<D> for N where
    N: Network<
            D,
            Stem: Stem<D, Input = Tensor<4>>,
            Head: Head<D, Target = Tensor<1, Int>, Output = Tensor<2>>,
        > + Piped<D>
        + 'static
{
}

/// Something to do with a network, whatever its type.
pub trait Task {
    type Output;

    fn run<const D: usize, N: ImageNetwork<D>>(self, network: N) -> Self::Output;
}

/// Makes the network that `model` describes, and does the task with it.
pub fn with_network<T: Task>(model: &Model, seed: u64, device: &Device, task: T) -> T::Output {
    match model {
        Model::RevVit(config) => task.run(config.init(seed, device)),
        Model::RevResNet(config) => task.run(config.init(seed, device)),
        Model::RevSwin(config) => task.run(config.init(seed, device)),
        Model::RevMvit(config) => task.run(config.init(seed, device)),
        Model::Vit(config) => task.run(Vit::new(config, seed, device)),
        Model::ResNet(config) => task.run(ResNet::new(config, seed, device)),
    }
}

/// A batch on the device.
#[derive(Clone)]
pub struct Batch {
    pub images: Tensor<4>,
    pub labels: Tensor<1, Int>,
}

impl Batch {
    /// A batch of noise, for measuring: the same for the same seed.
    pub fn noise(count: usize, shape: ImageShape, seed: u64, device: &Device) -> Self {
        let ImageShape { channels, side, classes } = shape;
        // Multiplication by 2^64 divided by the golden ratio spreads consecutive numbers over all bits.
        let hash = |index: usize| (index as u64).wrapping_add(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let pixels = (0..count * channels * side * side)
            .map(|index| hash(index) as f32 / (1 << 23) as f32 - 1.0)
            .collect();
        let labels = (0..count).map(|index| (index % classes) as i32).collect();
        Self::new(pixels, labels, channels, side, device)
    }

    /// Pixels and labels on the device.
    pub fn new(pixels: Vec<f32>, labels: Vec<i32>, channels: usize, side: usize, device: &Device) -> Self {
        let count = labels.len();
        // Inputs stay off any graph: the engine differentiates by itself.
        let device = device.clone().inner();
        Self {
            images: Tensor::from_data(TensorData::new(pixels, [count, channels, side, side]), &device),
            labels: Tensor::from_data(TensorData::new(labels, [count]), &device),
        }
    }

    /// Samples in the batch.
    pub fn len(&self) -> usize {
        self.labels.dims()[0]
    }
}

/// How many of the samples the logits classify rightly.
pub fn hits(logits: Tensor<2>, labels: Tensor<1, Int>) -> usize {
    let [count] = labels.dims();
    let hits = logits.argmax(1).reshape([count]).equal(labels).int().sum();
    hits.into_scalar::<i64>() as usize
}
