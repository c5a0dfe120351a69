//! The head of residual networks: both streams averaged over all pixels, a linear layer, cross-entropy.

use burn::config::Config;
use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::{Int, Tensor};

use crate::{Context, Footprint, Gradients, Head, Precision, Result, Streams};

use super::Initial;
use super::cross_entropy::{check_labels, cross_entropy};
use super::linear::{linear, linear_vjp};

/// Settings of a [`PoolClassifier`].
#[derive(Config, Debug)]
pub struct PoolClassifierConfig {
    /// Channels of each stream.
    pub width: usize,
    /// Number of classes.
    pub classes: usize,
    /// How much of the target goes to all classes alike.
    #[config(default = 0.0)]
    pub label_smoothing: f64,
}

impl PoolClassifierConfig {
    /// A head with initial parameters.
    pub fn init(&self, initial: &mut Initial) -> PoolClassifier {
        let Self { width, classes, label_smoothing } = *self;
        assert!(classes > 0, "a classifier needs at least one class");
        PoolClassifier { linear: initial.linear(2 * width, classes), classes, label_smoothing }
    }
}

/// Classifies the mean pixel of both streams.
///
/// # Shapes
///
/// `[batch, height, width, channels]` twice `-> [batch, classes]`
#[derive(Module, Debug)]
pub struct PoolClassifier {
    /// To the classes' scores.
    pub linear: Linear,
    classes: usize,
    label_smoothing: f64,
}

/// What the derivative needs.
pub struct Saved {
    dims: [usize; 4],
    /// Means of both streams, `[batch, 2 channels]`.
    means: Tensor<2>,
    /// `p - t`, `[batch, classes]`.
    surplus: Tensor<2>,
}

impl crate::Saved for Saved {
    fn bytes(&self) -> u64 {
        self.means.bytes() + self.surplus.bytes()
    }
}

impl PoolClassifier {
    fn logits(&self, Streams { x1, x2 }: Streams<4>) -> (Tensor<2>, Tensor<2>) {
        let means = Tensor::cat(vec![mean_of_pixels(x1), mean_of_pixels(x2)], 1);
        (linear(means.clone(), &self.linear, Precision::F32), means)
    }
}

/// `[batch, height, width, channels] -> [batch, channels]`
fn mean_of_pixels(x: Tensor<4>) -> Tensor<2> {
    let [batch, height, width, channels] = x.dims();
    x.reshape([batch, height * width, channels]).mean_dim(1).reshape([batch, channels])
}

impl Head<4> for PoolClassifier {
    type Target = Tensor<1, Int>;
    type Output = Tensor<2>;
    type Saved = Saved;

    fn check(&self, labels: &Tensor<1, Int>, batch: usize) -> Result<()> {
        check_labels(labels, batch, self.classes)
    }

    fn predict(&self, x: Streams<4>, _: &Context<'_>) -> Tensor<2> {
        self.logits(x).0
    }

    fn loss_saving(
        &self,
        x: Streams<4>,
        labels: Tensor<1, Int>,
        context: &Context<'_>,
    ) -> (Tensor<1>, Tensor<2>, Saved) {
        let dims = x.dims();
        let (logits, means) = self.logits(x);
        let (loss, surplus) = cross_entropy(logits.clone(), labels, context.side(), self.label_smoothing);
        (loss, logits, Saved { dims, means, surplus })
    }

    fn vjp(
        &self,
        Saved { dims: dims @ [batch, height, width, channels], means, surplus }: Saved,
        weight: f64,
        _: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Streams<4> {
        let dlogits = surplus.mul_scalar(weight / batch as f64);
        let dmeans = linear_vjp(|| means, dlogits, &self.linear, Precision::F32, gradients);
        let dpixels = dmeans.mul_scalar(1.0 / (height * width) as f64);
        let spread =
            |start| dpixels.clone().narrow(1, start, channels).reshape([batch, 1, 1, channels]).expand(dims);
        Streams::new(spread(0), spread(channels))
    }

    fn footprint(&self, [batch, _, _, channels]: [usize; 4], _: &Context<'_>) -> Option<Footprint> {
        let features = (batch * (2 * channels + self.classes) * size_of::<f32>()) as u64;
        Some(Footprint { saved: features, forward: 3 * features, vjp: 3 * features, spared: 0 })
    }
}
