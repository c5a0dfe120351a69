//! The MLP sub-block `f(x) = gelu(norm(x) W₁ + b₁) W₂ + b₂`, without a residual inside.
//!
//! One phase forward: a task takes its rows through norm, `W₁`, GELU and `W₂` without leaving the second-level cache.
//! Saved: the norm's statistics and `u = norm(x) W₁ + b₁`.
//!
//! Two phases backward. Rows: `dh = dy W₂ᵀ`, `du = dh gelu'(u)`, `dn = du W₁ᵀ`, the norm's `dx`. Then the weights:
//! `dW₂ = hᵀ dy`, `dW₁ = nᵀ du` with `h = gelu(u)` and `n = norm(x)`, both recomputed: GELU's value comes with its derivative.

use crate::gelu;
use crate::gemm::{Init, Mat, PackedWeight, Product, run_all};
use crate::grid::GridOverflow;
use crate::layer_norm::{LayerNorm, NormGrads, back, finish, normalize, partials, reapply};
use crate::linear::times_packed;
use crate::output::{Base, Output, Sink};
use crate::rows::for_chunks;
use crate::share::Shared;
use crate::workspace::{Buffer, Workspace};

/// Parameters of the sub-block.
#[derive(Clone, Copy, Debug)]
pub struct Mlp<'a> {
    /// Pre-norm over the width.
    pub norm: LayerNorm<'a>,
    /// `W₁`, width x hidden.
    pub fc1: &'a PackedWeight,
    /// `b₁`.
    pub fc1_bias: &'a [f32],
    /// `W₂`, hidden x width.
    pub fc2: &'a PackedWeight,
    /// `b₂`.
    pub fc2_bias: &'a [f32],
}

/// What [`Mlp::vjp`] needs beside `x`.
#[derive(Debug)]
pub struct MlpSaved {
    stats: Buffer,
    u: Buffer,
}

impl MlpSaved {
    /// Floats kept for `rows` rows.
    pub fn len(rows: usize, hidden: usize) -> usize {
        rows * (2 + hidden)
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
        let rows = self.rows(x);
        let mut saved = MlpSaved { stats: ws.take(2 * rows), u: ws.take(rows * self.fc1.outputs()) };
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
        let sink = Sink::new(output, rows * width);
        let saved = saved.map(|saved| (Shared::new(&mut saved.stats), Shared::new(&mut saved.u)));
        for_chunks(ws.isa(), rows, |_, r| {
            let (span, count) = (r.start * width..r.end * width, r.len());
            let mut n = ws.take(count * width);
            let mut h = ws.take(count * hidden);
            if let Some((stats, u)) = &saved {
                // SAFETY: chunks do not overlap.
                let (stats, u) = unsafe {
                    (stats.slice(2 * r.start..2 * r.end), u.slice(r.start * hidden..r.end * hidden))
                };
                normalize(ws.isa(), self.norm, &x[span.clone()], &mut n, stats);
                times_packed(ws, &self.fc1.forward, Init::Bias(self.fc1_bias), &n, u);
                gelu::forward(ws.isa(), u, &mut h);
            } else {
                let mut stats = ws.take(2 * count);
                normalize(ws.isa(), self.norm, &x[span.clone()], &mut n, &mut stats);
                times_packed(ws, &self.fc1.forward, Init::Bias(self.fc1_bias), &n, &mut h);
                gelu::in_place(ws.isa(), &mut h);
            }
            // SAFETY: chunks do not overlap.
            unsafe {
                sink.write(ws, span, |y| {
                    times_packed(ws, &self.fc2.forward, Init::Bias(self.fc2_bias), &h, y);
                });
            };
        });
        sink.finish()
    }

    /// Gradients from `dy`: `dx = base + …`, parameters' overwritten.
    ///
    /// # Panics
    /// If shapes do not fit.
    pub fn vjp(
        &self,
        x: &[f32],
        saved: MlpSaved,
        dy: &[f32],
        dx: &mut [f32],
        base: Base,
        grads: MlpGrads,
        ws: &Workspace,
    ) {
        let (rows, width, hidden) = (self.rows(x), self.norm.width(), self.fc1.outputs());
        assert!(dy.len() == x.len() && dx.len() == x.len(), "dy and dx must be {rows} x {width}");
        let MlpSaved { stats, mut u } = saved;
        let (mut n, mut du) = (ws.take(rows * width), ws.take(rows * hidden));
        let mut sums = partials(ws, rows, width);
        {
            let (n, u, du) = (Shared::new(&mut n), Shared::new(&mut u), Shared::new(&mut du));
            let (dx, sums) = (Shared::new(dx), Shared::new(&mut sums));
            for_chunks(ws.isa(), rows, |i, r| {
                let (span, wide) = (r.start * width..r.end * width, r.start * hidden..r.end * hidden);
                // SAFETY: chunks do not overlap.
                let (n, u, du) = unsafe { (n.slice(span.clone()), u.slice(wide.clone()), du.slice(wide)) };
                // SAFETY: as above; each chunk has its own sums.
                let (dx, sums) =
                    unsafe { (dx.slice(span.clone()), sums.slice(2 * width * i..2 * width * (i + 1))) };
                let stats = &stats[2 * r.start..2 * r.end];
                times_packed(ws, &self.fc2.backward, Init::Zero, &dy[span.clone()], du);
                gelu::vjp_in_place(ws.isa(), u, du);
                let mut dn = ws.take(span.len());
                times_packed(ws, &self.fc1.backward, Init::Zero, du, &mut dn);
                back(ws.isa(), self.norm, &x[span.clone()], stats, &dn, dx, base.part(span.clone()), sums);
                reapply(ws.isa(), self.norm, &x[span], n, stats);
            });
        }
        finish(&sums, grads.norm);
        let (x_width, h_width) = (Mat::new(&n, rows, width), Mat::new(&u, rows, hidden));
        let (dy, du) = (Mat::new(dy, rows, width), Mat::new(&du, rows, hidden));
        let fc1 = Product::weight_gradient(x_width, du, grads.fc1, grads.fc1_bias);
        let fc2 = Product::weight_gradient(h_width, dy, grads.fc2, grads.fc2_bias);
        run_all(ws, [fc1, fc2]);
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
