//! The depthwise convolution: one square filter for each channel, weight kernel x kernel x channels.
//!
//! `y[p, c] = Σ_tap x[tap(p), c] w[tap, c]`. Forward by output pixels; backward by images, `dw` in one partial sum for each
//! image, added in order.

use super::{Images, Slide};
use crate::rows::{for_chunks, for_each};
use crate::share::Shared;
use crate::simd::dispatch;
use crate::sweep::sweep;
use crate::workspace::Workspace;

/// A depthwise convolution of a batch of images.
#[derive(Clone, Copy, Debug)]
pub struct Depthwise<'a> {
    /// Input images.
    pub images: Images,
    /// Kernel, stride and padding.
    pub slide: Slide,
    /// Channels.
    pub channels: usize,
    /// `kernel² x channels`.
    pub weight: &'a [f32],
}

impl Depthwise<'_> {
    /// `y = conv(x)`.
    ///
    /// # Panics
    /// If lengths do not fit.
    pub fn forward(&self, x: &[f32], y: &mut [f32], ws: &Workspace) {
        let (out, channels) = (self.check(x), self.channels);
        assert_eq!(y.len(), out.len(channels), "y must hold {out:?} of {channels} channels");
        let y = Shared::new(y);
        for_chunks(ws.isa(), out.len(1), |_, pixels| {
            // SAFETY: chunks do not overlap.
            let y = unsafe { y.slice(pixels.start * channels..pixels.end * channels) };
            forward_pixels(ws.isa(), *self, x, pixels.start, y);
        });
    }

    /// `dx` and `dw`, both overwritten.
    ///
    /// # Panics
    /// If lengths do not fit.
    pub fn vjp(&self, x: &[f32], dy: &[f32], dx: &mut [f32], dw: &mut [f32], ws: &Workspace) {
        let (out, channels) = (self.check(x), self.channels);
        assert!(dy.len() == out.len(channels) && dx.len() == x.len(), "dy or dx does not fit");
        assert_eq!(dw.len(), self.weight.len(), "dw must be like the weight");
        let (size, count) = (self.images.pixels() * channels, self.weight.len());
        let mut parts = ws.take_zeroed(self.images.batch * count);
        {
            let (parts, dx) = (Shared::new(&mut parts), Shared::new(dx));
            for_each(self.images.batch, |image| {
                // SAFETY: each image has its own sums and pixels.
                let (dw, dx) = unsafe {
                    (
                        parts.slice(image * count..(image + 1) * count),
                        dx.slice(image * size..(image + 1) * size),
                    )
                };
                dx.fill(0.0);
                back_image(ws.isa(), *self, x, dy, image, dx, dw);
            });
        }
        dw.fill(0.0);
        for part in parts.chunks_exact(count.max(1)) {
            dw.iter_mut().zip(part).for_each(|(a, b)| *a += b);
        }
    }

    fn check(&self, x: &[f32]) -> Images {
        assert_eq!(x.len(), self.images.len(self.channels), "x must hold {:?}", self.images);
        assert_eq!(self.weight.len(), self.slide.kernel.pow(2) * self.channels, "the weight does not fit");
        self.slide.output(self.images)
    }
}

dispatch! {
    fn forward_pixels(s: Isa, conv: Depthwise, x: &[f32], first: usize, y: &mut [f32]) {
        let n = conv.channels;
        for (i, y) in y.chunks_exact_mut(n).enumerate() {
            y.fill(0.0);
            for (tap, from) in conv.slide.taps(conv.images, first + i) {
                let (x, w) = (&x[from * n..(from + 1) * n], &conv.weight[tap * n..(tap + 1) * n]);
                sweep!(s, n, c, load, store, {
                    let v = s.fma(load(s, x, c, 0.0), load(s, w, c, 0.0), load(s, y, c, 0.0));
                    store(s, y, c, v);
                });
            }
        }
    }
}

dispatch! {
    fn back_image(s: Isa, conv: Depthwise, x: &[f32], dy: &[f32], image: usize, dx: &mut [f32], dw: &mut [f32]) {
        let (n, out) = (conv.channels, conv.slide.output(conv.images).pixels());
        for pixel in image * out..(image + 1) * out {
            let dy = &dy[pixel * n..(pixel + 1) * n];
            for (tap, from) in conv.slide.taps(conv.images, pixel) {
                let at = (from - image * conv.images.pixels()) * n;
                let (x, dx) = (&x[from * n..(from + 1) * n], &mut dx[at..at + n]);
                let (w, dw) = (&conv.weight[tap * n..(tap + 1) * n], &mut dw[tap * n..(tap + 1) * n]);
                sweep!(s, n, c, load, store, {
                    let d = load(s, dy, c, 0.0);
                    let v = s.fma(d, load(s, w, c, 0.0), load(s, dx, c, 0.0));
                    store(s, dx, c, v);
                    let v = s.fma(d, load(s, x, c, 0.0), load(s, dw, c, 0.0));
                    store(s, dw, c, v);
                });
            }
        }
    }
}
