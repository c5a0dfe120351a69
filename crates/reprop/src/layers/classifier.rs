//! The head of vision transformers: both streams side by side, averaged over the tokens before or after a norm, a linear
//! layer, cross-entropy.

use burn::config::Config;
use burn::module::Module;
use burn::nn::{LayerNorm, Linear};
use burn::tensor::{Int, Tensor};

use crate::{Context, Footprint, Gradients, Head, Precision, Result, Streams};

use super::Initial;
use super::cross_entropy::{check_labels, cross_entropy};
use super::linear::{linear, linear_vjp};
use super::norm::{affine, norm_vjp, normalise};

/// Settings of a [`Classifier`].
#[derive(Config, Debug)]
pub struct ClassifierConfig {
    /// Width of each stream.
    pub width: usize,
    /// Number of classes.
    pub classes: usize,
    /// How much of the target goes to all classes alike.
    #[config(default = 0.0)]
    pub label_smoothing: f64,
    /// Whether tokens are averaged before the norm, as in `RevViT`, or after it, as in `RevSwin`.
    #[config(default = true)]
    pub averages_first: bool,
}

impl ClassifierConfig {
    /// A head with initial parameters.
    pub fn init(&self, initial: &mut Initial) -> Classifier {
        let Self { width, classes, label_smoothing, averages_first } = *self;
        assert!(classes > 0, "a classifier needs at least one class");
        Classifier {
            norm: initial.norm(2 * width),
            linear: initial.linear(2 * width, classes),
            classes,
            label_smoothing,
            averages_first,
        }
    }
}

/// Classifies the mean token of both streams.
///
/// # Shapes
///
/// `[batch, tokens, width]` twice `-> [batch, classes]`
#[derive(Module, Debug)]
pub struct Classifier {
    /// Over both streams' features.
    pub norm: LayerNorm,
    /// To the classes' scores.
    pub linear: Linear,
    classes: usize,
    label_smoothing: f64,
    averages_first: bool,
}

/// What the derivative needs: small where tokens are averaged first.
pub struct Saved {
    tokens: usize,
    normalised: Tensor<3>,
    scale: Tensor<3>,
    /// `p - t`, `[batch, classes]`.
    surplus: Tensor<2>,
}

impl crate::Saved for Saved {
    fn bytes(&self) -> u64 {
        self.normalised.bytes() + self.scale.bytes() + self.surplus.bytes()
    }
}

impl Classifier {
    /// Scores, and the normalised tokens with their scale: one token where they are averaged first.
    fn logits(&self, Streams { x1, x2 }: Streams<3>) -> (Tensor<2>, Tensor<3>, Tensor<3>) {
        let pooled = |x: Tensor<3>| if self.averages_first { x.mean_dim(1) } else { x };
        let (normalised, scale) = normalise(Tensor::cat(vec![pooled(x1), pooled(x2)], 2));
        let logits = linear(self.mean(normalised.clone()), &self.linear, Precision::F32);
        (logits, normalised, scale)
    }

    /// The mean token, after the norm's affine map: the mean of the map is the map of the mean.
    fn mean(&self, normalised: Tensor<3>) -> Tensor<2> {
        affine(normalised.mean_dim(1).squeeze_dim::<2>(1), &self.norm)
    }
}

impl Head<3> for Classifier {
    type Target = Tensor<1, Int>;
    type Output = Tensor<2>;
    type Saved = Saved;

    fn check(&self, labels: &Tensor<1, Int>, batch: usize) -> Result<()> {
        check_labels(labels, batch, self.classes)
    }

    fn predict(&self, x: Streams<3>, _: &Context<'_>) -> Tensor<2> {
        self.logits(x).0
    }

    fn loss_saving(
        &self,
        x: Streams<3>,
        labels: Tensor<1, Int>,
        context: &Context<'_>,
    ) -> (Tensor<1>, Tensor<2>, Saved) {
        let [_, tokens, _] = x.dims();
        let (logits, normalised, scale) = self.logits(x);
        let (loss, surplus) = cross_entropy(logits.clone(), labels, context.side(), self.label_smoothing);
        (loss, logits, Saved { tokens, normalised, scale, surplus })
    }

    fn vjp(
        &self,
        Saved { tokens, normalised, scale, surplus }: Saved,
        weight: f64,
        _: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Streams<3> {
        let [batch, normed, features] = normalised.dims();
        let width = features / 2;
        let dlogits = surplus.mul_scalar(weight / batch as f64);
        let input = {
            let normalised = normalised.clone();
            move || self.mean(normalised)
        };
        let dmean = linear_vjp(input, dlogits, &self.linear, Precision::F32, gradients);
        let dnorm = dmean.mul_scalar(1.0 / normed as f64).reshape([batch, 1, features]);
        let dpooled =
            norm_vjp(normalised, scale, dnorm.expand([batch, normed, features]), &self.norm, gradients);
        let dpooled = dpooled.mul_scalar(normed as f64 / tokens as f64);
        let spread = |start| dpooled.clone().narrow(2, start, width).expand([batch, tokens, width]);
        Streams::new(spread(0), spread(width))
    }

    fn footprint(&self, [batch, tokens, width]: [usize; 3], _: &Context<'_>) -> Option<Footprint> {
        let normed = if self.averages_first { 1 } else { tokens };
        let features = (batch * (normed * (2 * width + 1) + self.classes) * size_of::<f32>()) as u64;
        Some(Footprint { saved: features, forward: 3 * features, vjp: 3 * features, spared: 0 })
    }
}
