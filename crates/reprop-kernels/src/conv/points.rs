//! The 3x3 convolution where images are small or channels many: the tiles of many images are transformed first, then each of
//! the 36 matrices is one product, then all tiles are transformed back.
//!
//! With many channels the filters are too large for a core's own cache: a task that took a few images through all steps would
//! read all of them again, and add up as many sums of the weight's gradient. Here each transformed filter is read once for
//! [`MANY`] tiles, and there are 36 tasks at any size of the batch.

use std::ops::Range;

use super::ring::Ring;
use super::source::Source;
use super::three::{Conv3x3, Done};
use super::tiles::{
    Gather, Layout, Span, Tiling, Transformed, gather_input, gather_output_gradient, scatter_input_gradient,
    scatter_output,
};
use super::weight::{Stride, filter_gradient};
use crate::gemm::{Init, Mat, Right, Target, blocks, multiply, multiply_packing, packing_room};
use crate::share::Shared;
use crate::tasks::for_each;
use crate::workspace::{Buffer, Workspace};

/// Tiles that are multiplied at once: so many that reading filters does not count, so few that they stay in the cache which
/// all cores share.
const MANY: usize = 256;

/// Transformed tiles of some images: 36 matrices tiles x channels.
struct Tiles {
    data: Buffer,
    /// The most images that there is room for, and those whose tiles it holds.
    room: usize,
    some: Range<usize>,
    layout: Layout,
    tiling: Tiling,
    channels: usize,
}

impl Tiles {
    fn new(conv: &Conv3x3, room: usize, channels: usize, ws: &Workspace) -> Self {
        let tiling = Tiling::new(conv.images);
        let layout = Layout::new(ws.isa(), room * tiling.count(), channels);
        Self { data: ws.take(layout.len()), room, some: 0..0, layout, tiling, channels }
    }

    /// The same room for other images.
    fn hold(&mut self, some: Range<usize>) {
        assert!(some.len() <= self.room, "no room for images {some:?}");
        self.some = some;
    }

    /// A strip of one image.
    fn span(&self, ring: &Ring, image: usize, strip: usize) -> Span {
        let at = (image - self.some.start) * self.tiling.count() + strip * self.tiling.across;
        let (tiling, layout) = (self.tiling, self.layout);
        Span { tiling, depth: ring.depth(), rows: ring.rows(strip), tiles: 0..tiling.across, at, layout }
    }

    /// Reads and transforms each image.
    fn gather(&mut self, conv: &Conv3x3, source: Source, pass: Gather, ws: &Workspace) {
        let mut data = std::mem::replace(&mut self.data, ws.take(0));
        {
            let data = Shared::new(&mut data);
            for_each(self.some.len(), |i| {
                let image = self.some.start + i;
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
pub(super) struct Points {
    pub layout: Layout,
    pub count: usize,
    pub channels: usize,
}

impl Points {
    fn all(tiles: &Tiles) -> Self {
        let count = tiles.some.len() * tiles.tiling.count();
        Self { layout: tiles.layout, count, channels: tiles.channels }
    }

    pub(super) fn matrix<'a>(&self, data: &'a [f32]) -> Mat<'a> {
        Mat::strided(data, self.count, self.channels, self.layout.row, 1)
    }

    pub(super) fn target<'a>(&self, data: &'a mut [f32]) -> Target<'a> {
        Target::new(data, self.count, self.channels, self.layout.row)
    }

    /// The floats of one point.
    pub(super) fn of<'a>(&self, data: &'a [f32], point: usize) -> &'a [f32] {
        &data[point * self.layout.matrix..][..self.layout.matrix]
    }

    /// The same for a task that writes them.
    ///
    /// # Safety
    /// No other task may use this point.
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn part<'a>(&self, data: &Shared<'a>, point: usize) -> &'a mut [f32] {
        let start = point * self.layout.matrix;
        // SAFETY: the caller's promise.
        unsafe { data.slice(start..start + self.layout.matrix) }
    }
}

/// Channels from which on it pays to pack transformed pixels and gradients before they are multiplied with each other.
const WIDE: usize = 256;

/// `vᵀ dm` of a point, both tiles x channels.
fn weight_gradient(v: Mat, dm: Mat, c: Target<'_>, init: Init, ws: &Workspace) {
    if v.cols.min(dm.cols) < WIDE {
        return multiply(ws.isa(), v.t(), Right::Rows(dm.data, dm.row_stride), c, init);
    }
    let mut room = ws.take(packing_room(ws.isa(), v.cols, v.rows));
    multiply_packing(ws.isa(), v.t(), dm, &mut room, c, init);
}

impl Conv3x3<'_> {
    /// Images whose tiles are multiplied at once: shares of the batch that are as equal as can be.
    fn shares(&self) -> (usize, impl Iterator<Item = Range<usize>>) {
        let most = (MANY / Tiling::new(self.images).count().max(1)).max(1);
        let size = self.images.batch.div_ceil(self.images.batch.div_ceil(most).max(1));
        let batch = if self.images.is_empty() { 0 } else { self.images.batch };
        (size, blocks(batch, size))
    }

    pub(super) fn run_by_points(&self, source: Source, done: Done, ws: &Workspace) {
        let (size, shares) = self.shares();
        let mut v = Tiles::new(self, size, self.weight.inputs(), ws);
        let mut m = Tiles::new(self, size, self.weight.outputs(), ws);
        for some in shares {
            self.share(some, source, done, &mut v, &mut m, ws);
        }
    }

    fn share(
        &self,
        some: Range<usize>,
        source: Source,
        done: Done,
        v: &mut Tiles,
        m: &mut Tiles,
        ws: &Workspace,
    ) {
        let isa = ws.isa();
        v.hold(some.clone());
        m.hold(some.clone());
        v.gather(self, source, gather_input, ws);
        let (of_v, of_m) = (Points::all(v), Points::all(m));
        let data = Shared::new(&mut m.data);
        for_each(36, |point| {
            let left = of_v.matrix(of_v.of(&v.data, point));
            // SAFETY: each task has its own point.
            let to = of_m.target(unsafe { of_m.part(&data, point) });
            multiply(isa, left, Right::Packed(self.weight.forward[point].data()), to, Init::Zero);
        });
        for_each(some.len(), |i| {
            let image = some.start + i;
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
        sources: (Source, Source),
        done: Option<Done>,
        dw: &mut [f32],
        ws: &Workspace,
    ) {
        let (inputs, outputs) = (self.weight.inputs(), self.weight.outputs());
        let (size, shares) = self.shares();
        let (mut v, mut m) = (Tiles::new(self, size, inputs, ws), Tiles::new(self, size, outputs, ws));
        let layout = Layout::new(ws.isa(), inputs, outputs);
        let mut du = ws.take(layout.len());
        if self.images.is_empty() {
            du.fill(0.0);
        }
        for some in shares {
            v.hold(some.clone());
            m.hold(some);
            self.share_vjp(sources, done, &mut v, &mut m, (&mut du, layout), ws);
        }
        filter_gradient(&du, layout, Stride::One, (inputs, outputs), dw, ws);
    }

    /// Some images: their `dx`, and their `dU`, added to that of the images before them.
    fn share_vjp(
        &self,
        (source_x, source_dy): (Source, Source),
        done: Option<Done>,
        v: &mut Tiles,
        m: &mut Tiles,
        (du, du_layout): (&mut [f32], Layout),
        ws: &Workspace,
    ) {
        let (isa, inputs, outputs) = (ws.isa(), self.weight.inputs(), self.weight.outputs());
        v.gather(self, source_x, gather_input, ws);
        m.gather(self, source_dy, gather_output_gradient, ws);
        let (of_v, of_m) = (Points::all(v), Points::all(m));
        let some = v.some.clone();
        let init = if some.start == 0 { Init::Zero } else { Init::Add };
        {
            let (du, data) = (Shared::new(du), Shared::new(&mut v.data));
            for_each(36, |point| {
                // SAFETY: each task has its own point.
                let v = unsafe { of_v.part(&data, point) };
                let dm = of_m.of(&m.data, point);
                // SAFETY: as above.
                let c =
                    unsafe { Target::part(&du, point * du_layout.matrix, inputs, outputs, du_layout.row) };
                weight_gradient(of_v.matrix(v), of_m.matrix(dm), c, init, ws);
                if done.is_some() {
                    let u = Right::Packed(self.weight.backward[point].data());
                    multiply(isa, of_m.matrix(dm), u, of_v.target(v), Init::Zero);
                }
            });
        }
        let Some(done) = done else { return };
        for_each(some.len(), |i| {
            let image = some.start + i;
            let mut ring = Ring::blank(self.images, inputs, ws);
            for strip in 0..v.tiling.down {
                ring.clear(strip);
                let span = v.span(&ring, image, strip);
                scatter_input_gradient(isa, &v.data, &mut ring.data, &span);
                done(image, &ring.finished(strip));
            }
        });
    }
}
