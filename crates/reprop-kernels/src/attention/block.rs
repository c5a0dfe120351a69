//! The attention sub-block `f(x) = attention(norm(x) W + b) Wₒ + bₒ` over whole sequences, without a residual inside.
//!
//! Three phases forward: rows through norm and `W` (queries, keys and values side by side); heads; rows through `Wₒ`.
//! Saved: the norm's statistics, queries, keys, values, the heads' output `c` and, if wanted, the probabilities.
//!
//! Four phases backward: `dc = dy Wₒᵀ`; heads; rows `dn = dqkv Wᵀ` through the norm; `dW = nᵀ dqkv` and `dWₒ = cᵀ dy`.

use super::heads::{Heads, HeadsGrads, Keep, Masks, Rows};
use crate::gemm::{Init, Mat, PackedWeight, Product, run_all};
use crate::grid::GridOverflow;
use crate::layer_norm::{LayerNorm, NormGrads, back, finish, normalize, partials, reapply};
use crate::linear::{self, times_packed};
use crate::output::{Base, Output, Sink};
use crate::rows::for_chunks;
use crate::share::Shared;
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
    pub qkv: &'a PackedWeight,
    /// 3 width.
    pub qkv_bias: &'a [f32],
    /// Width x width.
    pub out: &'a PackedWeight,
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
        let heads = self.heads();
        let (mut stats, mut qkv) = (ws.take(2 * rows), ws.take(3 * rows * width));
        {
            let (stats, qkv) = (Shared::new(&mut stats), Shared::new(&mut qkv));
            for_chunks(ws.isa(), rows, |_, r| {
                // SAFETY: chunks do not overlap.
                let (stats, qkv) = unsafe {
                    (stats.slice(2 * r.start..2 * r.end), qkv.slice(3 * width * r.start..3 * width * r.end))
                };
                let mut n = ws.take(r.len() * width);
                normalize(ws.isa(), self.norm, &x[r.start * width..r.end * width], &mut n, stats);
                times_packed(ws, &self.qkv.forward, Init::Bias(self.qkv_bias), &n, qkv);
            });
        }
        let mut context = ws.take(rows * width);
        let mut probabilities = (keep == Keep::Probabilities).then(|| ws.take(heads.probabilities_len()));
        heads.forward(split(&qkv, width), &mut context, probabilities.as_deref_mut(), ws);
        let sink = Sink::new(output, rows * width);
        for_chunks(ws.isa(), rows, |_, r| {
            let span = r.start * width..r.end * width;
            let c = &context[span.clone()];
            // SAFETY: chunks do not overlap.
            unsafe {
                sink.write(ws, span, |y| {
                    times_packed(ws, &self.out.forward, Init::Bias(self.out_bias), c, y);
                });
            };
        });
        sink.finish()?;
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
        let (rows, width) = self.sizes(x);
        assert!(dy.len() == x.len() && dx.len() == x.len(), "dy and dx must be {rows} x {width}");
        let AttentionSaved { stats, qkv, context, probabilities } = saved;
        let mut d_context = ws.take(rows * width);
        linear::forward(ws, &self.out.backward, None, dy, &mut d_context, rows);
        let mut d_qkv = ws.take(3 * rows * width);
        {
            let d_qkv = Shared::new(&mut d_qkv);
            let part = |i| (&d_qkv, i * width, 3 * width);
            let to = HeadsGrads { q: part(0), k: part(1), v: part(2), bias: grads.bias };
            self.heads().vjp(split(&qkv, width), &d_context, probabilities.as_deref(), to, ws);
        }
        drop((qkv, probabilities));
        // The context's gradient is used up; its memory takes the norm's output, which the weight's gradient needs.
        let mut n = d_context;
        let mut sums = partials(ws, rows, width);
        {
            let (dx, sums, n) = (Shared::new(dx), Shared::new(&mut sums), Shared::new(&mut n));
            for_chunks(ws.isa(), rows, |i, r| {
                let span = r.start * width..r.end * width;
                // SAFETY: chunks do not overlap; each has its own sums.
                let (dx, n, sums) = unsafe {
                    let sums = sums.slice(2 * width * i..2 * width * (i + 1));
                    (dx.slice(span.clone()), n.slice(span.clone()), sums)
                };
                let (x, stats) = (&x[span.clone()], &stats[2 * r.start..2 * r.end]);
                let mut dn = ws.take(span.len());
                times_packed(
                    ws,
                    &self.qkv.backward,
                    Init::Zero,
                    &d_qkv[3 * span.start..3 * span.end],
                    &mut dn,
                );
                back(ws.isa(), self.norm, x, stats, &dn, dx, base.part(span.clone()), sums);
                reapply(ws.isa(), self.norm, x, n, stats);
            });
        }
        finish(&sums, grads.norm);
        let mat = |x, columns| Mat::new(x, rows, columns);
        let qkv = Product::weight_gradient(mat(&n, width), mat(&d_qkv, 3 * width), grads.qkv, grads.qkv_bias);
        let out = Product::weight_gradient(mat(&context, width), mat(dy, width), grads.out, grads.out_bias);
        run_all(ws, [qkv, out]);
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
        assert_eq!((self.qkv.inputs(), self.qkv.outputs()), (width, 3 * width), "qkv weight");
        assert_eq!((self.out.inputs(), self.out.outputs()), (width, width), "out weight");
        (rows, width)
    }
}

/// Queries, keys and values side by side in rows of three times the width.
fn split(qkv: &[f32], width: usize) -> (Rows<'_>, Rows<'_>, Rows<'_>) {
    let part = |i: usize| Rows { data: &qkv[(i * width).min(qkv.len())..], stride: 3 * width };
    (part(0), part(1), part(2))
}
