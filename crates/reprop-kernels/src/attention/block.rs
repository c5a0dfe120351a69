//! The attention sub-block `f(x) = attention(norm(x) W + b) Wₒ + bₒ` over whole sequences, without a residual inside.
//!
//! Three phases forward: rows through norm and `W` (queries, keys and values side by side); heads; rows through `Wₒ`.
//! Saved: the norm's statistics, queries, keys, values, the heads' output `c` and, if wanted, the probabilities.
//!
//! Four phases backward: `dc = dy Wₒᵀ`; heads; rows `dn = dqkv Wᵀ` through the norm; `dW = nᵀ dqkv` and `dWₒ = cᵀ dy`.

use super::ends::{Ends, EndsGrads, Seen};
use super::heads::{Heads, HeadsGrads, Keep, Masks, Rows};
use super::heads_vjp::Known;
use crate::gemm::Weight;
use crate::grid::GridOverflow;
use crate::layer_norm::{LayerNorm, NormGrads};
use crate::output::{Base, Output};
use crate::share::Shared;
use crate::sixteen::Rounds;
use crate::workspace::{Buffer, Workspace};

/// Sizes of the sub-block; `x` and `y` are batch x tokens x width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionShape {
    /// Samples.
    pub batch: usize,
    /// Tokens of a sample.
    pub tokens: usize,
    /// Heads; they share the width equally.
    pub heads: usize,
}

/// Parameters of the sub-block.
#[derive(Clone, Copy, Debug)]
pub struct Attention<'a> {
    /// Sizes.
    pub shape: AttentionShape,
    /// Masks and biases of the scores.
    pub masks: Masks<'a>,
    /// Pre-norm over the width.
    pub norm: LayerNorm<'a>,
    /// Width x 3 width: queries, keys, values.
    pub qkv: Weight<'a>,
    /// 3 width.
    pub qkv_bias: &'a [f32],
    /// Width x width.
    pub out: Weight<'a>,
    /// Width.
    pub out_bias: &'a [f32],
}

/// What [`Attention::vjp`] needs beside `x`.
#[derive(Debug)]
pub struct AttentionSaved {
    stats: Buffer,
    qkv: Buffer,
    context: Buffer,
    probabilities: Option<Buffer>,
}

impl Rounds for AttentionSaved {
    fn values(&mut self) -> impl Iterator<Item = &mut Buffer> {
        [&mut self.qkv, &mut self.context].into_iter().chain(&mut self.probabilities)
    }
}

/// Where the gradients go; each is overwritten.
#[derive(Debug)]
pub struct AttentionGrads<'a> {
    /// The norm's.
    pub norm: NormGrads<'a>,
    /// Width x 3 width.
    pub qkv: &'a mut [f32],
    /// 3 width.
    pub qkv_bias: &'a mut [f32],
    /// Width x width.
    pub out: &'a mut [f32],
    /// Width.
    pub out_bias: &'a mut [f32],
    /// Of the additive bias `heads x tokens x tokens`, if wanted.
    pub bias: Option<&'a mut [f32]>,
}

impl<'a> AttentionGrads<'a> {
    /// Those around the heads, and the scores' bias's.
    fn split(self) -> (EndsGrads<'a>, Option<&'a mut [f32]>) {
        let Self { norm, qkv, qkv_bias, out, out_bias, bias } = self;
        (EndsGrads { norm, qkv, qkv_bias, out, out_bias }, bias)
    }
}

impl AttentionSaved {
    /// Floats kept.
    pub fn len(shape: AttentionShape, width: usize, keep: Keep) -> usize {
        let rows = shape.batch * shape.tokens;
        let probabilities = match keep {
            Keep::Probabilities => rows * shape.heads * shape.tokens.next_multiple_of(16),
            Keep::Nothing => 0,
        };
        rows * (2 + 4 * width) + probabilities
    }
}

impl Attention<'_> {
    /// `f(x)`, keeping nothing.
    ///
    /// # Errors
    /// If an output on a grid leaves its range.
    ///
    /// # Panics
    /// If shapes do not fit.
    pub fn forward(&self, x: &[f32], output: &mut Output, ws: &Workspace) -> Result<(), GridOverflow> {
        self.forward_saving(x, output, Keep::Nothing, ws).map(drop)
    }

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
    ) -> Result<AttentionSaved, GridOverflow> {
        let (rows, width) = self.sizes(x);
        let (heads, ends) = (self.heads(), self.ends());
        let (stats, qkv) = ends.enter(x, ws);
        let mut context = ws.take(rows * width);
        let mut probabilities = (keep == Keep::Probabilities).then(|| ws.take(heads.probabilities_len()));
        heads.forward(split(&qkv, width), &mut context, probabilities.as_deref_mut(), ws);
        ends.leave(&context, output, ws)?;
        Ok(AttentionSaved { stats, qkv, context, probabilities })
    }

    /// Gradients from `dy`: `dx = base + …`, parameters' overwritten.
    ///
    /// # Panics
    /// If shapes do not fit.
    pub fn vjp(
        &self,
        x: &[f32],
        saved: AttentionSaved,
        dy: &[f32],
        dx: &mut [f32],
        base: Base,
        grads: AttentionGrads,
        ws: &Workspace,
    ) {
        let AttentionSaved { stats, qkv, context, probabilities } = saved;
        self.check_gradients(x, dy, dx);
        let (around, bias) = grads.split();
        let d_context = self.ends().leave_vjp(dy, ws);
        let known = Known::of(probabilities.as_deref());
        let d_qkv = self.heads_vjp(&qkv, known, &d_context, bias, ws);
        // The norm's output, which the weight's gradient needs, takes the memory of the context's gradient.
        drop((qkv, probabilities, d_context));
        let seen = Seen { x, stats: &stats, context: &context };
        self.ends().finish_vjp(seen, &d_qkv, dy, (dx, base), around, ws);
    }

    /// `f(x)` and the gradients from `dy` in one, as a block wants them that is recovered: a head's probabilities go forward and back
    /// while they are in a core's cache, so that they are neither kept nor computed twice. The bits are those of
    /// [`Self::forward_saving`] and [`Self::vjp`].
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
        grads: AttentionGrads,
        ws: &Workspace,
    ) -> Result<(), GridOverflow> {
        self.check_gradients(x, dy, dx);
        let (ends, (around, bias)) = (self.ends(), grads.split());
        let (stats, qkv) = ends.enter(x, ws);
        let d_context = ends.leave_vjp(dy, ws);
        let mut context = ws.take(x.len());
        let known = Shared::new(&mut context);
        let d_qkv = self.heads_vjp(&qkv, Known::Nothing(&known), &d_context, bias, ws);
        drop((qkv, d_context));
        let inside = ends.leave(&context, output, ws);
        let seen = Seen { x, stats: &stats, context: &context };
        ends.finish_vjp(seen, &d_qkv, dy, (dx, base), around, ws);
        inside
    }

    /// Gradients of queries, keys and values, and of the scores' bias.
    fn heads_vjp(
        &self,
        qkv: &[f32],
        known: Known,
        d_context: &[f32],
        bias: Option<&mut [f32]>,
        ws: &Workspace,
    ) -> Buffer {
        let width = self.norm.width();
        let mut d_qkv = ws.take(qkv.len());
        {
            let d_qkv = Shared::new(&mut d_qkv);
            let part = |i| (&d_qkv, i * width, 3 * width);
            let to = HeadsGrads { q: part(0), k: part(1), v: part(2), bias };
            self.heads().vjp(split(qkv, width), d_context, known, to, ws);
        }
        d_qkv
    }

    fn check_gradients(&self, x: &[f32], dy: &[f32], dx: &[f32]) {
        let (rows, width) = self.sizes(x);
        assert!(dy.len() == x.len() && dx.len() == x.len(), "dy and dx must be {rows} x {width}");
    }

    fn ends(&self) -> Ends<'_> {
        let Self { norm, qkv, qkv_bias, out, out_bias, .. } = *self;
        Ends { norm, qkv, qkv_bias, out, out_bias }
    }

    fn heads(&self) -> Heads<'_> {
        let AttentionShape { batch, tokens, heads } = self.shape;
        Heads {
            batch,
            queries: tokens,
            keys: tokens,
            heads,
            head_width: self.norm.width() / heads,
            masks: self.masks,
        }
    }

    fn sizes(&self, x: &[f32]) -> (usize, usize) {
        let (rows, width) = (self.shape.batch * self.shape.tokens, self.norm.width());
        assert!(
            width.is_multiple_of(self.shape.heads),
            "{} heads cannot share {width} columns",
            self.shape.heads
        );
        assert_eq!(x.len(), rows * width, "x must be {rows} x {width}");
        (rows, width)
    }
}

/// Queries, keys and values side by side in rows of three times the width.
pub(super) fn split(qkv: &[f32], width: usize) -> (Rows<'_>, Rows<'_>, Rows<'_>) {
    let part = |i: usize| Rows { data: &qkv[(i * width).min(qkv.len())..], stride: 3 * width };
    (part(0), part(1), part(2))
}
