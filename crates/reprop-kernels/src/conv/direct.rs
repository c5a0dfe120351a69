//! Any square convolution as matrix products over gathered pixels: 1x1, strides, 7x7.
//!
//! A task gathers the inputs of a few output pixels into rows of `kernel² inputs` floats, which stay in cache, and
//! multiplies them by the weight. Backward: `dW = Σ rowsᵀ dy` in a few fixed groups of images, or at once if it is large; `dx` by
//! scattering `dy Wᵀ`, one image after the other.

use super::{Images, Slide};
use crate::batch_norm::OutputGradient;
use crate::gemm::{
    Init, Mat, PackedWeight, Product, Right, Target, add_up, blocks, gemm, multiply, pack_all, packed_len,
};
use crate::linear::{self, times_packed};
use crate::rows::for_chunks;
use crate::share::Shared;
use crate::tasks::for_each;
use crate::workspace::Workspace;

/// Output pixels that the derivative gathers at once.
const PIXELS: usize = 192;

/// Partial sums of the weight's gradient: at most this many,
const GROUPS: usize = 8;

/// of no more floats than this, two megabytes.
const LARGE: usize = 1 << 19;

/// Floats of pixels that are gathered at once, about, for a weight that is larger.
const GATHERED: usize = 1 << 22;

/// A convolution of a batch of images without bias.
#[derive(Clone, Copy, Debug)]
pub struct Conv2d<'a> {
    /// Input images.
    pub images: Images,
    /// Kernel, stride and padding.
    pub slide: Slide,
    /// Input channels.
    pub inputs: usize,
    /// `kernel² inputs x outputs`.
    pub weight: &'a PackedWeight,
}

impl Conv2d<'_> {
    /// `y = conv(x)`.
    ///
    /// # Panics
    /// If lengths do not fit.
    pub fn forward(&self, x: &[f32], y: &mut [f32], ws: &Workspace) {
        let (out, outputs) = self.check(x);
        assert_eq!(y.len(), out.len(outputs), "y must hold {out:?} of {outputs} channels");
        let y = Shared::new(y);
        for_chunks(ws.isa(), out.len(1), |_, pixels| {
            // SAFETY: chunks do not overlap.
            let y = unsafe { y.slice(pixels.start * outputs..pixels.end * outputs) };
            if self.is_pointwise() {
                let x = &x[pixels.start * self.inputs..pixels.end * self.inputs];
                times_packed(ws, &self.weight.forward, Init::Zero, x, y);
            } else {
                let mut rows = ws.take(pixels.len() * self.weight.inputs());
                self.gather(x, pixels.clone(), &mut rows);
                times_packed(ws, &self.weight.forward, Init::Zero, &rows, y);
            }
        });
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
        let (out, outputs) = self.check(x);
        let taps = self.weight.inputs();
        assert_eq!(dy.len(), out.len(outputs), "dy must hold {out:?} of {outputs} channels");
        assert!(dx.as_ref().is_none_or(|dx| dx.len() == x.len()), "dx must be like x");
        assert_eq!(dw.len(), taps * outputs, "dw must be {taps} x {outputs}");
        if dw.len() > LARGE {
            match dy {
                OutputGradient::Plain(dy) => self.vjp_at_once(x, dy, dx, dw, ws),
                OutputGradient::BehindNorm { .. } => {
                    let mut whole = ws.take(dy.len());
                    dy.write(&mut whole, ws);
                    self.vjp_at_once(x, &whole, dx, dw, ws);
                }
            }
        } else {
            self.vjp_in_groups(x, dy, dx, dw, ws);
        }
    }

    /// The derivative with few sums: groups of images each add up their own.
    fn vjp_in_groups(
        &self,
        x: &[f32],
        dy: OutputGradient,
        dx: Option<&mut [f32]>,
        dw: &mut [f32],
        ws: &Workspace,
    ) {
        let (taps, outputs, isa) = (self.weight.inputs(), self.weight.outputs(), ws.isa());
        let (of_image, len) = (self.slide.output(self.images).pixels(), dw.len());
        let in_group = self.images.batch.div_ceil(GROUPS).max(1);
        let groups = self.images.batch.div_ceil(in_group);
        let mut parts = ws.take(groups * len);
        {
            let (parts, dx) = (Shared::new(&mut parts), dx.map(Shared::new));
            let size = self.images.pixels() * self.inputs;
            for_each(groups, |group| {
                let images = group * in_group..((group + 1) * in_group).min(self.images.batch);
                // SAFETY: each group has its own sums.
                let dw = unsafe { parts.slice(group * len..(group + 1) * len) };
                // SAFETY: each image belongs to one group.
                let mut dx =
                    dx.as_ref().map(|dx| unsafe { dx.slice(images.start * size..images.end * size) });
                if let Some(dx) = dx.as_deref_mut() {
                    dx.fill(0.0);
                }
                if of_image == 0 {
                    dw.fill(0.0);
                }
                let mut init = Init::Zero;
                let mut room = dy.room(PIXELS * outputs, ws);
                for span in blocks(images.len() * of_image, PIXELS) {
                    let first = images.start * of_image;
                    let pixels = first + span.start..first + span.end;
                    let dy = dy.part(isa, pixels.start * outputs..pixels.end * outputs, &mut room);
                    let mut rows = ws.take(pixels.len() * taps);
                    self.gather(x, pixels.clone(), &mut rows);
                    let mut packed = ws.take(packed_len(isa, pixels.len(), outputs));
                    pack_all(isa, Mat::new(dy, pixels.len(), outputs), &mut packed);
                    let left = Mat::new(&rows, pixels.len(), taps).t();
                    let c = Target::new(dw, taps, outputs, outputs);
                    multiply(isa, left, Right::Packed(&packed), c, init);
                    init = Init::Add;
                    if let Some(dx) = dx.as_deref_mut() {
                        times_packed(ws, &self.weight.backward, Init::Zero, dy, &mut rows);
                        self.scatter(&rows, pixels, images.start, dx);
                    }
                }
            });
        }
        dw.fill(0.0);
        add_up(dw, &parts.chunks_exact(len.max(1)).collect::<Vec<_>>());
    }

    /// The derivative with many sums, of which there is to be one set: all pixels of many images are gathered first, then the
    /// weight's gradient is one product.
    fn vjp_at_once(&self, x: &[f32], dy: &[f32], dx: Option<&mut [f32]>, dw: &mut [f32], ws: &Workspace) {
        let (taps, outputs) = (self.weight.inputs(), self.weight.outputs());
        let of_image = self.slide.output(self.images).pixels();
        let share = (GATHERED / (of_image * taps).max(1)).max(1);
        let size = self.images.pixels() * self.inputs;
        let dx = dx.map(Shared::new);
        if self.images.batch == 0 {
            dw.fill(0.0);
        }
        for images in blocks(self.images.batch, share) {
            let (first, count) = (images.start * of_image, images.len() * of_image);
            let dy = &dy[first * outputs..(first + count) * outputs];
            let mut rows = ws.take(count * taps);
            {
                let rows = Shared::new(&mut rows);
                for_chunks(ws.isa(), count, |_, pixels| {
                    // SAFETY: chunks do not overlap.
                    let rows = unsafe { rows.slice(pixels.start * taps..pixels.end * taps) };
                    self.gather(x, first + pixels.start..first + pixels.end, rows);
                });
            }
            let (a, b) = (Mat::new(&rows, count, taps).t(), Mat::new(dy, count, outputs));
            gemm(ws, Product { a, b, c: dw, accumulate: images.start > 0, column_sums: None });
            let Some(dx) = &dx else { continue };
            linear::forward(ws, &self.weight.backward, None, dy, &mut rows, count);
            for_each(images.len(), |i| {
                let image = images.start + i;
                // SAFETY: each image has its own part.
                let dx = unsafe { dx.slice(image * size..(image + 1) * size) };
                dx.fill(0.0);
                let pixels = i * of_image..(i + 1) * of_image;
                let rows = &rows[pixels.start * taps..pixels.end * taps];
                self.scatter(rows, first + pixels.start..first + pixels.end, image, dx);
            });
        }
    }

    fn is_pointwise(&self) -> bool {
        self.slide == Slide { kernel: 1, stride: 1, padding: 0 }
    }

    /// One row of all taps' channels for each output pixel, zeros where a tap is outside. Taps of one row of the square see
    /// pixels that lie in one piece.
    fn gather(&self, x: &[f32], pixels: std::ops::Range<usize>, rows: &mut [f32]) {
        let (inputs, seen) = (self.inputs, self.slide.seen(self.images));
        for (pixel, row) in pixels.zip(rows.chunks_exact_mut(self.weight.inputs())) {
            let patch = seen.of(pixel);
            let len = patch.columns * inputs;
            let mut written = 0;
            for line in 0..if len == 0 { 0 } else { patch.rows } {
                let (tap, from) = patch.at(line, 0);
                let (to, from) = (tap * inputs, from * inputs);
                row[written..to].fill(0.0);
                row[to..to + len].copy_from_slice(&x[from..from + len]);
                written = to + len;
            }
            row[written..].fill(0.0);
        }
    }

    /// Adds rows of taps to the pixels that they came from; `dx` begins with image `image`.
    fn scatter(&self, rows: &[f32], pixels: std::ops::Range<usize>, image: usize, dx: &mut [f32]) {
        let inputs = self.inputs;
        let first = image * self.images.pixels();
        for (pixel, row) in pixels.zip(rows.chunks_exact(self.weight.inputs())) {
            for (tap, to) in self.slide.taps(self.images, pixel) {
                let to = &mut dx[(to - first) * inputs..(to - first + 1) * inputs];
                to.iter_mut().zip(&row[tap * inputs..(tap + 1) * inputs]).for_each(|(a, b)| *a += b);
            }
        }
    }

    fn check(&self, x: &[f32]) -> (Images, usize) {
        assert_eq!(
            x.len(),
            self.images.len(self.inputs),
            "x must hold {:?} of {} channels",
            self.images,
            self.inputs
        );
        let taps = self.slide.kernel * self.slide.kernel * self.inputs;
        assert_eq!(self.weight.inputs(), taps, "the weight must have {taps} rows");
        (self.slide.output(self.images), self.weight.outputs())
    }
}
