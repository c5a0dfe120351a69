//! The MLP sub-block `f(x) = gelu(norm(x) W₁ + b₁) W₂ + b₂`, without a residual inside.
//!
//! One phase forward: a task takes its rows through norm, `W₁`, GELU and `W₂` without leaving the second-level cache.
//! Saved: the norm's statistics and `u = norm(x) W₁ + b₁`.
//!
//! Two phases backward. Rows: `dh = dy W₂ᵀ`, `du = dh gelu'(u)`, `dn = du W₁ᵀ`, the norm's `dx`. Then the weights:
//! `dW₂ = hᵀ dy`, `dW₁ = nᵀ du` with `h = gelu(u)` and `n = norm(x)`, both recomputed: GELU's value comes with its derivative.
//!
//! Forward and backward in one: the rows' phase of the backward makes `u` itself, and `f(x)` of `h`.

mod back;

use crate::gelu;
use crate::gemm::{Init, Mat, Target, Weight};
use crate::grid::GridOverflow;
use crate::layer_norm::{LayerNorm, NormGrads, normalize};
use crate::linear::{by_columns, distance, rows_times_packed};
use crate::output::{Output, Sink};
use crate::rows::for_chunks;
use crate::share::Shared;
use crate::sixteen::Rounds;
use crate::workspace::{Buffer, Workspace};

/// Rows of a few columns between one that is used and one that is asked for: each begins on a line of its own.
const AHEAD: usize = 4;

/// Parameters of the sub-block.
#[derive(Clone, Copy, Debug)]
pub struct Mlp<'a> {
    /// Pre-norm over the width.
    pub norm: LayerNorm<'a>,
    /// `W₁`, width x hidden.
    pub fc1: Weight<'a>,
    /// `b₁`.
    pub fc1_bias: &'a [f32],
    /// `W₂`, hidden x width.
    pub fc2: Weight<'a>,
    /// `b₂`.
    pub fc2_bias: &'a [f32],
}

/// What [`Mlp::vjp`] needs beside `x`.
#[derive(Debug)]
pub struct MlpSaved {
    stats: Buffer,
    /// Rows at a good distance.
    u: Buffer,
}

impl MlpSaved {
    fn new(rows: usize, hidden: usize, ws: &Workspace) -> Self {
        Self { stats: ws.take(2 * rows), u: ws.take(hidden_len(rows, hidden)) }
    }
}

/// Floats of so many hidden rows, with gaps between them where they would else push each other out of the caches.
pub fn hidden_len(rows: usize, hidden: usize) -> usize {
    rows * distance(hidden)
}

impl Rounds for MlpSaved {
    fn values(&mut self) -> impl Iterator<Item = &mut Buffer> {
        [&mut self.u].into_iter()
    }
}

/// Where the gradients go; each is overwritten.
#[derive(Debug)]
pub struct MlpGrads<'a> {
    /// The norm's.
    pub norm: NormGrads<'a>,
    /// `dW₁`.
    pub fc1: &'a mut [f32],
    /// `db₁`.
    pub fc1_bias: &'a mut [f32],
    /// `dW₂`.
    pub fc2: &'a mut [f32],
    /// `db₂`.
    pub fc2_bias: &'a mut [f32],
}

impl Mlp<'_> {
    /// `f(x)`, keeping nothing. `x` is rows x width.
    ///
    /// # Errors
    /// If an output on a grid leaves its range.
    ///
    /// # Panics
    /// If shapes do not fit.
    pub fn forward(&self, x: &[f32], output: &mut Output, ws: &Workspace) -> Result<(), GridOverflow> {
        self.run(x, output, None, ws)
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
        ws: &Workspace,
    ) -> Result<MlpSaved, GridOverflow> {
        let mut saved = MlpSaved::new(self.rows(x), self.fc1.outputs(), ws);
        self.run(x, output, Some(&mut saved), ws)?;
        Ok(saved)
    }

    fn run(
        &self,
        x: &[f32],
        output: &mut Output,
        saved: Option<&mut MlpSaved>,
        ws: &Workspace,
    ) -> Result<(), GridOverflow> {
        let (rows, width, hidden) = (self.rows(x), self.norm.width(), self.fc1.outputs());
        let (fc1, fc2) = match (self.fc1, self.fc2) {
            (Weight::Packed(fc1), Weight::Packed(fc2)) => (&fc1.forward, &fc2.forward),
            (Weight::Fresh(fc1), Weight::Fresh(fc2)) => {
                return self.run_by_columns(x, output, saved, (fc1, fc2), ws);
            }
            _ => panic!("both weights must be packed, or none"),
        };
        let far = distance(hidden);
        let sink = Sink::new(output, rows * width);
        let saved = saved.map(|saved| (Shared::new(&mut saved.stats), Shared::new(&mut saved.u)));
        for_chunks(ws.isa(), rows, |_, r| {
            let (span, count) = (r.start * width..r.end * width, r.len());
            let mut n = ws.take(count * width);
            let mut h = ws.take(count * far);
            if let Some((stats, u)) = &saved {
                // SAFETY: chunks do not overlap.
                let (stats, u) =
                    unsafe { (stats.slice(2 * r.start..2 * r.end), u.slice(r.start * far..r.end * far)) };
                normalize(ws.isa(), self.norm, &x[span.clone()], &mut n, stats);
                let to = Target::new(u, count, hidden, far);
                rows_times_packed(ws, fc1, Init::Bias(self.fc1_bias), Mat::new(&n, count, width), to);
                for (h, u) in h.chunks_exact_mut(far.max(1)).zip(u.chunks_exact(far.max(1))) {
                    gelu::forward(ws.isa(), &u[..hidden], &mut h[..hidden]);
                }
            } else {
                let mut stats = ws.take(2 * count);
                normalize(ws.isa(), self.norm, &x[span.clone()], &mut n, &mut stats);
                let to = Target::new(&mut h, count, hidden, far);
                rows_times_packed(ws, fc1, Init::Bias(self.fc1_bias), Mat::new(&n, count, width), to);
                h.chunks_exact_mut(far.max(1)).for_each(|h| gelu::in_place(ws.isa(), &mut h[..hidden]));
            }
            // SAFETY: chunks do not overlap.
            unsafe {
                sink.write(ws, span, |y| {
                    let (h, y) =
                        (Mat::strided(&h, count, hidden, far, 1), Target::new(y, count, width, width));
                    rows_times_packed(ws, fc2, Init::Bias(self.fc2_bias), h, y);
                });
            };
        });
        sink.finish()
    }

    /// The same for few rows: each product is a phase of its own.
    fn run_by_columns(
        &self,
        x: &[f32],
        output: &mut Output,
        saved: Option<&mut MlpSaved>,
        (fc1, fc2): (Mat, Mat),
        ws: &Workspace,
    ) -> Result<(), GridOverflow> {
        let (rows, width, hidden) = (self.rows(x), self.norm.width(), self.fc1.outputs());
        let far = distance(hidden);
        let (mut n, mut h) = (ws.take(rows * width), ws.take(rows * far));
        let (mut own, u) = (ws.take(2 * rows), saved.map(|MlpSaved { stats, u }| (stats, Shared::new(u))));
        let (stats, u) = u.map_or((&mut own, None), |(stats, u)| (stats, Some(u)));
        self.norm.forward(x, &mut n, stats, ws);
        {
            let h = Shared::new(&mut h);
            let to = (u.as_ref().unwrap_or(&h), far);
            by_columns(ws, fc1, Init::Bias(self.fc1_bias), Mat::new(&n, rows, width), to, |columns| {
                for row in 0..rows {
                    let span = row * far + columns.start..row * far + columns.end;
                    h.fetch(ws.isa(), span.start + AHEAD * far..span.end + AHEAD * far);
                    // SAFETY: each task has its own columns.
                    unsafe {
                        match &u {
                            Some(u) => gelu::forward(ws.isa(), u.slice(span.clone()), h.slice(span)),
                            None => gelu::in_place(ws.isa(), h.slice(span)),
                        }
                    }
                }
            });
        }
        // What the norm took is free now, and as long.
        let mut y = n;
        let h = Mat::strided(&h, rows, hidden, far, 1);
        by_columns(ws, fc2, Init::Bias(self.fc2_bias), h, (&Shared::new(&mut y), width), |_| ());
        let sink = Sink::new(output, rows * width);
        for_chunks(ws.isa(), rows, |_, r| {
            let span = r.start * width..r.end * width;
            // SAFETY: chunks do not overlap.
            unsafe { sink.put(ws.isa(), span.clone(), &y[span]) };
        });
        sink.finish()
    }

    fn rows(&self, x: &[f32]) -> usize {
        let width = self.norm.width();
        assert_eq!(
            (self.fc1.inputs(), self.fc2.outputs()),
            (width, width),
            "weights must fit a width of {width}"
        );
        assert_eq!(self.fc1.outputs(), self.fc2.inputs(), "hidden sizes differ");
        assert!(x.len().is_multiple_of(width.max(1)), "x must be rows x {width}");
        x.len() / width.max(1)
    }
}
