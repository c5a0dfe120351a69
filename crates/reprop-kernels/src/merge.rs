//! Patch merging (Swin): each square of four tokens becomes one, `y = norm(four tokens side by side) M`.
//!
//! The four are those above left, below left, above right and below right. Tasks take whole rows of `y`, and gather their
//! tokens on the way. Saved: the norm's statistics. Backward: `dn = dy Mᵀ`, the norm's `dx`, put back where the tokens were;
//! then `dM = nᵀ dy` with `n` the norm's output, computed again.

use crate::conv::Images;
use crate::gemm::{Init, Mat, PackedWeight, Product, gemm};
use crate::layer_norm::{LayerNorm, NormGrads, back, finish, normalize, partials, reapply};
use crate::linear::times_packed;
use crate::output::Base;
use crate::rows::for_chunks;
use crate::share::Shared;
use crate::workspace::{Buffer, Workspace};

/// Parameters of the merging.
#[derive(Clone, Copy, Debug)]
pub struct Merge<'a> {
    /// The images, of even sides; a quarter of the norm's width is that of a token.
    pub images: Images,
    /// Over four tokens.
    pub norm: LayerNorm<'a>,
    /// `M`, four tokens' width x outputs.
    pub reduction: &'a PackedWeight,
}

/// Where the gradients go; each is overwritten.
#[derive(Debug)]
pub struct MergeGrads<'a> {
    /// The norm's.
    pub norm: NormGrads<'a>,
    /// `dM`.
    pub reduction: &'a mut [f32],
}

impl Merge<'_> {
    /// `y`, and the norm's statistics.
    ///
    /// # Panics
    /// If shapes do not fit.
    pub fn forward_saving(&self, x: &[f32], y: &mut [f32], ws: &Workspace) -> Buffer {
        let (rows, wide, outputs) = (self.rows(x), self.norm.width(), self.reduction.outputs());
        assert_eq!(y.len(), rows * outputs, "y must be {rows} x {outputs}");
        let mut stats = ws.take(2 * rows);
        {
            let (y, stats) = (Shared::new(y), Shared::new(&mut stats));
            for_chunks(ws.isa(), rows, |_, r| {
                // SAFETY: chunks do not overlap.
                let (y, stats) = unsafe {
                    (y.slice(r.start * outputs..r.end * outputs), stats.slice(2 * r.start..2 * r.end))
                };
                let squares = self.squares(x, r.start, r.len(), ws);
                let mut n = ws.take(r.len() * wide);
                normalize(ws.isa(), self.norm, &squares, &mut n, stats);
                times_packed(ws, &self.reduction.forward, Init::Zero, &n, y);
            });
        }
        stats
    }

    /// `dx` and the parameters' gradients from `dy`.
    ///
    /// # Panics
    /// If shapes do not fit.
    pub fn vjp(
        &self,
        x: &[f32],
        stats: &[f32],
        dy: &[f32],
        dx: &mut [f32],
        grads: MergeGrads,
        ws: &Workspace,
    ) {
        let (rows, wide, outputs) = (self.rows(x), self.norm.width(), self.reduction.outputs());
        assert!(dy.len() == rows * outputs && dx.len() == x.len(), "dy or dx does not fit");
        let (mut n, mut sums) = (ws.take(rows * wide), partials(ws, rows, wide));
        {
            let (n, sums, dx) = (Shared::new(&mut n), Shared::new(&mut sums), Shared::new(dx));
            let token = wide / 4;
            for_chunks(ws.isa(), rows, |i, r| {
                // SAFETY: chunks do not overlap; each has its own sums.
                let (n, sums) = unsafe {
                    (n.slice(r.start * wide..r.end * wide), sums.slice(2 * wide * i..2 * wide * (i + 1)))
                };
                let squares = self.squares(x, r.start, r.len(), ws);
                let stats = &stats[2 * r.start..2 * r.end];
                let (mut dn, mut d_squares) = (ws.take(squares.len()), ws.take(squares.len()));
                let dy = &dy[r.start * outputs..r.end * outputs];
                times_packed(ws, &self.reduction.backward, Init::Zero, dy, &mut dn);
                back(ws.isa(), self.norm, &squares, stats, &dn, &mut d_squares, Base::Nothing, sums);
                reapply(ws.isa(), self.norm, &squares, n, stats);
                for (row, d) in r.zip(d_squares.chunks_exact(wide)) {
                    for (from, d) in self.tokens(row).zip(d.chunks_exact(token)) {
                        // SAFETY: every token is in one square.
                        unsafe { dx.slice(from * token..(from + 1) * token) }.copy_from_slice(d);
                    }
                }
            });
        }
        finish(&sums, grads.norm);
        let (a, b) = (Mat::new(&n, rows, wide).t(), Mat::new(dy, rows, outputs));
        gemm(ws, Product { a, b, c: grads.reduction, accumulate: false, column_sums: None });
    }

    /// The tokens that row `row` of `y` sees.
    fn tokens(&self, row: usize) -> impl Iterator<Item = usize> {
        let Images { height, width, .. } = self.images;
        let (across, pixels) = (width / 2, height / 2 * (width / 2));
        let (image, y, x) = (row / pixels, row % pixels / across * 2, row % across * 2);
        (0..4).map(move |i| (image * height + y + i % 2) * width + x + i / 2)
    }

    /// Rows `first..first + count` before the norm.
    fn squares(&self, x: &[f32], first: usize, count: usize, ws: &Workspace) -> Buffer {
        let wide = self.norm.width();
        let token = wide / 4;
        let mut squares = ws.take(count * wide);
        for (row, square) in squares.chunks_exact_mut(wide).enumerate() {
            for (from, to) in self.tokens(first + row).zip(square.chunks_exact_mut(token)) {
                to.copy_from_slice(&x[from * token..(from + 1) * token]);
            }
        }
        squares
    }

    /// Rows of `y`.
    fn rows(&self, x: &[f32]) -> usize {
        let (Images { height, width, .. }, wide) = (self.images, self.norm.width());
        assert!(
            height.is_multiple_of(2) && width.is_multiple_of(2) && wide.is_multiple_of(4),
            "four tokens of {wide} floats in all do not cover images of {height} x {width}"
        );
        assert_eq!(self.reduction.inputs(), wide, "the weight must take {wide} inputs");
        assert_eq!(x.len(), self.images.len(wide / 4), "x must hold {:?}", self.images);
        self.images.len(1) / 4
    }
}
