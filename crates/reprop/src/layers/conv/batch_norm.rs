//! Batch norm over all pixels of a batch, and its derivative.
//!
//! ```text
//! n = (x - mean) r,   r = 1 / sqrt(var + eps),   z = n gamma + beta
//! dn = dz gamma,      dx = r (dn - mean(dn) - n mean(dn n))
//! ```
//! Training takes mean and variance from the batch, in every forward and in every recomputation of it; the derivative
//! notes them for the running statistics. Evaluation takes the running ones, and `dx = r dn`.

use burn::module::{Module, Param};
use burn::tensor::Tensor;

use crate::{Gradients, Precision, Saved, Storing};

use super::super::Initial;
use super::super::linear::value;

/// As PyTorch's.
pub(crate) const EPSILON: f64 = 1e-5;
/// The part of a batch's statistics in the running ones, as PyTorch's.
pub(crate) const MOMENTUM: f64 = 0.1;

/// A batch norm. Running statistics are parameters without a gradient: part of records, and none of the optimizer's
/// business.
///
/// # Shapes
///
/// `[batch, height, width, channels] -> [batch, height, width, channels]`
#[derive(Module, Debug)]
pub struct BatchNorm {
    /// Scale: `[channels]`.
    pub gamma: Param<Tensor<1>>,
    /// Shift: `[channels]`.
    pub beta: Param<Tensor<1>>,
    /// For evaluation: `[channels]`.
    pub running_mean: Param<Tensor<1>>,
    /// For evaluation: `[channels]`.
    pub running_var: Param<Tensor<1>>,
}

/// What the derivative needs.
pub(super) struct NormSaved {
    /// `n`.
    pub normalised: Tensor<4>,
    /// `r`, `[1, 1, 1, channels]`.
    scale: Tensor<4>,
    /// Mean and unbiased variance of the batch; nothing in evaluation.
    observed: Option<(Tensor<1>, Tensor<1>)>,
}

impl Saved for NormSaved {
    fn bytes(&self) -> u64 {
        self.normalised.bytes() + self.scale.bytes() + self.observed.bytes()
    }

    /// Statistics stay as they are.
    fn store(&mut self, storing: &Storing<'_>) {
        self.normalised.store(storing);
    }
}

impl BatchNorm {
    /// The identity of `channels` channels.
    pub(crate) fn new(channels: usize, initial: &Initial) -> Self {
        Self {
            gamma: initial.constant([channels], 1.0),
            beta: initial.zeros([channels]),
            running_mean: initial.constant([channels], 0.0).set_require_grad(false),
            running_var: initial.constant([channels], 1.0).set_require_grad(false),
        }
    }

    /// Normalises `x + bias`. With statistics of the batch the bias changes nothing but the mean that is noted.
    pub(super) fn normalise(&self, x: Tensor<4>, bias: &Param<Tensor<1>>, training: bool) -> NormSaved {
        let rows: usize = x.dims()[..3].iter().product();
        let bias = value(bias, Precision::F32);
        if !training {
            let shift = bias - value(&self.running_mean, Precision::F32);
            let scale = reciprocal_root(across(value(&self.running_var, Precision::F32)));
            let normalised = (x + across(shift)) * scale.clone();
            return NormSaved { normalised, scale, observed: None };
        }
        let mean = mean_of_pixels(x.clone());
        let centred = x - mean.clone();
        let variance = mean_of_pixels(centred.clone().square());
        let scale = reciprocal_root(variance.clone());
        let correction = rows as f64 / (rows.max(2) - 1) as f64;
        let observed = (flat(mean) + bias, flat(variance).mul_scalar(correction));
        NormSaved { normalised: centred * scale.clone(), scale, observed: Some(observed) }
    }

    /// `z`.
    pub(super) fn affine(&self, normalised: Tensor<4>) -> Tensor<4> {
        normalised * across(value(&self.gamma, Precision::F32)) + across(value(&self.beta, Precision::F32))
    }

    /// `dx`, gradients of scale, shift and of the bias before the norm, and what the batch showed.
    pub(super) fn vjp(
        &self,
        NormSaved { normalised, scale, observed }: NormSaved,
        dz: Tensor<4>,
        bias: &Param<Tensor<1>>,
        gradients: &mut Gradients,
    ) -> Tensor<4> {
        gradients.add(&self.gamma, || sum_of_pixels(dz.clone() * normalised.clone()));
        gradients.add(&self.beta, || sum_of_pixels(dz.clone()));
        let dn = dz * across(value(&self.gamma, Precision::F32));
        let Some((mean, variance)) = observed else {
            let dx = dn * scale;
            gradients.add(bias, || sum_of_pixels(dx.clone()));
            return dx;
        };
        gradients.observe(&self.running_mean, MOMENTUM, mean);
        gradients.observe(&self.running_var, MOMENTUM, variance);
        // What is added to all pixels alike is taken out again with their mean.
        gradients.add(bias, || value(bias, Precision::F32).zeros_like());
        let mean = mean_of_pixels(dn.clone());
        let projection = mean_of_pixels(dn.clone() * normalised.clone());
        (dn - mean - normalised * projection) * scale
    }
}

/// `1 / sqrt(variance + eps)`.
fn reciprocal_root(variance: Tensor<4>) -> Tensor<4> {
    variance.add_scalar(EPSILON).sqrt().recip()
}

/// One value a channel, for all pixels.
fn across(channels: Tensor<1>) -> Tensor<4> {
    channels.unsqueeze()
}

/// `[1, 1, 1, channels] -> [channels]`
fn flat(x: Tensor<4>) -> Tensor<1> {
    let channels = x.dims()[3];
    x.reshape([channels])
}

/// The mean of each channel, `[1, 1, 1, channels]`: over an image first, so that no long sum loses its small terms.
fn mean_of_pixels(x: Tensor<4>) -> Tensor<4> {
    let [batch, height, width, channels] = x.dims();
    x.reshape([batch, height * width, channels])
        .mean_dim(1)
        .reshape([batch, channels])
        .mean_dim(0)
        .reshape([1, 1, 1, channels])
}

/// The sum of each channel, in the same order.
fn sum_of_pixels(x: Tensor<4>) -> Tensor<1> {
    let [batch, height, width, channels] = x.dims();
    x.reshape([batch, height * width, channels])
        .sum_dim(1)
        .reshape([batch, channels])
        .sum_dim(0)
        .reshape([channels])
}
