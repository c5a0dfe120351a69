//! Layer norm over the last axis.
//!
//! `x̂ = (x - μ) r` with `r = 1 / sqrt(σ² + ε)` of each row, `y = x̂ γ + β`. With `g = dy γ`:
//! `dx = r (g - mean(g) - x̂ mean(g x̂))`, `dγ = Σ_rows dy x̂`, `dβ = Σ_rows dy`.
//! Saved: `μ` and `r` of each row. The variance is taken around the mean, in a second pass over a row that is in cache.

use crate::output::Base;
use crate::rows::{Chunks, for_chunks};
use crate::share::Shared;
use crate::simd::dispatch;
use crate::sweep::sweep;
use crate::workspace::{Buffer, Workspace};

/// Parameters of a layer norm.
#[derive(Clone, Copy, Debug)]
pub struct LayerNorm<'a> {
    /// `γ`, one for each column.
    pub scale: &'a [f32],
    /// `β`, one for each column.
    pub bias: &'a [f32],
    /// `ε`.
    pub eps: f32,
}

impl LayerNorm<'_> {
    /// Columns.
    pub fn width(&self) -> usize {
        self.scale.len()
    }

    /// `y = norm(x)`; `stats` gets `μ, r` of each row (two floats a row).
    ///
    /// # Panics
    /// If lengths do not fit.
    pub fn forward(&self, x: &[f32], y: &mut [f32], stats: &mut [f32], ws: &Workspace) {
        let (width, rows) = (self.width(), stats.len() / 2);
        assert_eq!((x.len(), y.len()), (rows * width, rows * width), "x and y must be {rows} x {width}");
        let (y, stats) = (Shared::new(y), Shared::new(stats));
        for_chunks(ws.isa(), rows, |_, r| {
            // SAFETY: chunks do not overlap.
            let (y, stats) =
                unsafe { (y.slice(r.start * width..r.end * width), stats.slice(2 * r.start..2 * r.end)) };
            normalize(ws.isa(), *self, &x[r.start * width..r.end * width], y, stats);
        });
    }

    /// `y = norm(x)` again, from the statistics that [`Self::forward`] wrote; the same bits.
    ///
    /// # Panics
    /// If lengths do not fit.
    pub fn again(&self, x: &[f32], stats: &[f32], y: &mut [f32], ws: &Workspace) {
        let (width, rows) = (self.width(), stats.len() / 2);
        assert_eq!((x.len(), y.len()), (rows * width, rows * width), "x and y must be {rows} x {width}");
        let y = Shared::new(y);
        for_chunks(ws.isa(), rows, |_, r| {
            let span = r.start * width..r.end * width;
            // SAFETY: chunks do not overlap.
            let y = unsafe { y.slice(span.clone()) };
            reapply(ws.isa(), *self, &x[span], y, &stats[2 * r.start..2 * r.end]);
        });
    }

    /// `dx = base + …`, `dγ` and `dβ`.
    ///
    /// # Panics
    /// If lengths do not fit.
    pub fn vjp(
        &self,
        x: &[f32],
        stats: &[f32],
        dy: &[f32],
        dx: &mut [f32],
        base: Base,
        grads: NormGrads,
        ws: &Workspace,
    ) {
        let (width, rows) = (self.width(), stats.len() / 2);
        assert_eq!(dx.len(), rows * width, "dx must be {rows} x {width}");
        let mut partial = partials(ws, rows, width);
        let (dx, sums) = (Shared::new(dx), Shared::new(&mut partial));
        for_chunks(ws.isa(), rows, |i, r| {
            let span = r.start * width..r.end * width;
            // SAFETY: chunks do not overlap.
            let (dx, sums) =
                unsafe { (dx.slice(span.clone()), sums.slice(2 * width * i..2 * width * (i + 1))) };
            let stats = &stats[2 * r.start..2 * r.end];
            back(ws.isa(), *self, &x[span.clone()], stats, &dy[span.clone()], dx, base.part(span), sums);
        });
        finish(&partial, grads);
    }
}

/// Where a layer norm's parameter gradients go; both are overwritten.
#[derive(Debug)]
pub struct NormGrads<'a> {
    /// `dγ`.
    pub scale: &'a mut [f32],
    /// `dβ`.
    pub bias: &'a mut [f32],
}

/// Room for the sums of `dγ` and `dβ` of each chunk of rows, all zero.
pub(crate) fn partials(ws: &Workspace, rows: usize, width: usize) -> Buffer {
    ws.take_zeroed(Chunks::new(ws.isa(), rows).count() * 2 * width)
}

/// Adds up the chunks' sums, in order.
pub(crate) fn finish(partials: &[f32], grads: NormGrads) {
    let width = grads.scale.len();
    grads.scale.fill(0.0);
    grads.bias.fill(0.0);
    for part in partials.chunks_exact((2 * width).max(1)) {
        let (scale, bias) = part.split_at(width);
        grads.scale.iter_mut().zip(scale).for_each(|(a, b)| *a += b);
        grads.bias.iter_mut().zip(bias).for_each(|(a, b)| *a += b);
    }
}

dispatch! {
    /// Rows of one task: statistics and output.
    pub(crate) fn normalize(s: Isa, norm: LayerNorm, x: &[f32], y: &mut [f32], stats: &mut [f32]) {
        let width = norm.width();
        for ((x, y), stats) in x.chunks_exact(width).zip(y.chunks_exact_mut(width)).zip(stats.chunks_exact_mut(2)) {
            let mut sum = s.zero();
            sweep!(s, width, i, load, store, {
                sum = s.add(sum, load(s, x, i, 0.0));
            });
            let mean = s.sum(sum) / width as f32;
            let mut squares = s.zero();
            sweep!(s, width, i, load, store, {
                let d = s.sub(load(s, x, i, mean), s.splat(mean));
                squares = s.fma(d, d, squares);
            });
            stats[0] = mean;
            stats[1] = 1.0 / (s.sum(squares) / width as f32 + norm.eps).sqrt();
            apply_row(s, norm, x, y, stats);
        }
    }
}

dispatch! {
    /// The output again, from saved statistics; the same bits as [`normalize`].
    pub(crate) fn reapply(s: Isa, norm: LayerNorm, x: &[f32], y: &mut [f32], stats: &[f32]) {
        let width = norm.width();
        for ((x, y), stats) in x.chunks_exact(width).zip(y.chunks_exact_mut(width)).zip(stats.chunks_exact(2)) {
            apply_row(s, norm, x, y, stats);
        }
    }
}

#[inline(always)]
fn apply_row<S: crate::simd::Simd>(s: S, norm: LayerNorm, x: &[f32], y: &mut [f32], stats: &[f32]) {
    let (mean, r) = (s.splat(stats[0]), s.splat(stats[1]));
    sweep!(s, x.len(), i, load, store, {
        let hat = s.mul(s.sub(load(s, x, i, 0.0), mean), r);
        store(s, y, i, s.fma(hat, load(s, norm.scale, i, 0.0), load(s, norm.bias, i, 0.0)));
    });
}

dispatch! {
    /// Rows of one task, backward; `sums` (`dγ` then `dβ`) is added to.
    pub(crate) fn back(
        s: Isa, norm: LayerNorm, x: &[f32], stats: &[f32], dy: &[f32], dx: &mut [f32], base: Base,
        sums: &mut [f32],
    ) {
        let width = norm.width();
        let (dscale, dbias) = sums.split_at_mut(width);
        let rows = x.chunks_exact(width).zip(dy.chunks_exact(width)).zip(dx.chunks_exact_mut(width));
        for (row, (((x, dy), dx), stats)) in rows.zip(stats.chunks_exact(2)).enumerate() {
            let base = base.part(row * width..(row + 1) * width);
            let (mean, r) = (s.splat(stats[0]), s.splat(stats[1]));
            let (mut sum, mut product) = (s.zero(), s.zero());
            sweep!(s, width, i, load, store, {
                let d = load(s, dy, i, 0.0);
                let hat = s.mul(s.sub(load(s, x, i, stats[0]), mean), r);
                let g = s.mul(d, load(s, norm.scale, i, 0.0));
                sum = s.add(sum, g);
                product = s.fma(g, hat, product);
                let a = s.fma(d, hat, load(s, dscale, i, 0.0));
                store(s, dscale, i, a);
                let b = s.add(d, load(s, dbias, i, 0.0));
                store(s, dbias, i, b);
            });
            let mean_g = s.splat(s.sum(sum) / width as f32);
            let mean_gx = s.splat(-s.sum(product) / width as f32);
            sweep!(s, width, i, load, store, {
                let hat = s.mul(s.sub(load(s, x, i, 0.0), mean), r);
                let g = s.mul(load(s, dy, i, 0.0), load(s, norm.scale, i, 0.0));
                let d = s.mul(r, s.fma(hat, mean_gx, s.sub(g, mean_g)));
                let old = match base {
                    Base::Nothing => s.zero(),
                    Base::Itself => load(s, dx, i, 0.0),
                    Base::Other(base) => load(s, base, i, 0.0),
                };
                store(s, dx, i, s.add(old, d));
            });
        }
    }
}
