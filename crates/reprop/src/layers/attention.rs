//! Multi-head self-attention as a sub-block: pre-norm, no residual inside.
//!
//! ```text
//! q, k, v = split(norm(x) Wqkv + b),   p = softmax(q k^T / sqrt(e)),   y = (p v) Wo + b
//! dv = p^T do,   dp = do v^T,   ds = p * (dp - sum(dp * p)),   dq = ds k / sqrt(e),   dk = ds^T q / sqrt(e)
//! ```
//! with `e` the width of a head and `do` the gradient of `o = p v`. The sum over the keys is taken as the equal
//! `sum(do * o)` over a head's width (Dao et al., *FlashAttention*, 2022, eq. 4), which needs no tensor of the size of
//! the probabilities. Saved: the normalised input, its scale, `q k v`, the
//! probabilities, and `p v`.

use burn::config::Config;
use burn::module::Module;
use burn::nn::{LayerNorm, Linear};
use burn::tensor::{Tensor, activation::softmax};

use crate::{Context, Footprint, Gradients, HiddenKeys, Precision, Residual};

use super::linear::{linear, linear_vjp};
use super::norm::{affine, norm_vjp, normalise};
use super::{Initial, site};

/// Scores of hidden keys. Finite, so that a sample whose keys are all hidden gives the mean and not `NaN`, and within
/// the range of half floats.
const HIDDEN: f32 = -6e4;

/// Settings of an [`Attention`].
#[derive(Config, Debug)]
pub struct AttentionConfig {
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

impl AttentionConfig {
    /// An attention with initial parameters.
    ///
    /// # Panics
    ///
    /// Panics if the heads do not divide the width.
    pub fn init(&self, initial: &mut Initial) -> Attention {
        let Self { width, heads, dropout, drop_path } = *self;
        assert!(heads > 0 && width.is_multiple_of(heads), "{heads} heads do not divide a width of {width}");
        Attention {
            norm: initial.norm(width),
            qkv: initial.linear(width, 3 * width),
            projection: initial.linear(width, width),
            width,
            heads,
            dropout,
            drop_path,
        }
    }
}

/// Multi-head self-attention over all tokens, with hidden keys where the pass has [`HiddenKeys`].
///
/// # Shapes
///
/// `[batch, tokens, width] -> [batch, tokens, width]`
#[derive(Module, Debug)]
pub struct Attention {
    /// Before everything.
    pub norm: LayerNorm,
    /// Queries, keys and values: `[width, 3 * width]`, in that order, heads inside each.
    pub qkv: Linear,
    /// From the heads' values to the output.
    pub projection: Linear,
    width: usize,
    heads: usize,
    dropout: f64,
    drop_path: f64,
}

/// Normalised input `[b, n, d]`, its scale `[b, n, 1]`, `qkv [b n, 3 d]`, probabilities `[b, h, n, n]`, `p v [b n, d]`.
type Saved = (Tensor<3>, Tensor<3>, Tensor<2>, Tensor<4>, Tensor<2>);

impl Attention {
    /// `q`, `k` and `v` as views of the rows of `qkv`, each `[b, h, n, e]`.
    fn split(&self, qkv: Tensor<2>, [batch, tokens]: [usize; 2]) -> [Tensor<4>; 3] {
        let heads: Tensor<5> =
            qkv.reshape([batch, tokens, 3, self.heads, self.width / self.heads]).permute([2, 0, 3, 1, 4]);
        [0, 1, 2].map(|part| heads.clone().narrow(0, part, 1).squeeze_dim(0))
    }

    fn scale(&self) -> f64 {
        ((self.width / self.heads) as f64).sqrt().recip()
    }
}

/// Rows `[b n, d]` from heads `[b, h, n, e]`.
fn rows(heads: Tensor<4>) -> Tensor<2> {
    let [batch, count, tokens, width] = heads.dims();
    heads.swap_dims(1, 2).reshape([batch * tokens, count * width])
}

impl Residual<3> for Attention {
    type Saved = Saved;

    fn forward_saving(&self, x: Tensor<3>, context: &Context<'_>) -> (Tensor<3>, Saved) {
        let precision = context.precision();
        let [batch, tokens, width] = x.dims();
        let (normalised, scale) = normalise(x);
        let input = precision.cast(affine(normalised.clone(), &self.norm)).reshape([batch * tokens, width]);
        let qkv = linear(input, &self.qkv, precision);

        let [q, k, v] = self.split(qkv.clone(), [batch, tokens]);
        let mut scores = q.mul_scalar(self.scale()).matmul(k.transpose());
        if let Some(HiddenKeys(hidden)) = context.side() {
            let hidden =
                hidden.clone().reshape([batch, 1, 1, tokens]).expand([batch, self.heads, tokens, tokens]);
            scores = scores.mask_fill(hidden, HIDDEN);
        }
        let probabilities = precision.cast(softmax(Precision::F32.cast(scores), 3));
        let values = rows(probabilities.clone().matmul(v));

        let y = linear(values.clone(), &self.projection, precision);
        let y = Precision::F32.cast(y).reshape([batch, tokens, width]);
        let y = context.dropout(y, self.dropout, site::OUTPUT);
        let y = context.drop_path(y, self.drop_path, site::PATH);
        (y, (normalised, scale, qkv, probabilities, values))
    }

    fn vjp(
        &self,
        (normalised, scale, qkv, probabilities, values): Saved,
        dy: Tensor<3>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Tensor<3> {
        let precision = context.precision();
        let [batch, tokens, width] = dy.dims();
        let dy = context.drop_path(dy, self.drop_path, site::PATH);
        let dy = context.dropout(dy, self.dropout, site::OUTPUT);
        let dy = precision.cast(dy).reshape([batch * tokens, width]);
        let dvalues = linear_vjp(|| values.clone(), dy, &self.projection, precision, gradients);
        let heads = [batch, tokens, self.heads, width / self.heads];
        let mean = (values * dvalues.clone()).reshape(heads).sum_dim(3).swap_dims(1, 2);
        let dvalues = dvalues.reshape(heads).swap_dims(1, 2);

        let [q, k, v] = self.split(qkv, [batch, tokens]);
        let dv = probabilities.clone().transpose().matmul(dvalues.clone());
        let dp = dvalues.matmul(v.transpose());
        let ds = (dp - mean) * probabilities;
        let dq = rows(ds.clone().matmul(k).mul_scalar(self.scale()));
        let dk = rows(ds.transpose().matmul(q).mul_scalar(self.scale()));
        let dqkv = Tensor::cat(vec![dq, dk, rows(dv)], 1);

        let input = {
            let normalised = normalised.clone();
            move || precision.cast(affine(normalised, &self.norm)).reshape([batch * tokens, width])
        };
        let dinput = linear_vjp(input, dqkv, &self.qkv, precision, gradients);
        let dinput = Precision::F32.cast(dinput).reshape([batch, tokens, width]);
        norm_vjp(normalised, scale, dinput, &self.norm, gradients)
    }

    fn footprint(&self, [batch, tokens, width]: [usize; 3], context: &Context<'_>) -> Option<Footprint> {
        let rows = (batch * tokens) as u64;
        let stream = rows * width as u64;
        let half = context.precision().bytes();
        let scores = rows * (self.heads * tokens) as u64;
        let masked = if context.masks(self.dropout, self.drop_path) { 4 * stream } else { 0 };
        Some(Footprint {
            saved: 4 * (stream + rows) + half * (4 * stream + scores),
            // Scores while they become probabilities, before values and output are there; then a mask.
            forward: (4 * 2 * scores).saturating_sub(half * (scores + 2 * stream)).max(masked),
            // The gradient of the probabilities, of `p v` and of `v`, when `p v` is gone; or the masked gradient of
            // the output and that of `p v`; or gradients of `q`, `k` and `v`, apart and side by side.
            vjp: (half * (scores + stream)).max(half * 2 * stream + masked),
        })
    }
}
