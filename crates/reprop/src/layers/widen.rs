//! The transition between two stages of a multiscale transformer: both streams are fused into one of twice the width, which
//! goes through an ordinary block whose queries, and whose residual path, are pooled by two.
//!
//! ```text
//! z = gelu([x1, x2] W + b) W + b,   a = pool(z) + attention(z),   y = a + mlp(a)
//! ```
//! Written in Burn's operations and differentiated by its autodiff: wrap it in
//! [`AutodiffTransition`](crate::AutodiffTransition).

use burn::config::Config;
use burn::module::Module;
use burn::nn::{LayerNorm, Linear};
use burn::tensor::{Tensor, activation::gelu, module::max_pool2d, ops::MaxPoolOptions};

use super::Initial;
use super::pooled::{PooledAttention, PooledAttentionConfig, normed};
use crate::{Context, Footprint, Layer, Streams, StreamsLayer};

/// Queries and the residual path are pooled by this.
const STRIDE: usize = 2;
/// Masks of the perceptron are apart from those of attention.
const MLP: u64 = 2;

/// Settings of a [`Widen`].
#[derive(Config, Debug)]
pub struct WidenConfig {
    /// Tokens along one side of the square image before it.
    pub side: usize,
    /// Width of each stream before it; doubled by it.
    pub width: usize,
    /// Heads after it.
    pub heads: usize,
    /// Stride of the keys' and values' convolutions.
    pub stride: usize,
    /// Hidden width of its perceptron.
    pub hidden: usize,
    /// Rate at which whole samples of attention and of perceptron are dropped.
    #[config(default = 0.0)]
    pub drop_path: f64,
}

impl WidenConfig {
    /// A transition with initial parameters.
    ///
    /// # Panics
    ///
    /// Panics if the heads do not divide the doubled width.
    pub fn init(&self, initial: &mut Initial) -> Widen {
        let Self { side, width, heads, stride, hidden, drop_path } = *self;
        let wide = 2 * width;
        Widen {
            fuse: initial.linear(wide, wide),
            fused: initial.linear(wide, wide),
            attention: PooledAttentionConfig::new(side, wide, heads, stride)
                .with_query_stride(Some(STRIDE))
                .with_drop_path(drop_path)
                .init(initial),
            norm: initial.norm(wide),
            expand: initial.linear(wide, hidden),
            contract: initial.linear(hidden, wide),
            side,
            hidden,
            drop_path,
        }
    }
}

/// Fuses both streams, doubles the width, halves the image's side, and begins two equal streams.
///
/// # Shapes
///
/// `[batch, side * side, width]` twice `-> [batch, half * half, 2 * width]` twice, with half a side rounded up
#[derive(Module, Debug)]
pub struct Widen {
    /// From both streams side by side to the hidden width.
    pub fuse: Linear,
    /// From there to one stream of twice the width.
    pub fused: Linear,
    /// Of pooled queries.
    pub attention: PooledAttention,
    /// Before the perceptron.
    pub norm: LayerNorm,
    /// From the stream's width to the hidden one.
    pub expand: Linear,
    /// And back.
    pub contract: Linear,
    side: usize,
    hidden: usize,
    drop_path: f64,
}

impl StreamsLayer<3> for Widen {
    fn forward(&self, Streams { x1, x2 }: Streams<3>, context: &Context<'_>) -> Streams<3> {
        let z = self.fused.forward(gelu(self.fuse.forward(Tensor::cat(vec![x1, x2], 2))));
        let [batch, _, width] = z.dims();
        let queries = self.attention.queries();
        let image = z.clone().swap_dims(1, 2).reshape([batch, width, self.side, self.side]);
        let options = MaxPoolOptions::new([3; 2]).with_stride([STRIDE; 2]).with_padding([1; 2]);
        let pooled = max_pool2d(image, options);
        let pooled = pooled.reshape([batch, width, queries]).swap_dims(1, 2);
        let a = pooled + Layer::forward(&self.attention, z, context);
        let h = gelu(self.expand.forward(normed(a.clone(), &self.norm)));
        let y = a + context.drop_path(self.contract.forward(h), self.drop_path, MLP);
        Streams::duplicate(y)
    }

    fn footprint(
        &self,
        [batch, tokens, width]: [usize; 3],
        _: &Context<'_>,
    ) -> Option<([usize; 3], Footprint)> {
        let queries = self.attention.queries();
        let attention = self.attention.bytes([batch, tokens, 2 * width]);
        let stream = |tokens: usize| 4 * (batch * tokens * 2 * width) as u64;
        let hidden = 4 * (batch * queries * self.hidden) as u64;
        // The streams side by side, before and after GELU, and the fused one; the pooled residual path and its places; the
        // norm's inner values; the perceptron.
        let around = 4 * stream(tokens) + 6 * stream(queries) + 2 * hidden;
        let size = Footprint {
            saved: attention.saved + around,
            forward: attention.forward,
            vjp: attention.vjp.max(2 * hidden) + stream(tokens),
        };
        Some(([batch, queries, 2 * width], size))
    }
}
