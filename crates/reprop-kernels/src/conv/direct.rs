//! Any square convolution as matrix products over gathered pixels: 1x1, strides, 7x7.
//!
//! A task gathers the inputs of a few output pixels into rows of `kernel² inputs` floats, which stay in cache, and
//! multiplies them by the weight. Backward: `dW = Σ rowsᵀ dy` in a few fixed groups of images, `dx` by scattering `dy Wᵀ`, one
//! image after the other within a group.

use super::{Images, Slide};
use crate::gemm::{Init, Mat, PackedWeight, Right, Target, blocks, multiply, pack_all, packed_len};
use crate::linear::times_packed;
use crate::rows::{for_chunks, for_each};
use crate::share::Shared;
use crate::workspace::Workspace;

/// Output pixels that the derivative gathers at once.
const PIXELS: usize = 192;

/// Partial sums of the weight's gradient: at most this many.
const GROUPS: usize = 8;

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
    pub fn vjp(&self, x: &[f32], dy: &[f32], dx: Option<&mut [f32]>, dw: &mut [f32], ws: &Workspace) {
        let (out, outputs) = self.check(x);
        let (taps, isa) = (self.weight.inputs(), ws.isa());
        assert_eq!(dy.len(), out.len(outputs), "dy must hold {out:?} of {outputs} channels");
        assert!(dx.as_ref().is_none_or(|dx| dx.len() == x.len()), "dx must be like x");
        assert_eq!(dw.len(), taps * outputs, "dw must be {taps} x {outputs}");
        let in_group = self.images.batch.div_ceil(GROUPS).max(1);
        let groups = self.images.batch.div_ceil(in_group);
        let mut parts = ws.take_zeroed(groups * taps * outputs);
        {
            let (parts, dx) = (Shared::new(&mut parts), dx.map(Shared::new));
            let size = self.images.pixels() * self.inputs;
            for_each(groups, |group| {
                // SAFETY: each group has its own sums.
                let dw = unsafe { parts.slice(group * taps * outputs..(group + 1) * taps * outputs) };
                for image in group * in_group..((group + 1) * in_group).min(self.images.batch) {
                    // SAFETY: each image belongs to one group.
                    let mut dx = dx.as_ref().map(|dx| unsafe { dx.slice(image * size..(image + 1) * size) });
                    if let Some(dx) = dx.as_deref_mut() {
                        dx.fill(0.0);
                    }
                    for span in blocks(out.pixels(), PIXELS) {
                        let pixels = image * out.pixels() + span.start..image * out.pixels() + span.end;
                        let dy = &dy[pixels.start * outputs..pixels.end * outputs];
                        let mut rows = ws.take(pixels.len() * taps);
                        self.gather(x, pixels.clone(), &mut rows);
                        let right = Mat::new(dy, pixels.len(), outputs);
                        let mut packed = ws.take(packed_len(isa, pixels.len(), outputs));
                        pack_all(isa, right, &mut packed);
                        let left = Mat::new(&rows, pixels.len(), taps).t();
                        multiply(
                            isa,
                            left,
                            Right::Packed(&packed),
                            Target::new(dw, taps, outputs, outputs),
                            Init::Add,
                        );
                        if let Some(dx) = dx.as_deref_mut() {
                            times_packed(ws, &self.weight.backward, Init::Zero, dy, &mut rows);
                            self.scatter(&rows, pixels, image, dx);
                        }
                    }
                }
            });
        }
        dw.fill(0.0);
        for part in parts.chunks_exact((taps * outputs).max(1)) {
            dw.iter_mut().zip(part).for_each(|(a, b)| *a += b);
        }
    }

    fn is_pointwise(&self) -> bool {
        self.slide == Slide { kernel: 1, stride: 1, padding: 0 }
    }

    /// One row of all taps' channels for each output pixel, zeros where a tap is outside.
    fn gather(&self, x: &[f32], pixels: std::ops::Range<usize>, rows: &mut [f32]) {
        let inputs = self.inputs;
        for (pixel, row) in pixels.zip(rows.chunks_exact_mut(self.weight.inputs())) {
            row.fill(0.0);
            for (tap, from) in self.slide.taps(self.images, pixel) {
                row[tap * inputs..(tap + 1) * inputs].copy_from_slice(&x[from * inputs..(from + 1) * inputs]);
            }
        }
    }

    /// Adds rows of taps to the pixels of image `image` that they came from.
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
