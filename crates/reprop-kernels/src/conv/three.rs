//! The 3x3 convolution with stride 1 and a border of one, by Winograd's F(4x4, 3x3).
//!
//! A task takes a few whole images, a run of tiles at a time, through all three steps, so that transformed tiles stay in
//! cache. Images are read from their [source](super::source) strip by strip and handed over as soon as a strip's rows are
//! finished: that is where norms, activations, skips and statistics are fused.
//!
//! Backward: `dM` once for both gradients, `dU += Vᵀ dM` with `V` transformed again, `dV = dM Uᵀ` over `V`, scattered. A
//! group of tasks adds its `dU` up in order; groups are few and fixed by shape, and added in order at the end.

use std::ops::Range;

use super::ring::{Lines, Ring};
use super::runs::Run;
use super::source::{Kind, Source};
use super::tiles::{
    Layout, Tiling, Transformed, gather_input, gather_output_gradient, scatter_input_gradient, scatter_output,
};
use super::weight::{Stride, filter_gradient};
use super::{Images, WinogradWeight};
use crate::batch_norm::{OutputGradient, copy_pixels};
use crate::gemm::{Init, Mat, Right, Target, multiply};
use crate::share::Shared;
use crate::simd::Isa;
use crate::tasks::for_each;
use crate::workspace::{Buffer, Workspace, beyond_caches};

/// Tiles of a task, about.
const TILES: usize = 64;

/// Tiles of a run: whole register tiles of every instruction set. A longer run adds up the weight's gradient less often; with 64 channels
/// this one's matrices fill a second-level cache of two megabytes.
const RUN: usize = 96;

/// Partial sums of the weight's gradient: at most this many.
const GROUPS: usize = 8;

/// With fewer blocks than this, tasks are [points](super::points) instead,
const FEW_BLOCKS: usize = 16;

/// and likewise with more floats of transformed filters than this: half of a second-level cache of two megabytes.
const MANY_FILTERS: usize = 1 << 18;

/// A 3x3 convolution of a batch of images.
#[derive(Clone, Copy, Debug)]
pub struct Conv3x3<'a> {
    /// Input and output images.
    pub images: Images,
    /// The filters.
    pub weight: &'a WinogradWeight,
}

/// Takes finished rows of image `i`.
pub(crate) type Done<'a> = &'a (dyn Fn(usize, &Lines) + Sync);

impl Conv3x3<'_> {
    /// `y = conv(x)`.
    ///
    /// # Panics
    /// If lengths do not fit.
    pub fn forward(&self, x: &[f32], y: &mut [f32], ws: &Workspace) {
        let (inputs, outputs) = (self.weight.inputs(), self.weight.outputs());
        assert_eq!(
            (x.len(), y.len()),
            (self.images.len(inputs), self.images.len(outputs)),
            "images do not fit"
        );
        let y = Shared::new(y);
        self.run(self.plain(x, inputs), &copy_out(&y, self.images, outputs, ws.isa()), ws);
    }

    /// `dx` (if wanted) and `dw`, both overwritten.
    ///
    /// # Panics
    /// If lengths do not fit.
    pub fn vjp<'g>(
        &self,
        x: &[f32],
        dy: impl Into<OutputGradient<'g>>,
        dx: Option<&mut [f32]>,
        dw: &mut [f32],
        ws: &Workspace,
    ) {
        let dy = dy.into();
        let (inputs, outputs) = (self.weight.inputs(), self.weight.outputs());
        assert_eq!(
            (x.len(), dy.len()),
            (self.images.len(inputs), self.images.len(outputs)),
            "images do not fit"
        );
        assert!(dx.as_ref().is_none_or(|dx| dx.len() == x.len()), "dx must be like x");
        let kind = match dy {
            OutputGradient::Plain(dy) => Kind::Plain(dy),
            OutputGradient::BehindNorm { dn, c, back } => Kind::ThroughNorm { dn, c, back },
        };
        let (x, dy) = (self.plain(x, inputs), Source { images: self.images, channels: outputs, kind });
        let dx = dx.map(Shared::new);
        let done = dx.as_ref().map(|dx| copy_out(dx, self.images, inputs, ws.isa()));
        self.run_vjp(x, dy, done.as_ref().map(|done| done as Done), dw, ws);
    }

    fn plain<'b>(&self, x: &'b [f32], channels: usize) -> Source<'b> {
        Source { images: self.images, channels, kind: Kind::Plain(x) }
    }

    /// Images of a task.
    fn block(&self) -> usize {
        (TILES / Tiling::new(self.images).count().max(1)).max(1)
    }

    fn blocks(&self) -> usize {
        if self.images.is_empty() { 0 } else { self.images.batch.div_ceil(self.block()) }
    }

    fn is_by_points(&self) -> bool {
        self.blocks() < FEW_BLOCKS || 36 * self.weight.inputs() * self.weight.outputs() > MANY_FILTERS
    }

    fn block_images(&self, blocks: Range<usize>) -> Range<usize> {
        blocks.start * self.block()..(blocks.end * self.block()).min(self.images.batch)
    }

    pub(crate) fn run(&self, source: Source, done: Done, ws: &Workspace) {
        if self.is_by_points() {
            return self.run_by_points(source, done, ws);
        }
        let isa = ws.isa();
        for_each(self.blocks(), |block| {
            let mut x = Ring::bordered(self.images, self.weight.inputs(), ws);
            let mut y = Ring::blank(self.images, self.weight.outputs(), ws);
            let mut v = Matrices::new(ws, RUN, self.weight.inputs());
            let mut m = Matrices::new(ws, RUN, self.weight.outputs());
            for run in Run::all(self.images, self.block_images(block..block + 1), RUN) {
                v.gather(&run, &mut x, source, gather_input, ws);
                for (point, u) in self.weight.forward.iter().enumerate() {
                    let c = m.target(point, run.tiles);
                    multiply(isa, v.matrix(point, run.tiles), Right::Packed(u.data()), c, Init::Zero);
                }
                for piece in &run.pieces {
                    let span = piece.span(&y, m.layout);
                    scatter_output(isa, &m.data, &mut y.data, &span);
                    if piece.closes() {
                        done(piece.image, &y.outputs(piece.strip));
                    }
                }
            }
        });
    }

    pub(crate) fn run_vjp(
        &self,
        source_x: Source,
        source_dy: Source,
        done: Option<Done>,
        dw: &mut [f32],
        ws: &Workspace,
    ) {
        if self.is_by_points() {
            return self.run_vjp_by_points((source_x, source_dy), done, dw, ws);
        }
        let (inputs, outputs) = (self.weight.inputs(), self.weight.outputs());
        let in_group = self.blocks().div_ceil(GROUPS).max(1);
        let groups = self.blocks().div_ceil(in_group);
        let du_layout = Layout::new(ws.isa(), inputs, outputs);
        let mut du = ws.take(groups * du_layout.len());
        {
            let du = Shared::new(&mut du);
            for_each(groups, |group| {
                let images = self.block_images(group * in_group..(group + 1) * in_group);
                // SAFETY: each group has its own partial sums.
                let du = unsafe { du.slice(group * du_layout.len()..(group + 1) * du_layout.len()) };
                self.add_up(images, (source_x, source_dy), done, du, du_layout, ws);
            });
        }
        filter_gradient(&du, du_layout, Stride::One, (inputs, outputs), dw, ws);
    }

    /// One group's images: their `dx`, and their `dU` in order.
    fn add_up(
        &self,
        images: Range<usize>,
        (source_x, source_dy): (Source, Source),
        done: Option<Done>,
        du: &mut [f32],
        du_layout: Layout,
        ws: &Workspace,
    ) {
        let (isa, inputs, outputs) = (ws.isa(), self.weight.inputs(), self.weight.outputs());
        let mut init = Init::Zero;
        let mut x = Ring::bordered(self.images, inputs, ws);
        let mut dy = Ring::bordered(self.images, outputs, ws);
        let mut dx = Ring::blank(self.images, inputs, ws);
        let mut v = Matrices::new(ws, RUN, inputs);
        let mut m = Matrices::new(ws, RUN, outputs);
        for run in Run::all(self.images, images, RUN) {
            v.gather(&run, &mut x, source_x, gather_input, ws);
            m.gather(&run, &mut dy, source_dy, gather_output_gradient, ws);
            let du = du.chunks_exact_mut(du_layout.matrix);
            for (point, (u, du)) in self.weight.backward.iter().zip(du).enumerate() {
                let c = Target::new(du, inputs, outputs, du_layout.row);
                multiply(isa, v.matrix(point, run.tiles).t(), m.rows(point), c, init);
                if done.is_some() {
                    let (dm, dv) = (m.matrix(point, run.tiles), v.target(point, run.tiles));
                    multiply(isa, dm, Right::Packed(u.data()), dv, Init::Zero);
                }
            }
            init = Init::Add;
            let Some(done) = done else { continue };
            for piece in &run.pieces {
                if piece.opens() {
                    dx.clear(piece.strip);
                }
                let span = piece.span(&dx, v.layout);
                scatter_input_gradient(isa, &v.data, &mut dx.data, &span);
                if piece.closes() {
                    done(piece.image, &dx.finished(piece.strip));
                }
            }
        }
    }
}

/// Copies rows of image `i` to where they belong in `y`.
pub(crate) fn copy_out<'a>(
    y: &'a Shared<'a>,
    images: Images,
    channels: usize,
    isa: Isa,
) -> impl Fn(usize, &Lines) + Sync + 'a {
    let past = beyond_caches(y.len());
    move |image, lines| {
        let row = images.width * channels;
        for (line, from) in lines.each() {
            let at = (image * images.height + line) * row;
            // SAFETY: each row is finished once.
            let to = unsafe { y.slice(at..at + row) };
            copy_pixels(isa, from, lines.depth(), channels, to, past);
        }
    }
}

/// Transformed tiles of a run: 36 matrices.
struct Matrices {
    data: Buffer,
    layout: Layout,
    channels: usize,
}

impl Matrices {
    fn new(ws: &Workspace, tiles: usize, channels: usize) -> Self {
        let layout = Layout::new(ws.isa(), tiles, channels);
        Self { data: ws.take(layout.len()), layout, channels }
    }

    /// Reads and transforms a run's tiles.
    fn gather(
        &mut self,
        run: &Run,
        ring: &mut Ring,
        source: Source,
        pass: super::tiles::Gather,
        ws: &Workspace,
    ) {
        for piece in &run.pieces {
            if piece.opens() {
                ring.fill(ws.isa(), &source, piece.image, piece.strip);
            }
            let span = piece.span(ring, self.layout);
            pass(ws.isa(), &ring.data, &mut Transformed::whole(&mut self.data), &span);
        }
    }

    fn matrix(&self, point: usize, tiles: usize) -> Mat<'_> {
        Mat::strided(&self.data[point * self.layout.matrix..], tiles, self.channels, self.layout.row, 1)
    }

    fn rows(&self, point: usize) -> Right<'_> {
        Right::Rows(&self.data[point * self.layout.matrix..][..self.layout.matrix], self.layout.row)
    }

    fn target(&mut self, point: usize, tiles: usize) -> Target<'_> {
        let (start, row) = (point * self.layout.matrix, self.layout.row);
        Target::new(&mut self.data[start..start + self.layout.matrix], tiles, self.channels, row)
    }
}
