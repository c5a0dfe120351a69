//! Pooled attention (MViT): queries, keys and values are images, made smaller before they meet. No residual inside.
//!
//! `q, k, v = pool(norm(x) W + b)`, `y = softmax(q kᵀ / sqrt(e)) v Wₒ + bₒ`; queries may be left as they are.
//!
//! Saved: the norm's statistics, queries, keys and values before their pools, what the pools save, the heads' output and, if
//! wanted, the probabilities.

use super::block::split;
use super::ends::{Ends, EndsGrads, Seen};
use super::heads::{Heads, HeadsGrads, Keep, Masks, Rows};
use super::heads_vjp::Known;
use super::pool::{Pool, PoolGrads, PoolSaved};
use crate::conv::Images;
use crate::gemm::Weight;
use crate::grid::GridOverflow;
use crate::layer_norm::{LayerNorm, NormGrads};
use crate::output::{Base, Output};
use crate::share::Shared;
use crate::sixteen::Rounds;
use crate::workspace::{Buffer, Workspace};

/// Parameters of the sub-block; `x` are images of `norm.width()` channels, and `y` as many as there are queries.
#[derive(Clone, Copy, Debug)]
pub struct PooledAttention<'a> {
    /// The images.
    pub images: Images,
    /// Heads; they share the width equally.
    pub heads: usize,
    /// Pre-norm over the width.
    pub norm: LayerNorm<'a>,
    /// Width x 3 width: queries, keys, values.
    pub qkv: Weight<'a>,
    /// 3 width.
    pub qkv_bias: &'a [f32],
    /// Of queries, if they are pooled.
    pub query: Option<Pool<'a>>,
    /// Of keys.
    pub key: Pool<'a>,
    /// Of values; as many as keys.
    pub value: Pool<'a>,
    /// Width x width.
    pub out: Weight<'a>,
    /// Width.
    pub out_bias: &'a [f32],
}

/// What [`PooledAttention::vjp`] needs beside `x`.
#[derive(Debug)]
pub struct PooledSaved {
    stats: Buffer,
    qkv: Buffer,
    pools: Pools,
    context: Buffer,
    probabilities: Option<Buffer>,
}

/// What the pools save.
#[derive(Debug)]
struct Pools {
    query: Option<PoolSaved>,
    key: PoolSaved,
    value: PoolSaved,
}

/// What the pools give; queries, if they are pooled.
struct Pooled {
    query: Option<Buffer>,
    key: Buffer,
    value: Buffer,
}

impl Rounds for PooledSaved {
    fn values(&mut self) -> impl Iterator<Item = &mut Buffer> {
        let Self { stats: _, qkv, pools: Pools { query, key, value }, context, probabilities } = self;
        let pools = query.values().chain(key.values()).chain(value.values());
        [qkv, context].into_iter().chain(probabilities).chain(pools)
    }
}

/// Where the gradients go; each is overwritten.
#[derive(Debug)]
pub struct PooledGrads<'a> {
    /// The norm's.
    pub norm: NormGrads<'a>,
    /// Width x 3 width.
    pub qkv: &'a mut [f32],
    /// 3 width.
    pub qkv_bias: &'a mut [f32],
    /// The queries' pool's, if they are pooled.
    pub query: Option<PoolGrads<'a>>,
    /// The keys' pool's.
    pub key: PoolGrads<'a>,
    /// The values' pool's.
    pub value: PoolGrads<'a>,
    /// Width x width.
    pub out: &'a mut [f32],
    /// Width.
    pub out_bias: &'a mut [f32],
}

/// Gradients of the pools' parameters.
struct PoolsGrads<'a> {
    query: Option<PoolGrads<'a>>,
    key: PoolGrads<'a>,
    value: PoolGrads<'a>,
}

impl<'a> PooledGrads<'a> {
    /// Those of the pools, and those around the heads.
    fn split(self) -> (PoolsGrads<'a>, EndsGrads<'a>) {
        let Self { norm, qkv, qkv_bias, query, key, value, out, out_bias } = self;
        (PoolsGrads { query, key, value }, EndsGrads { norm, qkv, qkv_bias, out, out_bias })
    }
}

impl PooledAttention<'_> {
    /// `f(x)`, keeping what the derivative needs.
    ///
    /// # Errors
    /// If an output on a grid leaves its range.
    ///
    /// # Panics
    /// If shapes do not fit.
    pub fn forward_saving(
        &self,
        x: &[f32],
        output: &mut Output,
        keep: Keep,
        ws: &Workspace,
    ) -> Result<PooledSaved, GridOverflow> {
        self.check(x);
        let (ends, heads) = (self.ends(), self.inner());
        let (stats, qkv) = ends.enter(x, ws);
        let (pooled, pools) = self.pool(&qkv, ws);
        let mut context = ws.take(heads.batch * heads.queries * ends.width());
        let mut probabilities = (keep == Keep::Probabilities).then(|| ws.take(heads.probabilities_len()));
        heads.forward(self.rows(&qkv, &pooled), &mut context, probabilities.as_deref_mut(), ws);
        drop(pooled);
        ends.leave(&context, output, ws)?;
        Ok(PooledSaved { stats, qkv, pools, context, probabilities })
    }

    /// Gradients from `dy`: `dx = base + …`, parameters' overwritten.
    ///
    /// # Panics
    /// If shapes do not fit.
    pub fn vjp(
        &self,
        x: &[f32],
        saved: PooledSaved,
        dy: &[f32],
        dx: &mut [f32],
        base: Base,
        grads: PooledGrads,
        ws: &Workspace,
    ) {
        self.check_gradients(x, dy, dx);
        let PooledSaved { stats, qkv, pools, context, probabilities } = saved;
        let d_context = self.ends().leave_vjp(dy, ws);
        let pooled = Pooled {
            query: self.query.zip(pools.query.as_ref()).map(|(pool, saved)| pool.again(saved, ws)),
            key: self.key.again(&pools.key, ws),
            value: self.value.again(&pools.value, ws),
        };
        let known = Known::of(probabilities.as_deref());
        let (pool_grads, around) = grads.split();
        let d_qkv = self.inner_vjp(&qkv, (pooled, pools), known, d_context, pool_grads, ws);
        drop(probabilities);
        let seen = Seen { x, stats: &stats, context: &context };
        self.ends().finish_vjp(seen, &d_qkv, dy, (dx, base), around, ws);
    }

    /// `f(x)` and the gradients from `dy` in one; as [`Attention::reverse`](super::Attention::reverse).
    ///
    /// # Errors
    /// If an output on a grid leaves its range; everything is written all the same.
    ///
    /// # Panics
    /// If shapes do not fit.
    pub fn reverse(
        &self,
        x: &[f32],
        output: &mut Output,
        dy: &[f32],
        dx: &mut [f32],
        base: Base,
        grads: PooledGrads,
        ws: &Workspace,
    ) -> Result<(), GridOverflow> {
        self.check_gradients(x, dy, dx);
        let ends = self.ends();
        let (stats, qkv) = ends.enter(x, ws);
        let both = self.pool(&qkv, ws);
        let d_context = ends.leave_vjp(dy, ws);
        let mut context = ws.take(d_context.len());
        let (pool_grads, around) = grads.split();
        let known = Shared::new(&mut context);
        let d_qkv = self.inner_vjp(&qkv, both, Known::Nothing(&known), d_context, pool_grads, ws);
        let inside = ends.leave(&context, output, ws);
        let seen = Seen { x, stats: &stats, context: &context };
        ends.finish_vjp(seen, &d_qkv, dy, (dx, base), around, ws);
        inside
    }

    /// Queries, keys and values as heads see them, and what their pools save.
    fn pool(&self, qkv: &[f32], ws: &Workspace) -> (Pooled, Pools) {
        let (q, k, v) = split(qkv, self.norm.width());
        let (query, of_query) = self.query.map(|pool| pool.forward(self.images, self.heads, q, ws)).unzip();
        let (key, of_key) = self.key.forward(self.images, self.heads, k, ws);
        let (value, of_value) = self.value.forward(self.images, self.heads, v, ws);
        (Pooled { query, key, value }, Pools { query: of_query, key: of_key, value: of_value })
    }

    /// Gradients of queries, keys and values before their pools, from that of the heads' output; and those of the pools' parameters.
    fn inner_vjp(
        &self,
        qkv: &[f32],
        (pooled, pools): (Pooled, Pools),
        known: Known,
        d_context: Buffer,
        grads: PoolsGrads,
        ws: &Workspace,
    ) -> Buffer {
        let (width, heads) = (self.norm.width(), self.inner());
        let mut d_qkv = ws.take(qkv.len());
        let keys = heads.batch * heads.keys * width;
        let mut dq = self.query.map(|_| ws.take(d_context.len()));
        let (mut dk, mut dv) = (ws.take(keys), ws.take(keys));
        {
            let (d_queries, stride) = match &mut dq {
                Some(dq) => (Shared::new(dq), width),
                None => (Shared::new(&mut d_qkv), 3 * width),
            };
            let (dk, dv) = (Shared::new(&mut dk), Shared::new(&mut dv));
            let to =
                HeadsGrads { q: (&d_queries, 0, stride), k: (&dk, 0, width), v: (&dv, 0, width), bias: None };
            heads.vjp(self.rows(qkv, &pooled), &d_context, known, to, ws);
        }
        drop((pooled, d_context));
        let (q, k, v) = split(qkv, width);
        let part = |i: usize| (i * width).min(qkv.len());
        self.value.vjp(self.images, (v, &mut d_qkv[part(2)..]), pools.value, dv, grads.value, ws);
        self.key.vjp(self.images, (k, &mut d_qkv[part(1)..]), pools.key, dk, grads.key, ws);
        if let (Some(pool), Some(saved), Some(dq), Some(grads)) = (self.query, pools.query, dq, grads.query) {
            pool.vjp(self.images, (q, &mut d_qkv), saved, dq, grads, ws);
        }
        d_qkv
    }

    /// Queries, pooled or as they were, keys and values.
    fn rows<'b>(&self, qkv: &'b [f32], pooled: &'b Pooled) -> (Rows<'b>, Rows<'b>, Rows<'b>) {
        let stride = self.norm.width();
        let rows = |data| Rows { data, stride };
        let queries = pooled.query.as_deref().map_or_else(|| split(qkv, stride).0, rows);
        (queries, rows(&pooled.key), rows(&pooled.value))
    }

    fn ends(&self) -> Ends<'_> {
        let Self { norm, qkv, qkv_bias, out, out_bias, .. } = *self;
        Ends { norm, qkv, qkv_bias, out, out_bias }
    }

    fn inner(&self) -> Heads<'_> {
        Heads {
            batch: self.images.batch,
            queries: self.query.map_or(self.images, |pool| pool.output(self.images)).pixels(),
            keys: self.key.output(self.images).pixels(),
            heads: self.heads,
            head_width: self.norm.width() / self.heads,
            masks: Masks::default(),
        }
    }

    fn check_gradients(&self, x: &[f32], dy: &[f32], dx: &[f32]) {
        self.check(x);
        let heads = self.inner();
        let rows = heads.batch * heads.queries;
        assert_eq!(dy.len(), rows * self.norm.width(), "dy must hold {rows} queries");
        assert_eq!(dx.len(), x.len(), "dx must be as long as x");
    }

    fn check(&self, x: &[f32]) {
        let (width, heads) = (self.norm.width(), self.heads);
        assert_eq!(x.len(), self.images.len(width), "x must hold {:?} of {width} channels", self.images);
        assert!(
            [Some(self.key), Some(self.value), self.query]
                .into_iter()
                .flatten()
                .all(|pool| { pool.norm.width() * heads == width }),
            "{heads} heads of pools do not make {width} columns"
        );
        assert_eq!(self.key.stride, self.value.stride, "there must be as many values as keys");
    }
}
