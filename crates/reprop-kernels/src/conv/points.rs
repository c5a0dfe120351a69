//! The 3x3 convolution where images are small and few: all tiles are transformed first, then each of the 36 matrices is
//! one product, then all tiles are transformed back.
//!
//! Small images have many channels: a task that took a few images through all steps would read all filters again, and
//! there would be fewer such tasks than threads. Here each transformed filter is read once, each weight gradient is one
//! product without partial sums, and there are 36 tasks at any size of the batch.

use super::ring::Ring;
use super::source::Source;
use super::three::{Conv3x3, Done};
use super::tiles::{
    Gather, Layout, Span, Tiling, Transformed, gather_input, gather_output_gradient, scatter_input_gradient,
    scatter_output,
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

    /// A strip of one image.
    fn span(&self, ring: &Ring, image: usize, strip: usize) -> Span {
        let at = image * self.tiling.count() + strip * self.tiling.across;
        let (tiling, layout) = (self.tiling, self.layout);
        Span { tiling, depth: ring.depth(), rows: ring.rows(strip), tiles: 0..tiling.across, at, layout }
    }

    /// Reads and transforms each image.
    fn gather(&mut self, conv: &Conv3x3, source: Source, pass: Gather, ws: &Workspace) {
        let mut data = std::mem::replace(&mut self.data, ws.take(0));
        {
            let data = Shared::new(&mut data);
            for_each(conv.images.batch, |image| {
                let mut ring = Ring::bordered(conv.images, self.channels, ws);
                // SAFETY: each image has its own rows.
                let mut to = unsafe { Transformed::part(&data) };
                for strip in 0..self.tiling.down {
                    ring.fill(ws.isa(), &source, image, strip);
                    pass(ws.isa(), &ring.data, &mut to, &self.span(&ring, image, strip));
                }
            });
        }
        self.data = data;
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
    pub(super) fn run_by_points(&self, source: Source, done: Done, ws: &Workspace) {
        let isa = ws.isa();
        let mut v = Tiles::new(self, self.weight.inputs(), ws);
        let mut m = Tiles::new(self, self.weight.outputs(), ws);
        v.gather(self, source, gather_input, ws);
        let (of_v, of_m) = (Points::of(&v), Points::of(&m));
        let data = Shared::new(&mut m.data);
        for_each(36, |point| {
            let left = of_v.matrix(&v.data[point * of_v.layout.matrix..]);
            // SAFETY: each task has its own point.
            let to = of_m.target(unsafe { of_m.part(&data, point) });
            multiply(isa, left, Right::Packed(self.weight.forward[point].data()), to, Init::Zero);
        });
        for_each(self.images.batch, |image| {
            let mut ring = Ring::blank(self.images, self.weight.outputs(), ws);
            for strip in 0..m.tiling.down {
                let span = m.span(&ring, image, strip);
                scatter_output(isa, &m.data, &mut ring.data, &span);
                done(image, &ring.outputs(strip));
            }
        });
    }

    pub(super) fn run_vjp_by_points(
        &self,
        source_x: Source,
        source_dy: Source,
        done: Option<Done>,
        dw: &mut [f32],
        ws: &Workspace,
    ) {
        let (isa, inputs, outputs) = (ws.isa(), self.weight.inputs(), self.weight.outputs());
        let (mut v, mut m) = (Tiles::new(self, inputs, ws), Tiles::new(self, outputs, ws));
        v.gather(self, source_x, gather_input, ws);
        m.gather(self, source_dy, gather_output_gradient, ws);
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
            for_each(self.images.batch, |image| {
                let mut ring = Ring::blank(self.images, inputs, ws);
                for strip in 0..v.tiling.down {
                    ring.clear(strip);
                    let span = v.span(&ring, image, strip);
                    scatter_input_gradient(isa, &v.data, &mut ring.data, &span);
                    done(image, &ring.finished(strip));
                }
            });
        }
        filter_gradient(&du, du_layout, (inputs, outputs), dw, ws);
    }
}
