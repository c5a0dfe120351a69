//! The 3x3 convolution with stride 1 and a border of one, by Winograd's F(4x4, 3x3).
//!
//! A task takes a few whole images, about [`TILES`] tiles, through all three steps, so that transformed tiles stay in cache.
//! The caller fills each image's frame and takes each finished image while it is in cache: that is where norms,
//! activations, skips and statistics are fused.
//!
//! Backward: `dM` once for both gradients, `dU += Vᵀ dM` with `V` transformed again, `dV = dM Uᵀ` over `V`, scattered. A
//! group of tasks adds its `dU` up in order; groups are few and fixed by shape, and added in order at the end.

use std::ops::Range;

use super::tiles::{
    Layout, Span, Tiling, Transformed, frame_depth, gather_input, gather_output_gradient,
    scatter_input_gradient, scatter_output,
};
use super::weight::filter_gradient;
use super::{Images, WinogradWeight};
use crate::gemm::{Init, Mat, Right, Target, multiply};
use crate::rows::for_each;
use crate::share::Shared;
use crate::workspace::{Buffer, Workspace};

/// Tiles that are transformed together: their matrices are as large as a second-level cache for 64 channels.
const TILES: usize = 64;

/// Partial sums of the weight's gradient: at most this many.
const GROUPS: usize = 8;

/// With fewer blocks than this, tasks are [points](super::points) instead.
const FEW_BLOCKS: usize = 16;

/// A 3x3 convolution of a batch of images.
#[derive(Clone, Copy, Debug)]
pub struct Conv3x3<'a> {
    /// Input and output images.
    pub images: Images,
    /// The filters.
    pub weight: &'a WinogradWeight,
}

/// Writes image `i` into a frame, whose border is zero.
pub(crate) type Fill<'a> = &'a (dyn Fn(usize, &mut Frame) + Sync);
/// Takes finished image `i` out of its frame.
pub(crate) type Done<'a> = &'a (dyn Fn(usize, &Frame) + Sync);

/// An image inside a border of zeros.
pub(crate) struct Frame<'a> {
    pub data: &'a mut [f32],
    pub images: Images,
    pub channels: usize,
}

impl Frame<'_> {
    fn span(&self, y: usize) -> Range<usize> {
        let (depth, width) = (frame_depth(self.channels), Tiling::new(self.images).frame_width());
        let start = ((y + 1) * width + 1) * depth;
        start..start + self.images.width * depth
    }

    /// Row `y` of the image: pixels of [`Frame::depth`] channels.
    pub(crate) fn row(&self, y: usize) -> &[f32] {
        &self.data[self.span(y)]
    }

    pub(crate) fn row_mut(&mut self, y: usize) -> &mut [f32] {
        let span = self.span(y);
        &mut self.data[span]
    }

    pub(crate) fn depth(&self) -> usize {
        frame_depth(self.channels)
    }
}

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
        self.run(&copy_in(x, self.images, inputs), &copy_out(&y, self.images, outputs), ws);
    }

    /// `dx` and `dw`, both overwritten.
    ///
    /// # Panics
    /// If lengths do not fit.
    pub fn vjp(&self, x: &[f32], dy: &[f32], dx: &mut [f32], dw: &mut [f32], ws: &Workspace) {
        let (inputs, outputs) = (self.weight.inputs(), self.weight.outputs());
        assert_eq!(
            (x.len(), dy.len()),
            (self.images.len(inputs), self.images.len(outputs)),
            "images do not fit"
        );
        assert_eq!(dx.len(), x.len(), "dx must be like x");
        let dx = Shared::new(dx);
        let (fill_x, fill_dy) = (copy_in(x, self.images, inputs), copy_in(dy, self.images, outputs));
        self.run_vjp(&fill_x, &fill_dy, Some(&copy_out(&dx, self.images, inputs)), dw, ws);
    }

    /// Images of a task.
    fn block(&self) -> usize {
        (TILES / Tiling::new(self.images).count().max(1)).max(1)
    }

    fn blocks(&self) -> usize {
        if self.images.is_empty() { 0 } else { self.images.batch.div_ceil(self.block()) }
    }

    fn block_images(&self, block: usize) -> Range<usize> {
        block * self.block()..((block + 1) * self.block()).min(self.images.batch)
    }

    pub(crate) fn run(&self, fill: Fill, done: Done, ws: &Workspace) {
        if self.blocks() < FEW_BLOCKS {
            return self.run_by_points(fill, done, ws);
        }
        for_each(self.blocks(), |block| {
            let images = self.block_images(block);
            let mut x = Frames::bordered(self.images, images.len(), self.weight.inputs(), ws);
            let mut y = Frames::blank(self.images, images.len(), self.weight.outputs(), ws);
            let mut v = Matrices::new(ws, self.weight.inputs());
            let mut m = Matrices::new(ws, self.weight.outputs());
            for (i, image) in images.clone().enumerate() {
                fill(image, &mut x.frame(i));
            }
            for spans in x.spans(v.layout) {
                x.each(&spans, |frame, span| {
                    gather_input(ws.isa(), frame, &mut Transformed::whole(&mut v.data), span);
                });
                let tiles = total(&spans);
                for (point, u) in self.weight.forward.iter().enumerate() {
                    let c = m.target(point, tiles);
                    multiply(ws.isa(), v.matrix(point, tiles), Right::Packed(u.data()), c, Init::Zero);
                }
                y.each(&spans, |frame, span| {
                    scatter_output(ws.isa(), &m.data, frame, &span.of(y_depth(self), m.layout));
                });
            }
            for (i, image) in images.enumerate() {
                done(image, &y.frame(i));
            }
        });
    }

    pub(crate) fn run_vjp(
        &self,
        fill_x: Fill,
        fill_dy: Fill,
        done: Option<Done>,
        dw: &mut [f32],
        ws: &Workspace,
    ) {
        if self.blocks() < FEW_BLOCKS {
            return self.run_vjp_by_points(fill_x, fill_dy, done, dw, ws);
        }
        let (inputs, outputs) = (self.weight.inputs(), self.weight.outputs());
        let in_group = self.blocks().div_ceil(GROUPS).max(1);
        let groups = self.blocks().div_ceil(in_group);
        let du_layout = Layout::new(ws.isa(), inputs, outputs);
        let mut du = ws.take(groups * du_layout.len());
        {
            let du = Shared::new(&mut du);
            for_each(groups, |group| {
                let mut init = Init::Zero;
                let mut v = Matrices::new(ws, inputs);
                let mut m = Matrices::new(ws, outputs);
                for block in group * in_group..((group + 1) * in_group).min(self.blocks()) {
                    let images = self.block_images(block);
                    let mut x = Frames::bordered(self.images, images.len(), inputs, ws);
                    let mut dy = Frames::bordered(self.images, images.len(), outputs, ws);
                    let mut dx = done.map(|_| Frames::zeroed(self.images, images.len(), inputs, ws));
                    for (i, image) in images.clone().enumerate() {
                        fill_x(image, &mut x.frame(i));
                        fill_dy(image, &mut dy.frame(i));
                    }
                    for spans in x.spans(v.layout) {
                        let tiles = total(&spans);
                        x.each(&spans, |frame, span| {
                            gather_input(ws.isa(), frame, &mut Transformed::whole(&mut v.data), span);
                        });
                        dy.each(&spans, |frame, span| {
                            let span = span.of(y_depth(self), m.layout);
                            let m = &mut Transformed::whole(&mut m.data);
                            gather_output_gradient(ws.isa(), frame, m, &span);
                        });
                        for (point, u) in self.weight.backward.iter().enumerate() {
                            let at = group * du_layout.len() + point * du_layout.matrix;
                            // SAFETY: each group has its own partial sums.
                            let c = unsafe { Target::part(&du, at, inputs, outputs, du_layout.row) };
                            multiply(ws.isa(), v.matrix(point, tiles).t(), m.rows(point), c, init);
                            if dx.is_some() {
                                let dm = m.matrix(point, tiles);
                                multiply(
                                    ws.isa(),
                                    dm,
                                    Right::Packed(u.data()),
                                    v.target(point, tiles),
                                    Init::Zero,
                                );
                            }
                        }
                        init = Init::Add;
                        if let Some(dx) = &mut dx {
                            dx.each(&spans, |frame, span| {
                                scatter_input_gradient(ws.isa(), &v.data, frame, span);
                            });
                        }
                    }
                    if let (Some(dx), Some(done)) = (&mut dx, done) {
                        for (i, image) in images.enumerate() {
                            done(image, &dx.frame(i));
                        }
                    }
                }
            });
        }
        filter_gradient(&du, du_layout, (inputs, outputs), dw, ws);
    }
}

fn y_depth(conv: &Conv3x3) -> usize {
    frame_depth(conv.weight.outputs())
}

fn total(spans: &[(usize, Span)]) -> usize {
    spans.iter().map(|(_, span)| span.tiles.len()).sum()
}

impl Span {
    /// The same tiles of another tensor.
    fn of(&self, depth: usize, layout: Layout) -> Self {
        Self { depth, layout, ..self.clone() }
    }
}

/// Copies image `i` of `x` into its frame.
pub(crate) fn copy_in(x: &[f32], images: Images, channels: usize) -> impl Fn(usize, &mut Frame) + Sync {
    move |image, frame| {
        let depth = frame.depth();
        let row = images.width * channels;
        for y in 0..images.height {
            let from = &x[(image * images.height + y) * row..][..row];
            let to = frame.row_mut(y);
            if depth == channels {
                to.copy_from_slice(from);
            } else {
                for (to, from) in to.chunks_exact_mut(depth).zip(from.chunks_exact(channels)) {
                    to[..channels].copy_from_slice(from);
                }
            }
        }
    }
}

/// Copies image `i` out of its frame into `y`.
pub(crate) fn copy_out<'a>(
    y: &'a Shared<'a>,
    images: Images,
    channels: usize,
) -> impl Fn(usize, &Frame) + Sync + 'a {
    move |image, frame| {
        let depth = frame.depth();
        let row = images.width * channels;
        for line in 0..images.height {
            let at = (image * images.height + line) * row;
            // SAFETY: each image is finished once.
            let to = unsafe { y.slice(at..at + row) };
            if depth == channels {
                to.copy_from_slice(frame.row(line));
            } else {
                for (to, from) in to.chunks_exact_mut(channels).zip(frame.row(line).chunks_exact(depth)) {
                    to.copy_from_slice(&from[..channels]);
                }
            }
        }
    }
}

/// The frames of a task's images.
pub(super) struct Frames {
    data: Buffer,
    images: Images,
    count: usize,
    channels: usize,
}

impl Frames {
    /// Frames of zeros, for what is added up.
    pub(super) fn zeroed(images: Images, count: usize, channels: usize, ws: &Workspace) -> Self {
        let mut frames = Self::blank(images, count, channels, ws);
        frames.data.fill(0.0);
        frames
    }

    /// Frames whose borders are zero, for images that are written into them.
    pub(super) fn bordered(images: Images, count: usize, channels: usize, ws: &Workspace) -> Self {
        let depth = frame_depth(channels);
        if depth != channels {
            // Channels beyond the last are border too.
            return Self::zeroed(images, count, channels, ws);
        }
        let mut frames = Self::blank(images, count, channels, ws);
        let row = Tiling::new(images).frame_width() * depth;
        let (left, right) = (depth, (images.width + 1) * depth);
        for i in 0..count {
            for (y, row) in frames.frame(i).data.chunks_exact_mut(row).enumerate() {
                if y == 0 || y > images.height {
                    row.fill(0.0);
                } else {
                    row[..left].fill(0.0);
                    row[right..].fill(0.0);
                }
            }
        }
        frames
    }

    /// Frames that hold anything, for tiles that overwrite them.
    pub(super) fn blank(images: Images, count: usize, channels: usize, ws: &Workspace) -> Self {
        let len = Tiling::new(images).frame_len(frame_depth(channels));
        Self { data: ws.take(count * len), images, count, channels }
    }

    fn len(&self) -> usize {
        Tiling::new(self.images).frame_len(frame_depth(self.channels))
    }

    pub(super) fn frame(&mut self, i: usize) -> Frame<'_> {
        let len = self.len();
        Frame { data: &mut self.data[i * len..(i + 1) * len], images: self.images, channels: self.channels }
    }

    /// All tiles in runs of at most [`TILES`]; each run as spans of single images.
    fn spans(&self, layout: Layout) -> Vec<Vec<(usize, Span)>> {
        let tiling = Tiling::new(self.images);
        let depth = frame_depth(self.channels);
        let all = tiling.count() * self.count;
        (0..all)
            .step_by(TILES)
            .map(|first| {
                let last = (first + TILES).min(all);
                (first / tiling.count()..last.div_ceil(tiling.count()))
                    .map(|image| {
                        let start = image * tiling.count();
                        let tiles = first.max(start) - start..last.min(start + tiling.count()) - start;
                        let at = (start + tiles.start) - first;
                        (image, Span { tiling, depth, tiles, at, layout })
                    })
                    .collect()
            })
            .collect()
    }

    fn each(&mut self, spans: &[(usize, Span)], mut pass: impl FnMut(&mut [f32], &Span)) {
        let len = self.len();
        for (image, span) in spans {
            pass(&mut self.data[image * len..(image + 1) * len], span);
        }
    }
}

/// Transformed tiles: 36 matrices.
struct Matrices {
    data: Buffer,
    layout: Layout,
    channels: usize,
}

impl Matrices {
    fn new(ws: &Workspace, channels: usize) -> Self {
        let layout = Layout::new(ws.isa(), TILES, channels);
        Self { data: ws.take(layout.len()), layout, channels }
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
