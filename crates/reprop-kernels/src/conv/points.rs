//! The 3x3 convolution where images are small and few: all tiles are transformed first, then each of the 36 matrices is
//! one product, then all tiles are transformed back.
//!
//! Small images have many channels: a task that took a few images through all steps would read all filters again, and
//! there would be fewer such tasks than threads. Here each transformed filter is read once, each weight gradient is one
//! product without partial sums, and there are 36 tasks at any size of the batch.

use super::Images;
use super::three::{Conv3x3, Done, Fill, Frames};
use super::tiles::{
    Layout, Span, Tiling, Transformed, frame_depth, gather_input, gather_output_gradient,
    scatter_input_gradient, scatter_output,
};
use super::weight::filter_gradient;
use crate::gemm::{Init, Mat, Right, Target, multiply};
use crate::rows::for_each;
use crate::share::Shared;
use crate::workspace::{Buffer, Workspace};

/// Transformed tiles of all images: 36 matrices tiles x channels.
struct Tiles {
    data: Buffer,
    layout: Layout,
    tiling: Tiling,
    count: usize,
    channels: usize,
}

impl Tiles {
    fn new(conv: &Conv3x3, channels: usize, ws: &Workspace) -> Self {
        let tiling = Tiling::new(conv.images);
        let count = conv.images.batch * tiling.count();
        let layout = Layout::new(ws.isa(), count, channels);
        Self { data: ws.take(layout.len()), layout, tiling, count, channels }
    }

    /// The tiles of one image.
    fn span(&self, image: usize) -> Span {
        let tiles = 0..self.tiling.count();
        let at = image * tiles.end;
        Span { tiling: self.tiling, depth: frame_depth(self.channels), tiles, at, layout: self.layout }
    }

    /// Fills and transforms each image.
    fn gather(
        &mut self,
        conv: &Conv3x3,
        fill: Fill,
        pass: impl Fn(&[f32], &mut Transformed<'_>, &Span) + Sync,
        ws: &Workspace,
    ) {
        let (spans, channels): (Vec<Span>, usize) =
            ((0..conv.images.batch).map(|image| self.span(image)).collect(), self.channels);
        let data = Shared::new(&mut self.data);
        for_each(conv.images.batch, |image| {
            let mut frames = Frames::bordered(conv.images, 1, channels, ws);
            let mut frame = frames.frame(0);
            fill(image, &mut frame);
            // SAFETY: each image has its own rows.
            pass(frame.data, &mut unsafe { Transformed::part(&data) }, &spans[image]);
        });
    }

    /// Transforms each image back and hands it over.
    fn scatter(
        &self,
        conv: &Conv3x3,
        frames: impl Fn(Images, usize, usize, &Workspace) -> Frames + Sync,
        pass: impl Fn(&[f32], &mut [f32], &Span) + Sync,
        done: Done,
        ws: &Workspace,
    ) {
        for_each(conv.images.batch, |image| {
            let mut frames = frames(conv.images, 1, self.channels, ws);
            let frame = frames.frame(0);
            pass(&self.data, frame.data, &self.span(image));
            done(image, &frame);
        });
    }
}

/// Where the matrices of `tiles` lie, for tasks that each have a point.
#[derive(Clone, Copy)]
struct Points {
    layout: Layout,
    count: usize,
    channels: usize,
}

impl Points {
    fn of(tiles: &Tiles) -> Self {
        Self { layout: tiles.layout, count: tiles.count, channels: tiles.channels }
    }

    fn matrix<'a>(&self, data: &'a [f32]) -> Mat<'a> {
        Mat::strided(data, self.count, self.channels, self.layout.row, 1)
    }

    fn target<'a>(&self, data: &'a mut [f32]) -> Target<'a> {
        Target::new(data, self.count, self.channels, self.layout.row)
    }

    /// The matrix of one point.
    ///
    /// # Safety
    /// No other task may use this point.
    #[allow(clippy::mut_from_ref)]
    unsafe fn part<'a>(&self, data: &Shared<'a>, point: usize) -> &'a mut [f32] {
        let start = point * self.layout.matrix;
        // SAFETY: the caller's promise.
        unsafe { data.slice(start..start + self.layout.matrix) }
    }
}

impl Conv3x3<'_> {
    pub(super) fn run_by_points(&self, fill: Fill, done: Done, ws: &Workspace) {
        let isa = ws.isa();
        let mut v = Tiles::new(self, self.weight.inputs(), ws);
        let mut m = Tiles::new(self, self.weight.outputs(), ws);
        v.gather(self, fill, |frame, to, span| gather_input(isa, frame, to, span), ws);
        let (of_v, of_m) = (Points::of(&v), Points::of(&m));
        let data = Shared::new(&mut m.data);
        for_each(36, |point| {
            let left = of_v.matrix(&v.data[point * of_v.layout.matrix..]);
            // SAFETY: each task has its own point.
            let to = of_m.target(unsafe { of_m.part(&data, point) });
            multiply(isa, left, Right::Packed(self.weight.forward[point].data()), to, Init::Zero);
        });
        m.scatter(
            self,
            Frames::blank,
            |tiles, frame, span| scatter_output(isa, tiles, frame, span),
            done,
            ws,
        );
    }

    pub(super) fn run_vjp_by_points(
        &self,
        fill_x: Fill,
        fill_dy: Fill,
        done: Option<Done>,
        dw: &mut [f32],
        ws: &Workspace,
    ) {
        let (isa, inputs, outputs) = (ws.isa(), self.weight.inputs(), self.weight.outputs());
        let (mut v, mut m) = (Tiles::new(self, inputs, ws), Tiles::new(self, outputs, ws));
        v.gather(self, fill_x, |frame, to, span| gather_input(isa, frame, to, span), ws);
        m.gather(self, fill_dy, |frame, to, span| gather_output_gradient(isa, frame, to, span), ws);
        let (of_v, of_m) = (Points::of(&v), Points::of(&m));
        let du_layout = Layout::new(isa, inputs, outputs);
        let mut du = ws.take(du_layout.len());
        {
            let (du, data) = (Shared::new(&mut du), Shared::new(&mut v.data));
            for_each(36, |point| {
                // SAFETY: each task has its own point.
                let v = unsafe { of_v.part(&data, point) };
                let dm = &m.data[point * of_m.layout.matrix..][..of_m.layout.matrix];
                // SAFETY: as above.
                let c =
                    unsafe { Target::part(&du, point * du_layout.matrix, inputs, outputs, du_layout.row) };
                multiply(isa, of_v.matrix(v).t(), Right::Rows(dm, of_m.layout.row), c, Init::Zero);
                if done.is_some() {
                    let u = Right::Packed(self.weight.backward[point].data());
                    multiply(isa, of_m.matrix(dm), u, of_v.target(v), Init::Zero);
                }
            });
        }
        if let Some(done) = done {
            let back = |tiles: &[f32], frame: &mut [f32], span: &Span| {
                scatter_input_gradient(isa, tiles, frame, span)
            };
            v.scatter(self, Frames::zeroed, back, done, ws);
        }
        filter_gradient(&du, du_layout, (inputs, outputs), dw, ws);
    }
}
