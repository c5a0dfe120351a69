//! The MLP sub-block `f(x) = gelu(norm(x) W₁ + b₁) W₂ + b₂`, without a residual inside.
//!
//! One phase forward: a task takes its rows through norm, `W₁`, GELU and `W₂` without leaving the second-level cache.
//! Saved: the norm's statistics and `u = norm(x) W₁ + b₁`.
//!
//! Two phases backward. Rows: `dh = dy W₂ᵀ`, `du = dh gelu'(u)`, `dn = du W₁ᵀ`, the norm's `dx`. Then the weights:
//! `dW₂ = hᵀ dy`, `dW₁ = nᵀ du` with `h = gelu(u)` and `n = norm(x)`, both recomputed: GELU's value comes with its derivative.

use crate::gelu;
use crate::gemm::{Init, Mat, Product, Target, Weight, run_all};
use crate::grid::GridOverflow;
use crate::layer_norm::{LayerNorm, NormGrads, back, finish, normalize, partials, reapply};
use crate::linear::{by_columns, distance, rows_times_packed, times_packed};
use crate::output::{Base, Output, Sink};
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
    u: Buffer,
}

impl MlpSaved {
    /// Floats kept for `rows` rows.
    pub fn len(rows: usize, hidden: usize) -> usize {
        rows * (2 + hidden)
    }
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
                let (stats, u) = unsafe {
                    (stats.slice(2 * r.start..2 * r.end), u.slice(r.start * hidden..r.end * hidden))
                };
                normalize(ws.isa(), self.norm, &x[span.clone()], &mut n, stats);
                times_packed(ws, fc1, Init::Bias(self.fc1_bias), &n, u);
                for (h, u) in h.chunks_exact_mut(far.max(1)).zip(u.chunks_exact(hidden.max(1))) {
                    gelu::forward(ws.isa(), u, &mut h[..hidden]);
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
        let (mut n, mut h) = (ws.take(rows * width), ws.take(rows * hidden));
        let (mut own, u) = (ws.take(2 * rows), saved.map(|MlpSaved { stats, u }| (stats, Shared::new(u))));
        let (stats, u) = u.map_or((&mut own, None), |(stats, u)| (stats, Some(u)));
        self.norm.forward(x, &mut n, stats, ws);
        {
            let h = Shared::new(&mut h);
            by_columns(ws, fc1, Init::Bias(self.fc1_bias), &n, u.as_ref().unwrap_or(&h), |columns| {
                for row in 0..rows {
                    let span = row * hidden + columns.start..row * hidden + columns.end;
                    h.fetch(ws.isa(), span.start + AHEAD * hidden..span.end + AHEAD * hidden);
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
        by_columns(ws, fc2, Init::Bias(self.fc2_bias), &h, &Shared::new(&mut y), |_| ());
        let sink = Sink::new(output, rows * width);
        for_chunks(ws.isa(), rows, |_, r| {
            let span = r.start * width..r.end * width;
            // SAFETY: chunks do not overlap.
            unsafe { sink.put(ws.isa(), span.clone(), &y[span]) };
        });
        sink.finish()
    }

    /// `du` and `dn` for few rows, each product a phase of its own; `u` becomes `h`.
    fn back_by_columns(
        &self,
        (fc1, fc2): (Mat, Mat),
        dy: &[f32],
        u: &mut [f32],
        du: &mut [f32],
        ws: &Workspace,
    ) -> Buffer {
        let hidden = self.fc1.outputs();
        let rows = u.len().checked_div(hidden).unwrap_or(0);
        {
            let (u, du) = (Shared::new(u), Shared::new(du));
            by_columns(ws, fc2.t(), Init::Zero, dy, &du, |columns| {
                for row in 0..rows {
                    let span = row * hidden + columns.start..row * hidden + columns.end;
                    u.fetch(ws.isa(), span.start + AHEAD * hidden..span.end + AHEAD * hidden);
                    // SAFETY: each task has its own columns.
                    unsafe { gelu::vjp_in_place(ws.isa(), u.slice(span.clone()), du.slice(span)) };
                }
            });
        }
        let mut dn = ws.take(dy.len());
        by_columns(ws, fc1.t(), Init::Zero, du, &Shared::new(&mut dn), |_| ());
        dn
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
        let dn = match (self.fc1, self.fc2) {
            (Weight::Fresh(fc1), Weight::Fresh(fc2)) => {
                Some(self.back_by_columns((fc1, fc2), dy, &mut u, &mut du, ws))
            }
            _ => None,
        };
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
                let mut own = None;
                let dn = match (self.fc1, self.fc2, &dn) {
                    (Weight::Packed(fc1), Weight::Packed(fc2), None) => {
                        let (far, count) = (distance(hidden), r.len());
                        // Where rows would push each other out, the derivative is multiplied from a copy with gaps, made row by row.
                        let mut spaced = (far > hidden).then(|| ws.take(count * far));
                        let to = Target::new(spaced.as_deref_mut().unwrap_or(du), count, hidden, far);
                        let from = Mat::new(&dy[span.clone()], count, width);
                        rows_times_packed(ws, &fc2.backward, Init::Zero, from, to);
                        match &mut spaced {
                            None => gelu::vjp_in_place(ws.isa(), u, du),
                            Some(spaced) => {
                                let rows = u.chunks_exact_mut(hidden).zip(du.chunks_exact_mut(hidden));
                                for ((u, du), d) in rows.zip(spaced.chunks_exact_mut(far)) {
                                    gelu::vjp_in_place(ws.isa(), u, &mut d[..hidden]);
                                    du.copy_from_slice(&d[..hidden]);
                                }
                            }
                        }
                        let dn = own.insert(ws.take(span.len()));
                        let du = Mat::strided(spaced.as_deref().unwrap_or(du), count, hidden, far, 1);
                        let to = Target::new(dn, count, width, width);
                        rows_times_packed(ws, &fc1.backward, Init::Zero, du, to);
                        dn
                    }
                    (_, _, Some(dn)) => &dn[span.clone()],
                    _ => panic!("both weights must be packed, or none"),
                };
                back(ws.isa(), self.norm, &x[span.clone()], stats, dn, dx, base.part(span.clone()), sums);
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
