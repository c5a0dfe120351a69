//! Pooled attention (Fan et al., *Multiscale Vision Transformers*, 2021): queries, keys and values are images, and are made
//! smaller by a depthwise convolution before they meet. No residual inside.
//!
//! ```text
//! q, k, v = pool(split(norm(x) Wqkv + b)),   y = softmax(q k^T / sqrt(e)) v Wo + b
//! pool(z) = norm(conv3x3(z)), of each head alike
//! ```

mod fused;
mod pool;

use burn::config::Config;
use burn::module::Module;
use burn::nn::{LayerNorm, Linear};
use burn::tensor::Tensor;

pub use self::pool::Pool;
use self::pool::PoolSaved;
use super::Initial;
use super::heads::{Heads, attend, attend_vjp, join, split};
use super::linear::{linear, linear_vjp};
use super::norm::{affine, norm_vjp, normalise};
use super::ways::{BurnWay, Rates};
use crate::{Context, Footprint, Gradients, Precision};

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

/// Normalised input `[b, n, d]`, its scale, `qkv [rows, 3 d]`, what the pools of q, k and v saved, probabilities, `p v`.
type BurnSaved = (Tensor<3>, Tensor<3>, Tensor<2>, Vec<Option<PoolSaved>>, Heads, Tensor<2>);

impl PooledAttention {
    /// Those of queries, if they are pooled, of keys and of values.
    fn pools(&self) -> impl Iterator<Item = &Pool> {
        self.query_pool.iter().chain([&self.key_pool, &self.value_pool])
    }

    /// Tokens of the output.
    pub fn queries(&self) -> usize {
        self.query_pool.as_ref().map_or(self.side, |pool| pool.side(self.side)).pow(2)
    }

    /// Keys, and values.
    fn keys(&self) -> usize {
        self.key_pool.side(self.side).pow(2)
    }

    /// Queries, keys and values as they come, with the pools they go through.
    fn unpooled(&self, qkv: &Tensor<2>, batch: usize) -> [(Heads, Option<&Pool>); 3] {
        let width = qkv.dims()[1] / 3;
        let part = |i: usize| split(qkv.clone().narrow(1, i * width, width), batch, self.heads);
        [
            (part(0), self.query_pool.as_ref()),
            (part(1), Some(&self.key_pool)),
            (part(2), Some(&self.value_pool)),
        ]
    }
}

impl BurnWay<3> for PooledAttention {
    type BurnSaved = BurnSaved;

    fn rates(&self) -> Rates {
        Rates { dropout: self.dropout, drop_path: self.drop_path }
    }

    fn burn_forward(&self, x: Tensor<3>, context: &Context<'_>) -> (Tensor<3>, BurnSaved) {
        let precision = context.precision();
        let [batch, tokens, width] = x.dims();
        let (normalised, scale) = normalise(x);
        let input = precision.cast(affine(normalised.clone(), &self.norm)).reshape([batch * tokens, width]);
        let qkv = linear(input, &self.qkv, precision);
        let pooled = self.unpooled(&qkv, batch).map(|(x, pool)| match pool {
            Some(pool) => {
                let (y, saved) = pool.forward(x, self.side, precision);
                (y, Some(saved))
            }
            None => (x, None),
        });
        let [(q, query), (k, key), (v, value)] = pooled;
        let (probabilities, values) = attend([q, k, v], |scores| scores, precision);
        let values = join(values);
        let y = Precision::F32.cast(linear(values.clone(), &self.projection, precision));
        let y = y.reshape([batch, self.queries(), width]);
        (y, (normalised, scale, qkv, vec![query, key, value], probabilities, values))
    }

    fn burn_vjp(
        &self,
        (normalised, scale, qkv, pools, probabilities, values): BurnSaved,
        dy: Tensor<3>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Tensor<3> {
        let precision = context.precision();
        let [batch, tokens, width] = normalised.dims();
        let dy = precision.cast(dy).reshape([batch * self.queries(), width]);
        let dvalues = linear_vjp(|| values.clone(), dy, &self.projection, precision, gradients);
        let parts = self.unpooled(&qkv, batch);
        let pooled = [0, 1, 2].map(|i| match (&parts[i], &pools[i]) {
            ((_, Some(pool)), Some((normalised, _))) => pool.again(normalised.clone(), precision),
            ((x, _), _) => x.clone(),
        });
        let heads = |rows| split(rows, batch, self.heads);
        let (dpooled, _) = attend_vjp(pooled, probabilities, heads(values), heads(dvalues));
        let mut pools = pools.into_iter();
        let mut dparts = Vec::with_capacity(3);
        for ((x, pool), dy) in parts.into_iter().zip(dpooled) {
            let dx = match (pool, pools.next().flatten()) {
                (Some(pool), Some(saved)) => pool.vjp(x, saved, dy, self.side, precision, gradients),
                _ => dy,
            };
            dparts.push(join(dx));
        }
        let dqkv = Tensor::cat(dparts, 1);
        let input = {
            let normalised = normalised.clone();
            move || precision.cast(affine(normalised, &self.norm)).reshape([batch * tokens, width])
        };
        let dinput = linear_vjp(input, dqkv, &self.qkv, precision, gradients);
        let dinput = Precision::F32.cast(dinput).reshape([batch, tokens, width]);
        norm_vjp(normalised, scale, dinput, &self.norm, gradients)
    }

    fn burn_footprint(&self, [batch, tokens, width]: [usize; 3], context: &Context<'_>) -> Footprint {
        let half = context.precision().bytes();
        let stream = |tokens: usize| (batch * tokens * width) as u64;
        let (queries, scores) =
            (stream(self.queries()), (batch * self.heads * self.queries() * self.keys()) as u64);
        // What comes out of the pools, normalised, and its scale.
        let pools: u64 = self
            .pools()
            .map(|pool| {
                let tokens = pool.side(self.side).pow(2);
                4 * (stream(tokens) + (batch * tokens * self.heads) as u64)
            })
            .sum();
        let here = stream(tokens);
        let saved = 4 * (here + (batch * tokens) as u64) + half * (3 * here + scores + queries) + pools;
        Footprint {
            saved,
            spared: saved / 2,
            // Scores, twice, beside pooled queries, keys and values; or `q k v` twice.
            forward: (half * scores + pools).max(half * 3 * here).saturating_sub(half * queries),
            // The gradient of the scores, twice, beside the pooled ones and their gradients; or that of `q k v`, twice.
            vjp: (half * (2 * scores + queries) + 2 * pools).max(half * 6 * here + pools),
        }
    }
}
