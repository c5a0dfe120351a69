//! The 3x3 convolution with stride 2 and a border of one, by transforms of [even and odd pixels](super::split).
//!
//! As with [points](super::points): the tiles of many images are transformed first, then multiplied, each of 49 sums one task
//! of one, two or four products, then transformed back. Backward: sums' gradients once for both gradients; a task has the
//! products of one filter, adds up its gradient, and overwrites transformed pixels with theirs.

use std::ops::Range;

use super::points::Points;
use super::split::{PARTS, PIXELS, SUMS, Term, terms};
use super::squares::{Span, gather_input, gather_output_gradient, scatter_input_gradient, scatter_output};
use super::tiles::{Layout, Tiling, Transformed};
use super::weight::{Stride, filter_gradient};
use super::{Images, Slide, WinogradWeight};
use crate::batch_norm::OutputGradient;
use crate::gemm::{Init, Right, Target, blocks, multiply};
use crate::share::Shared;
use crate::simd::Isa;
use crate::tasks::for_each;
use crate::workspace::Workspace;

/// Tiles that are multiplied at once: their matrices are three times as large as those of as many tiles of stride 1.
const MANY: usize = 256;

/// A 3x3 convolution of a batch of images with stride 2.
#[derive(Clone, Copy, Debug)]
pub struct Strided3x3<'a> {
    /// Input images.
    pub images: Images,
    /// The filters, transformed for stride 2.
    pub weight: &'a WinogradWeight,
}

/// How the filters slide.
const STRIDED: Slide = Slide { kernel: 3, stride: 2, padding: 1 };

/// A pass from an image to its rows of the matrices.
type Gather = fn(Isa, &[f32], &mut Transformed<'_>, &Span);

/// A pass from the matrices to an image.
type Scatter = fn(Isa, &[f32], &mut [f32], &Span);

impl Strided3x3<'_> {
    /// Output images.
    pub fn output(&self) -> Images {
        STRIDED.output(self.images)
    }

    /// Whether transforms save multiplications for such images: tiles that are cut off at edges cost as much as whole ones.
    pub fn pays(images: Images) -> bool {
        let output = STRIDED.output(images);
        PIXELS * PIXELS * Tiling::new(output).count() < 9 * output.pixels()
    }

    /// `y = conv(x)`.
    ///
    /// # Panics
    /// If lengths do not fit.
    pub fn forward(&self, x: &[f32], y: &mut [f32], ws: &Workspace) {
        self.check(x, y.len());
        let isa = ws.isa();
        let y = Shared::new(y);
        let sums: [Vec<Term>; SUMS * SUMS] =
            std::array::from_fn(|sum| terms().filter(|term| term.sum == sum).collect());
        for some in self.shares() {
            let (v, m) = (self.pixels(some.len(), isa), self.sums(some.len(), isa));
            let (mut v_data, mut m_data) = (ws.take(v.layout.len()), ws.take(m.layout.len()));
            self.gather(&some, self.images, (x.into(), v), gather_input, &mut v_data, ws);
            {
                let data = Shared::new(&mut m_data);
                for_each(SUMS * SUMS, |sum| {
                    // SAFETY: each task has its own sum.
                    let to = unsafe { m.part(&data, sum) };
                    let mut init = Init::Zero;
                    for term in &sums[sum] {
                        let u = Right::Packed(self.weight.forward[term.filter].data());
                        multiply(isa, v.matrix(v.of(&v_data, term.pixel)), u, m.target(to), init);
                        init = Init::Add;
                    }
                });
            }
            self.scatter(&some, self.output(), (&m_data, m), scatter_output, &y, ws);
        }
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
        self.check(x, dy.len());
        assert!(dx.as_ref().is_none_or(|dx| dx.len() == x.len()), "dx must be like x");
        let (isa, inputs, outputs) = (ws.isa(), self.weight.inputs(), self.weight.outputs());
        let dx = dx.map(Shared::new);
        let parts: [Vec<Term>; PARTS] =
            std::array::from_fn(|part| terms().filter(|term| term.part == part).collect());
        let du_layout = Layout::of(PARTS, isa, inputs, outputs);
        let mut du = ws.take(du_layout.len());
        if self.images.is_empty() {
            du.fill(0.0);
        }
        for some in self.shares() {
            let (v, m) = (self.pixels(some.len(), isa), self.sums(some.len(), isa));
            let (mut v_data, mut m_data) = (ws.take(v.layout.len()), ws.take(m.layout.len()));
            self.gather(&some, self.images, (x.into(), v), gather_input, &mut v_data, ws);
            self.gather(&some, self.output(), (dy, m), gather_output_gradient, &mut m_data, ws);
            {
                let (du, data) = (Shared::new(&mut du), Shared::new(&mut v_data));
                for_each(PARTS, |part| {
                    let mut init = if some.start == 0 { Init::Zero } else { Init::Add };
                    for term in &parts[part] {
                        // SAFETY: each task has its own products, and each of them its own pixel.
                        let pixel = unsafe { v.part(&data, term.pixel) };
                        let dm = m.of(&m_data, term.sum);
                        let at = part * du_layout.matrix;
                        // SAFETY: each task has its own part.
                        let c = unsafe { Target::part(&du, at, inputs, outputs, du_layout.row) };
                        multiply(isa, v.matrix(pixel).t(), Right::Rows(dm, m.layout.row), c, init);
                        init = Init::Add;
                        if dx.is_some() {
                            let u = Right::Packed(self.weight.backward[term.filter].data());
                            multiply(isa, m.matrix(dm), u, v.target(pixel), Init::Zero);
                        }
                    }
                });
            }
            if let Some(dx) = &dx {
                self.scatter(&some, self.images, (&v_data, v), scatter_input_gradient, dx, ws);
            }
        }
        filter_gradient(&du, du_layout, Stride::Two, (inputs, outputs), dw, ws);
    }

    fn tiling(&self) -> Tiling {
        Tiling::new(self.output())
    }

    /// Images whose tiles are multiplied at once.
    fn shares(&self) -> impl Iterator<Item = Range<usize>> {
        let batch = if self.images.is_empty() { 0 } else { self.images.batch };
        let most = (MANY / self.tiling().count().max(1)).max(1);
        blocks(batch, batch.div_ceil(batch.div_ceil(most).max(1)))
    }

    /// Matrices of transformed pixels of some images.
    fn pixels(&self, images: usize, isa: Isa) -> Points {
        let (count, channels) = (images * self.tiling().count(), self.weight.inputs());
        Points { layout: Layout::of(PIXELS * PIXELS, isa, count, channels), count, channels }
    }

    /// Matrices of sums of products of some images.
    fn sums(&self, images: usize, isa: Isa) -> Points {
        let (count, channels) = (images * self.tiling().count(), self.weight.outputs());
        Points { layout: Layout::of(SUMS * SUMS, isa, count, channels), count, channels }
    }

    /// Image `i` of some against its rows of the matrices.
    fn span(&self, images: Images, points: Points, i: usize) -> Span {
        let tiling = self.tiling();
        let at = i * tiling.count();
        Span { images, channels: points.channels, tiling, at, layout: points.layout }
    }

    fn gather(
        &self,
        some: &Range<usize>,
        images: Images,
        (from, points): (OutputGradient, Points),
        pass: Gather,
        data: &mut [f32],
        ws: &Workspace,
    ) {
        let size = images.pixels() * points.channels;
        let data = Shared::new(data);
        for_each(some.len(), |i| {
            let image = some.start + i;
            // SAFETY: each image has its own rows.
            let mut to = unsafe { Transformed::part(&data) };
            let mut room = from.room(size, ws);
            let from = from.part(ws.isa(), image * size..(image + 1) * size, &mut room);
            pass(ws.isa(), from, &mut to, &self.span(images, points, i));
        });
    }

    fn scatter(
        &self,
        some: &Range<usize>,
        images: Images,
        (data, points): (&[f32], Points),
        pass: Scatter,
        to: &Shared<'_>,
        ws: &Workspace,
    ) {
        let size = images.pixels() * points.channels;
        for_each(some.len(), |i| {
            let image = some.start + i;
            // SAFETY: images do not overlap.
            let to = unsafe { to.slice(image * size..(image + 1) * size) };
            pass(ws.isa(), data, to, &self.span(images, points, i));
        });
    }

    fn check(&self, x: &[f32], y: usize) {
        let (inputs, outputs) = (self.weight.inputs(), self.weight.outputs());
        assert_eq!(self.weight.stride(), Stride::Two, "the filters must be transformed for stride 2");
        assert_eq!((x.len(), y), (self.images.len(inputs), self.output().len(outputs)), "images do not fit");
    }
}
