//! The multi-layer perceptron as a sub-block: pre-norm, two linear layers with GELU between, no residual inside.
//!
//! ```text
//! h = norm(x) W1 + b,   y = gelu(h) W2 + b
//! gelu(h) = h P(h),     gelu'(h) = P(h) + h p(h)
//! ```
//! with `P` and `p` the normal distribution and density. Saved: the normalised input, its scale, and `h`. `P(h)` has to
//! be computed anew for the derivative in any case, and `gelu(h)` is one product away from it, so it is not saved.

mod fused;

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use burn::config::Config;
use burn::module::Module;
use burn::nn::{LayerNorm, Linear};
use burn::tensor::Tensor;

use crate::{Context, Footprint, Gradients, Precision};

use super::Initial;
use super::linear::{linear, linear_input_vjp, linear_vjp, linear_weights_vjp};
use super::norm::{affine, norm_vjp, normalise};
use super::ways::{BurnWay, Rates};

/// Settings of an [`Mlp`].
#[derive(Config, Debug)]
pub struct MlpConfig {
    /// Width of the stream.
    pub width: usize,
    /// Width between the two layers.
    pub hidden: usize,
    /// Rate at which elements of the output are dropped.
    #[config(default = 0.0)]
    pub dropout: f64,
    /// Rate at which whole samples of the output are dropped.
    #[config(default = 0.0)]
    pub drop_path: f64,
}

impl MlpConfig {
    /// A perceptron with initial parameters.
    pub fn init(&self, initial: &mut Initial) -> Mlp {
        let Self { width, hidden, dropout, drop_path } = *self;
        Mlp {
            norm: initial.norm(width),
            expand: initial.linear(width, hidden),
            contract: initial.linear(hidden, width),
            hidden,
            dropout,
            drop_path,
        }
    }
}

/// A multi-layer perceptron on each token.
///
/// # Shapes
///
/// `[batch, tokens, width] -> [batch, tokens, width]`
#[derive(Module, Debug)]
pub struct Mlp {
    /// Before everything.
    pub norm: LayerNorm,
    /// From the stream's width to the hidden one.
    pub expand: Linear,
    /// And back.
    pub contract: Linear,
    hidden: usize,
    dropout: f64,
    drop_path: f64,
}

/// `P(h)`, the normal distribution function.
pub(super) fn distribution(h: Tensor<2>) -> Tensor<2> {
    h.mul_scalar(FRAC_1_SQRT_2).erf().add_scalar(1.0).mul_scalar(0.5)
}

/// `p(h)`, the normal density.
pub(super) fn density(h: Tensor<2>) -> Tensor<2> {
    h.square().mul_scalar(-0.5).exp().mul_scalar((2.0 * PI).sqrt().recip())
}

/// Normalised input `[b, n, d]`, its scale `[b, n, 1]`, and `h`.
type BurnSaved = (Tensor<3>, Tensor<3>, Tensor<2>);

impl BurnWay<3> for Mlp {
    type BurnSaved = BurnSaved;

    fn rates(&self) -> Rates {
        Rates { dropout: self.dropout, drop_path: self.drop_path }
    }

    fn burn_forward(&self, x: Tensor<3>, context: &Context<'_>) -> (Tensor<3>, BurnSaved) {
        let precision = context.precision();
        let [batch, tokens, width] = x.dims();
        let (normalised, scale) = normalise(x);
        let input = precision.cast(affine(normalised.clone(), &self.norm)).reshape([batch * tokens, width]);
        let h = linear(input, &self.expand, precision);
        let y = linear(distribution(h.clone()) * h.clone(), &self.contract, precision);
        let y = Precision::F32.cast(y).reshape([batch, tokens, width]);
        (y, (normalised, scale, h))
    }

    fn burn_vjp(
        &self,
        (normalised, scale, h): BurnSaved,
        dy: Tensor<3>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Tensor<3> {
        let precision = context.precision();
        let [batch, tokens, width] = dy.dims();
        let dy = precision.cast(dy).reshape([batch * tokens, width]);

        // In this order, three tensors of the hidden width live at once and not four: the derivative is finished before
        // `gelu(h)` takes the place of `P(h)`, and `gelu(h)` is gone before its gradient comes.
        let distribution = distribution(h.clone());
        let slope = density(h.clone()) * h.clone() + distribution.clone();
        linear_weights_vjp(move || distribution * h, &dy, &self.contract, gradients);
        let dh = slope * linear_input_vjp(dy, &self.contract, precision);

        let input = {
            let normalised = normalised.clone();
            move || precision.cast(affine(normalised, &self.norm)).reshape([batch * tokens, width])
        };
        let dinput = linear_vjp(input, dh, &self.expand, precision, gradients);
        let dinput = Precision::F32.cast(dinput).reshape([batch, tokens, width]);
        norm_vjp(normalised, scale, dinput, &self.norm, gradients)
    }

    fn burn_footprint(&self, [batch, tokens, width]: [usize; 3], context: &Context<'_>) -> Footprint {
        let rows = (batch * tokens) as u64;
        let stream = rows * width as u64;
        let hidden = rows * self.hidden as u64;
        let half = context.precision().bytes();
        let masked = if context.masks(self.dropout, self.drop_path) { 4 * stream } else { 0 };
        let weight = 4 * self.hidden as u64 * width as u64;
        let saved = 4 * (stream + rows) + half * hidden;
        Footprint {
            saved,
            spared: saved / 2,
            // `gelu(h)`, beside the output twice.
            forward: half * (hidden + stream),
            // The derivative and `P(h)`, or the gradient of `gelu(h)`, twice; or `gelu(h)` and the weight's gradient.
            vjp: (half * 2 * hidden).max(half * hidden + weight) + masked,
        }
    }
}
