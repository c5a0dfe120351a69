//! The depthwise convolution: one square filter for each channel, weight kernel x kernel x channels.
//!
//! `y[p, c] = Σ_tap x[tap(p), c] w[tap, c]`. Forward by output pixels. Backward `dx` by input pixels, each from the places
//! that see it, and `dw` by output pixels, in one partial sum for each chunk of them, added in order.

use super::{Images, Slide};
use crate::rows::{Chunks, for_chunks};
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
    /// Floats from a pixel of `x` to the next: as many as channels, or more if these are columns of wider rows.
    pub pitch: usize,
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

    /// `dx`, laid out as `x` is, and `dw`, both overwritten.
    ///
    /// # Panics
    /// If lengths do not fit.
    pub fn vjp(&self, x: &[f32], dy: &[f32], dx: &mut [f32], dw: &mut [f32], ws: &Workspace) {
        let (out, Self { channels, pitch, .. }) = (self.check(x), *self);
        assert!(dy.len() == out.len(channels) && dx.len() == x.len(), "dy or dx does not fit");
        assert_eq!(dw.len(), self.weight.len(), "dw must be like the weight");
        let dx = Shared::new(dx);
        for_chunks(ws.isa(), self.images.len(1), |_, pixels| {
            if !pixels.is_empty() {
                // SAFETY: chunks do not overlap.
                let dx = unsafe { dx.slice(pixels.start * pitch..(pixels.end - 1) * pitch + channels) };
                back_pixels(ws.isa(), *self, dy, pixels.start, dx);
            }
        });
        let (pixels, count) = (out.len(1), self.weight.len());
        let mut parts = ws.take_zeroed(Chunks::new(ws.isa(), pixels).count() * count);
        {
            let parts = Shared::new(&mut parts);
            for_chunks(ws.isa(), pixels, |i, pixels| {
                // SAFETY: each chunk has its own sums.
                let dw = unsafe { parts.slice(i * count..(i + 1) * count) };
                let dy = &dy[pixels.start * channels..pixels.end * channels];
                back_weight(ws.isa(), *self, x, dy, pixels.start, dw);
            });
        }
        dw.fill(0.0);
        for part in parts.chunks_exact(count.max(1)) {
            dw.iter_mut().zip(part).for_each(|(a, b)| *a += b);
        }
    }

    fn check(&self, x: &[f32]) -> Images {
        let Self { images, channels, pitch, .. } = *self;
        let least = images.len(1).checked_sub(1).map_or(0, |last| last * pitch + channels);
        assert!(
            pitch >= channels && x.len() >= least,
            "x must hold {images:?} of {channels} channels, {pitch} floats apart"
        );
        assert_eq!(self.weight.len(), self.slide.kernel.pow(2) * channels, "the weight does not fit");
        self.slide.output(images)
    }
}

dispatch! {
    fn forward_pixels(s: Isa, conv: Depthwise, x: &[f32], first: usize, y: &mut [f32]) {
        let (n, pitch) = (conv.channels, conv.pitch);
        for (i, y) in y.chunks_exact_mut(n).enumerate() {
            y.fill(0.0);
            for (tap, from) in conv.slide.taps(conv.images, first + i) {
                let (x, w) = (&x[from * pitch..from * pitch + n], &conv.weight[tap * n..(tap + 1) * n]);
                sweep!(s, n, c, load, store, {
                    let v = s.fma(load(s, x, c, 0.0), load(s, w, c, 0.0), load(s, y, c, 0.0));
                    store(s, y, c, v);
                });
            }
        }
    }
}

dispatch! {
    fn back_pixels(s: Isa, conv: Depthwise, dy: &[f32], first: usize, dx: &mut [f32]) {
        let n = conv.channels;
        for (i, dx) in dx.chunks_mut(conv.pitch).enumerate() {
            let dx = &mut dx[..n];
            dx.fill(0.0);
            for (tap, from) in conv.slide.places(conv.images, first + i) {
                let (dy, w) = (&dy[from * n..(from + 1) * n], &conv.weight[tap * n..(tap + 1) * n]);
                sweep!(s, n, c, load, store, {
                    let v = s.fma(load(s, dy, c, 0.0), load(s, w, c, 0.0), load(s, dx, c, 0.0));
                    store(s, dx, c, v);
                });
            }
        }
    }
}

dispatch! {
    fn back_weight(s: Isa, conv: Depthwise, x: &[f32], dy: &[f32], first: usize, dw: &mut [f32]) {
        let (n, pitch) = (conv.channels, conv.pitch);
        for (i, dy) in dy.chunks_exact(n).enumerate() {
            for (tap, from) in conv.slide.taps(conv.images, first + i) {
                let (x, dw) = (&x[from * pitch..from * pitch + n], &mut dw[tap * n..(tap + 1) * n]);
                sweep!(s, n, c, load, store, {
                    let v = s.fma(load(s, dy, c, 0.0), load(s, x, c, 0.0), load(s, dw, c, 0.0));
                    store(s, dw, c, v);
                });
            }
        }
    }
}
