//! Attention inside square windows of an image, with a learned bias by relative position and shifted windows (Swin).
//!
//! Norm and linear layers see single tokens, so windows are nothing but another order of tokens: they are gathered window
//! by window, run through [`Attention`] with a window for a sample, and put back. With a shift the image is first rolled by it;
//! tokens that were not neighbours before are hidden from each other.

use super::{Attention, AttentionGrads, AttentionSaved, AttentionShape, Keep, Masks};
use crate::conv::Images;
use crate::gemm::Weight;
use crate::grid::GridOverflow;
use crate::layer_norm::{LayerNorm, NormGrads};
use crate::output::{Base, Output, Sink};
use crate::rows::for_chunks;
use crate::share::Shared;
use crate::sixteen::Rounds;
use crate::tasks::for_each;
use crate::workspace::{Buffer, Workspace};

/// Parameters of the sub-block; `x` and `y` are images of `norm.width()` channels.
#[derive(Clone, Copy, Debug)]
pub struct WindowAttention<'a> {
    /// The images; windows must cover them exactly.
    pub images: Images,
    /// Side of a window.
    pub window: usize,
    /// Tokens by which windows are shifted, less than the side.
    pub shift: usize,
    /// Heads.
    pub heads: usize,
    /// `(2 window - 1)² x heads`: the bias of a relative position.
    pub table: &'a [f32],
    /// Pre-norm over the width.
    pub norm: LayerNorm<'a>,
    /// Width x 3 width.
    pub qkv: Weight<'a>,
    /// 3 width.
    pub qkv_bias: &'a [f32],
    /// Width x width.
    pub out: Weight<'a>,
    /// Width.
    pub out_bias: &'a [f32],
}

/// What [`WindowAttention::vjp`] needs beside `x`.
#[derive(Debug)]
pub struct WindowSaved(AttentionSaved);

impl Rounds for WindowSaved {
    fn values(&mut self) -> impl Iterator<Item = &mut Buffer> {
        self.0.values()
    }
}

/// Where the gradients go; each is overwritten.
#[derive(Debug)]
pub struct WindowGrads<'a> {
    /// The bias table's.
    pub table: &'a mut [f32],
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
}

impl WindowAttention<'_> {
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
    ) -> Result<WindowSaved, GridOverflow> {
        self.check(x);
        let (bias, hidden, places) = (self.bias(ws), self.hidden(ws), self.places());
        let x = self.gathered(x, &places, ws);
        let mut y = ws.take(x.len());
        let inner = self.inner(&bias, hidden.as_deref());
        let saved = inner.forward_saving(&x, &mut Output::Value(&mut y), keep, ws)?;
        self.put_back(&y, &places, output, ws)?;
        Ok(WindowSaved(saved))
    }

    /// Gradients from `dy`: `dx = base + …`, parameters' overwritten.
    ///
    /// # Panics
    /// If shapes do not fit.
    pub fn vjp(
        &self,
        x: &[f32],
        saved: WindowSaved,
        dy: &[f32],
        dx: &mut [f32],
        base: Base,
        grads: WindowGrads,
        ws: &Workspace,
    ) {
        self.derive(x, dy, (dx, base), grads, ws, |inner, x, dy, dx, grads| {
            inner.vjp(x, saved.0, dy, dx, Base::Nothing, grads, ws);
        });
    }

    /// `f(x)` and the gradients from `dy` in one; as [`Attention::reverse`].
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
        grads: WindowGrads,
        ws: &Workspace,
    ) -> Result<(), GridOverflow> {
        let mut y = ws.take(x.len());
        let places = self.derive(x, dy, (dx, base), grads, ws, |inner, x, dy, dx, grads| {
            let mut output = Output::Value(&mut y);
            inner.reverse(x, &mut output, dy, dx, Base::Nothing, grads, ws).expect("values are on no grid");
        });
        self.put_back(&y, &places, output, ws)
    }

    /// Gradients, by `run` on windows; and where rows in window order belong.
    fn derive(
        &self,
        x: &[f32],
        dy: &[f32],
        (dx, base): (&mut [f32], Base),
        grads: WindowGrads,
        ws: &Workspace,
        run: impl FnOnce(Attention, &[f32], &[f32], &mut [f32], AttentionGrads),
    ) -> Vec<usize> {
        self.check(x);
        assert!(dy.len() == x.len() && dx.len() == x.len(), "dy and dx must be as long as x");
        let width = self.norm.width();
        let (bias, hidden, places) = (self.bias(ws), self.hidden(ws), self.places());
        let (x, dy) = (self.gathered(x, &places, ws), self.gathered(dy, &places, ws));
        let (mut windows, mut dbias) = (ws.take(x.len()), ws.take(bias.len()));
        let WindowGrads { table, norm, qkv, qkv_bias, out, out_bias } = grads;
        let inner_grads = AttentionGrads { norm, qkv, qkv_bias, out, out_bias, bias: Some(&mut dbias) };
        run(self.inner(&bias, hidden.as_deref()), &x, &dy, &mut windows, inner_grads);
        let dx = Shared::new(dx);
        for_chunks(ws.isa(), places.len(), |_, rows| {
            for row in rows {
                let to = places[row] * width..(places[row] + 1) * width;
                // SAFETY: every token has one place.
                let dx = unsafe { dx.slice(to.clone()) };
                let d = &windows[row * width..(row + 1) * width];
                match base.part(to) {
                    Base::Nothing => dx.copy_from_slice(d),
                    Base::Itself => dx.iter_mut().zip(d).for_each(|(a, d)| *a += d),
                    Base::Other(base) => dx.iter_mut().zip(d).zip(base).for_each(|((a, d), b)| *a = d + b),
                }
            }
        });
        table.fill(0.0);
        let tokens = self.window * self.window;
        for (i, j) in (0..tokens).flat_map(|i| (0..tokens).map(move |j| (i, j))) {
            for head in 0..self.heads {
                table[self.relative(i, j) * self.heads + head] += dbias[(head * tokens + i) * tokens + j];
            }
        }
        places
    }

    /// Rows in window order to where they belong.
    fn put_back(
        &self,
        y: &[f32],
        places: &[usize],
        output: &mut Output,
        ws: &Workspace,
    ) -> Result<(), GridOverflow> {
        let (width, sink) = (self.norm.width(), Sink::new(output, y.len()));
        for_chunks(ws.isa(), places.len(), |_, rows| {
            for row in rows {
                let to = places[row] * width;
                // SAFETY: every token has one place.
                unsafe { sink.put(ws.isa(), to..to + width, &y[row * width..(row + 1) * width]) };
            }
        });
        sink.finish()
    }

    fn inner<'b>(&'b self, bias: &'b [f32], hidden: Option<&'b [f32]>) -> Attention<'b> {
        let tokens = self.window * self.window;
        Attention {
            shape: AttentionShape { batch: self.images.len(1) / tokens, tokens, heads: self.heads },
            masks: Masks { bias: Some(bias), groups: hidden, ..Masks::default() },
            norm: self.norm,
            qkv: self.qkv,
            qkv_bias: self.qkv_bias,
            out: self.out,
            out_bias: self.out_bias,
        }
    }

    /// The token that row `i` in window order holds.
    fn places(&self) -> Vec<usize> {
        let (Images { batch, height, width }, side) = (self.images, self.window);
        let mut places = Vec::with_capacity(batch * height * width);
        for image in 0..batch {
            for (wy, wx) in (0..height / side).flat_map(|wy| (0..width / side).map(move |wx| (wy, wx))) {
                for (i, j) in (0..side).flat_map(|i| (0..side).map(move |j| (i, j))) {
                    let (y, x) =
                        ((wy * side + i + self.shift) % height, (wx * side + j + self.shift) % width);
                    places.push((image * height + y) * width + x);
                }
            }
        }
        places
    }

    fn gathered(&self, x: &[f32], places: &[usize], ws: &Workspace) -> Buffer {
        let width = self.norm.width();
        let mut windows = ws.take(x.len());
        let to = Shared::new(&mut windows);
        for_chunks(ws.isa(), places.len(), |_, rows| {
            for row in rows {
                // SAFETY: chunks do not overlap.
                let to = unsafe { to.slice(row * width..(row + 1) * width) };
                to.copy_from_slice(&x[places[row] * width..(places[row] + 1) * width]);
            }
        });
        windows
    }

    /// The table's row for query `i` and key `j` of a window.
    fn relative(&self, i: usize, j: usize) -> usize {
        let side = self.window;
        let (y, x) = (i / side + side - 1 - j / side, i % side + side - 1 - j % side);
        y * (2 * side - 1) + x
    }

    /// The bias as heads x queries x keys.
    fn bias(&self, ws: &Workspace) -> Buffer {
        self.scores(self.heads, ws, |head, i, j| self.table[self.relative(i, j) * self.heads + head])
    }

    /// For each window `-inf` between tokens that only the roll made neighbours: windows x queries x keys.
    fn hidden(&self, ws: &Workspace) -> Option<Buffer> {
        if self.shift == 0 {
            return None;
        }
        let Images { height, width, .. } = self.images;
        let (side, across) = (self.window, width / self.window);
        // A rolled row or column came from before the wrap, or from after it.
        let wrapped = |n: usize, size: usize| n >= size - self.shift;
        let regions: Vec<(bool, bool)> = (0..height / side * across)
            .flat_map(|window| (0..side * side).map(move |token| (window, token)))
            .map(|(window, token)| {
                let (y, x) = (window / across * side + token / side, window % across * side + token % side);
                (wrapped(y, height), wrapped(x, width))
            })
            .collect();
        let tokens = side * side;
        Some(self.scores(regions.len() / tokens, ws, |window, i, j| {
            let region = &regions[window * tokens..(window + 1) * tokens];
            if region[i] == region[j] { 0.0 } else { f32::NEG_INFINITY }
        }))
    }

    /// Tables of `value(table, query, key)`: tables x queries x keys.
    fn scores(
        &self,
        tables: usize,
        ws: &Workspace,
        value: impl Fn(usize, usize, usize) -> f32 + Sync,
    ) -> Buffer {
        let tokens = self.window * self.window;
        let mut scores = ws.take(tables * tokens * tokens);
        {
            let scores = Shared::new(&mut scores);
            for_each(tables, |table| {
                // SAFETY: tables do not overlap.
                let to = unsafe { scores.slice(table * tokens * tokens..(table + 1) * tokens * tokens) };
                for (i, row) in to.chunks_exact_mut(tokens).enumerate() {
                    for (j, score) in row.iter_mut().enumerate() {
                        *score = value(table, i, j);
                    }
                }
            });
        }
        scores
    }

    fn check(&self, x: &[f32]) {
        let Images { height, width, .. } = self.images;
        assert_eq!(x.len(), self.images.len(self.norm.width()), "x must hold {:?}", self.images);
        assert!(
            height.is_multiple_of(self.window)
                && width.is_multiple_of(self.window)
                && self.shift < self.window,
            "windows of {} shifted by {} do not cover {height} x {width}",
            self.window,
            self.shift
        );
        assert_eq!(self.table.len(), (2 * self.window - 1).pow(2) * self.heads, "the table does not fit");
    }
}
