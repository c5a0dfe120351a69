//! Attention inside square windows of an image, as a sub-block: pre-norm, a learned bias by relative position, shifted
//! windows, no residual inside (Liu et al., *Swin Transformer*, 2021).
//!
//! Norm and linear layers see single tokens, so windows are nothing but another order of tokens: they are gathered window
//! by window, attended to with a window for a sample, and put back. With a shift the image is rolled by it first; tokens
//! that were no neighbours before are hidden from each other.

mod fused;
mod plan;

use burn::config::Config;
use burn::module::{Module, Param};
use burn::nn::{LayerNorm, Linear};
use burn::tensor::{IndexingUpdateOp, Tensor};

use self::plan::Windows;
use super::Initial;
use super::heads::{attend, attend_vjp, join, split};
use super::linear::{linear, linear_vjp, value};
use super::norm::{affine, norm_vjp, normalise};
use super::ways::{BurnWay, Rates};
use crate::{Context, Footprint, Gradients, Precision};

/// Settings of a [`WindowAttention`].
#[derive(Config, Debug)]
pub struct WindowAttentionConfig {
    /// Tokens along one side of the square image.
    pub side: usize,
    /// Tokens along one side of a window; divides the image's.
    pub window: usize,
    /// Tokens by which windows are shifted; less than a window.
    pub shift: usize,
    /// Width of the stream.
    pub width: usize,
    /// Number of heads; divides the width.
    pub heads: usize,
    /// Rate at which elements of the output are dropped.
    #[config(default = 0.0)]
    pub dropout: f64,
    /// Rate at which whole samples of the output are dropped.
    #[config(default = 0.0)]
    pub drop_path: f64,
}

impl WindowAttentionConfig {
    /// An attention with initial parameters.
    ///
    /// # Panics
    ///
    /// Panics if the heads do not divide the width, or windows do not cover the image.
    pub fn init(&self, initial: &mut Initial) -> WindowAttention {
        let Self { side, window, shift, width, heads, dropout, drop_path } = *self;
        assert!(heads > 0 && width.is_multiple_of(heads), "{heads} heads do not divide a width of {width}");
        assert!(
            window > 0 && side.is_multiple_of(window) && shift < window,
            "windows of {window} shifted by {shift} do not cover a side of {side}"
        );
        WindowAttention {
            norm: initial.norm(width),
            qkv: initial.linear(width, 3 * width),
            bias: initial.truncated_normal([(2 * window - 1).pow(2), heads]),
            projection: initial.linear(width, width),
            side,
            window,
            shift,
            width,
            heads,
            dropout,
            drop_path,
        }
    }
}

/// Multi-head self-attention inside windows.
///
/// # Shapes
///
/// `[batch, side * side, width] -> [batch, side * side, width]`
#[derive(Module, Debug)]
pub struct WindowAttention {
    /// Before everything.
    pub norm: LayerNorm,
    /// Queries, keys and values: `[width, 3 * width]`, in that order, heads inside each.
    pub qkv: Linear,
    /// Added to the scores: a row for each relative position of query and key, by rows and then columns, from the key far
    /// below and to the right of the query to the key far above and to the left; a column for each head.
    pub bias: Param<Tensor<2>>,
    /// From the heads' values to the output.
    pub projection: Linear,
    side: usize,
    window: usize,
    shift: usize,
    width: usize,
    heads: usize,
    dropout: f64,
    drop_path: f64,
}

/// Normalised input `[samples, tokens, d]` in the order of windows, its scale, `qkv [rows, 3 d]`, probabilities, `p v`.
type BurnSaved = (Tensor<3>, Tensor<3>, Tensor<2>, Tensor<4>, Tensor<2>);

impl WindowAttention {
    fn windows(&self) -> Windows {
        Windows { side: self.side, window: self.window, shift: self.shift }
    }

    /// Scores `[batch * windows, heads, tokens, tokens]` with bias and masks.
    fn biased(&self, scores: Tensor<4>) -> Tensor<4> {
        let windows = self.windows();
        let (device, [samples, heads, tokens, _]) = (scores.device(), scores.dims());
        let bias = value(&self.bias, Precision::F32).select(0, windows.relative(&device));
        let bias = bias.reshape([tokens, tokens, heads]).permute([2, 0, 1]);
        let scores = scores + bias.unsqueeze();
        match windows.hidden(&device) {
            Some(hidden) => {
                let count = hidden.dims()[0];
                let scores: Tensor<5> = scores.reshape([samples / count, count, heads, tokens, tokens]);
                (scores + hidden.reshape([1, count, 1, tokens, tokens]))
                    .reshape([samples, heads, tokens, tokens])
            }
            None => scores,
        }
    }

    fn split(&self, qkv: &Tensor<2>, samples: usize) -> [Tensor<4>; 3] {
        [0, 1, 2].map(|part| split(qkv.clone().narrow(1, part * self.width, self.width), samples, self.heads))
    }

    /// The sum of the scores' gradients over samples, and over pairs of tokens of the same relative position.
    fn bias_gradient(&self, dscores: Tensor<4>) -> Tensor<2> {
        let device = dscores.device();
        let [_, heads, tokens, _] = dscores.dims();
        let pairs = dscores.sum_dim(0).reshape([heads, tokens * tokens]).transpose();
        let zeros = Tensor::zeros(self.bias.dims(), &device);
        zeros.select_assign(0, self.windows().relative(&device), pairs, IndexingUpdateOp::Add)
    }
}

impl BurnWay<3> for WindowAttention {
    type BurnSaved = BurnSaved;

    fn rates(&self) -> Rates {
        Rates { dropout: self.dropout, drop_path: self.drop_path }
    }

    fn burn_forward(&self, x: Tensor<3>, context: &Context<'_>) -> (Tensor<3>, BurnSaved) {
        let precision = context.precision();
        let x = self.windows().gather(x);
        let [samples, tokens, width] = x.dims();
        let (normalised, scale) = normalise(x);
        let input = precision.cast(affine(normalised.clone(), &self.norm)).reshape([samples * tokens, width]);
        let qkv = linear(input, &self.qkv, precision);
        let (probabilities, values) =
            attend(self.split(&qkv, samples), |scores| self.biased(scores), precision);
        let values = join(values);
        let y = linear(values.clone(), &self.projection, precision);
        let y = self.windows().scatter(Precision::F32.cast(y).reshape([samples, tokens, width]));
        (y, (normalised, scale, qkv, probabilities, values))
    }

    fn burn_vjp(
        &self,
        (normalised, scale, qkv, probabilities, values): BurnSaved,
        dy: Tensor<3>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Tensor<3> {
        let precision = context.precision();
        let [samples, tokens, width] = normalised.dims();
        let dy = precision.cast(self.windows().gather(dy)).reshape([samples * tokens, width]);
        let dvalues = linear_vjp(|| values.clone(), dy, &self.projection, precision, gradients);
        let heads = |rows| split(rows, samples, self.heads);
        let (parts, dscores) =
            attend_vjp(self.split(&qkv, samples), probabilities, heads(values), heads(dvalues));
        gradients.add(&self.bias, || self.bias_gradient(Precision::F32.cast(dscores)));
        let dqkv = Tensor::cat(parts.map(join).to_vec(), 1);

        let input = {
            let normalised = normalised.clone();
            move || precision.cast(affine(normalised, &self.norm)).reshape([samples * tokens, width])
        };
        let dinput = linear_vjp(input, dqkv, &self.qkv, precision, gradients);
        let dinput = Precision::F32.cast(dinput).reshape([samples, tokens, width]);
        self.windows().scatter(norm_vjp(normalised, scale, dinput, &self.norm, gradients))
    }

    fn burn_footprint(&self, [batch, tokens, width]: [usize; 3], context: &Context<'_>) -> Footprint {
        let rows = (batch * tokens) as u64;
        let stream = rows * width as u64;
        let half = context.precision().bytes();
        let scores = rows * (self.heads * self.window * self.window) as u64;
        let masked = if context.masks(self.dropout, self.drop_path) { 4 * stream } else { 0 };
        let saved = 4 * (stream + rows) + half * (4 * stream + scores);
        Footprint {
            saved,
            spared: saved / 2,
            // The scores twice, before `p v` and the output are there; or the output in both orders.
            forward: (4 * 2 * scores).max(4 * 2 * stream).saturating_sub(half * scores + 4 * stream),
            // The gradient of the scores, twice, beside those of `p v` and of the output; or those of `q k v`, twice.
            vjp: (half * (2 * scores + 3 * stream)).max(half * (scores + 6 * stream)) + masked,
        }
    }
}
