//! Pooled attention (Fan et al., *Multiscale Vision Transformers*, 2021): queries, keys and values are images, and are made
//! smaller by a depthwise convolution before they meet. No residual inside.
//!
//! ```text
//! q, k, v = pool(split(norm(x) Wqkv + b)),   y = softmax(q k^T / sqrt(e)) v Wo + b
//! pool(z) = norm(conv3x3(z)), of each head alike
//! ```
//! Written in Burn's operations and differentiated by its autodiff: wrap it in [`Autodiff`](crate::Autodiff).

use burn::config::Config;
use burn::module::{Module, Param};
use burn::nn::{LayerNorm, Linear};
use burn::tensor::{Tensor, module::conv2d, ops::ConvOptions};

use super::heads::Heads;
use super::norm::EPSILON;
use super::{Initial, site};
use crate::{Context, Footprint, Layer};

/// Side of the convolutions.
const KERNEL: usize = 3;

/// Settings of a [`PooledAttention`].
#[derive(Config, Debug)]
pub struct PooledAttentionConfig {
    /// Tokens along one side of the square image.
    pub side: usize,
    /// Width of the stream.
    pub width: usize,
    /// Number of heads; divides the width.
    pub heads: usize,
    /// Stride of the keys' and values' convolutions.
    pub stride: usize,
    /// Stride of the queries' convolution; without one, queries are not pooled, and the output is as large as the input.
    #[config(default = "None")]
    pub query_stride: Option<usize>,
    /// Rate at which elements of the output are dropped.
    #[config(default = 0.0)]
    pub dropout: f64,
    /// Rate at which whole samples of the output are dropped.
    #[config(default = 0.0)]
    pub drop_path: f64,
}

impl PooledAttentionConfig {
    /// An attention with initial parameters.
    ///
    /// # Panics
    ///
    /// Panics if the heads do not divide the width.
    pub fn init(&self, initial: &mut Initial) -> PooledAttention {
        let Self { side, width, heads, stride, query_stride, dropout, drop_path } = *self;
        assert!(heads > 0 && width.is_multiple_of(heads), "{heads} heads do not divide a width of {width}");
        let head = width / heads;
        PooledAttention {
            norm: initial.norm(width),
            qkv: initial.linear(width, 3 * width),
            query_pool: query_stride.map(|stride| Pool::new(head, stride, initial)),
            key_pool: Pool::new(head, stride, initial),
            value_pool: Pool::new(head, stride, initial),
            projection: initial.linear(width, width),
            side,
            heads,
            dropout,
            drop_path,
        }
    }
}

/// Multi-head self-attention of queries over fewer keys and values.
///
/// # Shapes
///
/// `[batch, side * side, width] -> [batch, side * side, width]`, or fewer tokens where queries are pooled
#[derive(Module, Debug)]
pub struct PooledAttention {
    /// Before everything.
    pub norm: LayerNorm,
    /// Queries, keys and values: `[width, 3 * width]`, in that order, heads inside each.
    pub qkv: Linear,
    /// Of queries.
    pub query_pool: Option<Pool>,
    /// Of keys.
    pub key_pool: Pool,
    /// Of values.
    pub value_pool: Pool,
    /// From the heads' values to the output.
    pub projection: Linear,
    side: usize,
    heads: usize,
    dropout: f64,
    drop_path: f64,
}

/// A depthwise convolution, the same for each head, and a norm over a head's width.
#[derive(Module, Debug)]
pub struct Pool {
    /// `[head width, 1, 3, 3]`.
    pub weight: Param<Tensor<4>>,
    /// Over a head's width.
    pub norm: LayerNorm,
    stride: usize,
}

/// Tokens along a side after a pool of this stride.
pub fn pooled_side(side: usize, stride: usize) -> usize {
    side.div_ceil(stride)
}

impl Pool {
    fn new(head: usize, stride: usize, initial: &mut Initial) -> Self {
        Self { weight: initial.truncated_normal([head, 1, KERNEL, KERNEL]), norm: initial.norm(head), stride }
    }

    /// `[batch, heads, side * side, e] -> [batch, heads, tokens, e]`
    fn forward(&self, x: Heads, side: usize) -> Heads {
        let [batch, heads, _, width] = x.dims();
        let images = x.swap_dims(2, 3).reshape([batch * heads, width, side, side]);
        let around = [KERNEL / 2; 2];
        let options = ConvOptions::new([self.stride; 2], around, [1; 2], width);
        let pooled = conv2d(images, self.weight.val(), None, options);
        let tokens = pooled_side(side, self.stride).pow(2);
        normed(pooled.reshape([batch, heads, width, tokens]).swap_dims(2, 3), &self.norm)
    }
}

/// The norm by operations that Burn computes alike on a graph and off it: its own is one fused operation off a graph, with
/// other roundings, and a recovered block would not be the stored one.
pub fn normed<const D: usize>(x: Tensor<D>, norm: &LayerNorm) -> Tensor<D> {
    let centred = x.clone() - x.mean_dim(D - 1);
    let variance = centred.clone().square().mean_dim(D - 1);
    let y = centred * variance.add_scalar(EPSILON).sqrt().recip() * norm.gamma.val().unsqueeze();
    match &norm.beta {
        Some(beta) => y + beta.val().unsqueeze(),
        None => y,
    }
}

/// The softmax of the last axis, by the same rule as [`normed`].
fn softmax(scores: Heads) -> Heads {
    let largest = scores.clone().detach().max_dim(3);
    let powers = (scores - largest).exp();
    powers.clone() / powers.sum_dim(3)
}

impl Layer<3> for PooledAttention {
    fn forward(&self, x: Tensor<3>, context: &Context<'_>) -> Tensor<3> {
        let [batch, tokens, width] = x.dims();
        let head = width / self.heads;
        let qkv = self.qkv.forward(normed(x, &self.norm));
        let part = |part: usize| -> Heads {
            let part = qkv.clone().narrow(2, part * width, width);
            part.reshape([batch, tokens, self.heads, head]).swap_dims(1, 2)
        };
        let q = match &self.query_pool {
            Some(pool) => pool.forward(part(0), self.side),
            None => part(0),
        };
        let k = self.key_pool.forward(part(1), self.side);
        let v = self.value_pool.forward(part(2), self.side);
        let scores = q.mul_scalar((head as f64).sqrt().recip()).matmul(k.transpose());
        let values = softmax(scores).matmul(v).swap_dims(1, 2);
        let queries = values.dims()[1];
        let y = self.projection.forward(values.reshape([batch, queries, width]));
        let y = context.dropout(y, self.dropout, site::OUTPUT);
        context.drop_path(y, self.drop_path, site::PATH)
    }

    fn footprint(&self, dims: [usize; 3], _: &Context<'_>) -> Option<Footprint> {
        Some(self.bytes(dims))
    }
}

impl PooledAttention {
    /// Stride of the queries.
    fn query_stride(&self) -> usize {
        self.query_pool.as_ref().map_or(1, |pool| pool.stride)
    }

    /// Tokens of the output.
    pub fn queries(&self) -> usize {
        pooled_side(self.side, self.query_stride()).pow(2)
    }

    /// What Burn's graph holds, counted by its operations.
    pub fn bytes(&self, [batch, tokens, width]: [usize; 3]) -> Footprint {
        let (queries, keys) = (self.queries(), pooled_side(self.side, self.key_pool.stride).pow(2));
        let stream = |tokens: usize| (batch * tokens * width) as u64;
        let scores = (batch * self.heads * queries * keys) as u64;
        let pooled = if self.query_pool.is_some() { 3 * stream(queries) } else { stream(queries) };
        // The input; the norm's inner values, its result; q, k, v before and after their pools and norms; scores
        // and probabilities; values and output.
        let saved = 4 * stream(tokens)
            + 3 * stream(tokens)
            + pooled
            + 6 * stream(keys)
            + 2 * scores
            + 3 * stream(queries);
        Footprint { saved: 4 * saved, forward: 4 * scores, vjp: 4 * (2 * scores + 6 * stream(tokens)) }
    }
}
