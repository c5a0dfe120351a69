//! The depthwise convolution: one square filter for each channel, weight kernel x kernel x channels.
//!
//! `y[p, c] = Σ_tap x[tap(p), c] w[tap, c]`. Forward by output pixels. Backward `dx` by input pixels, each from the places
//! that see it, and `dw` by output pixels, in one partial sum for each chunk of them, added in order.

use std::array::from_fn;
use std::ops::Range;

use super::taps::Meetings;
use super::{Images, Slide};
use crate::rows::{Chunks, for_chunks};
use crate::share::Shared;
use crate::simd::dispatch;
use crate::sweep::sweep;
use crate::workspace::Workspace;

/// Vectors of channels that pass all taps at once: so many sums stay in registers.
const VECTORS: usize = 6;

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
        let (y, seen) = (Shared::new(y), self.slide.seen(self.images));
        for_chunks(ws.isa(), out.len(1), |_, pixels| {
            // SAFETY: chunks do not overlap.
            let y = unsafe { y.slice(pixels.start * channels..pixels.end * channels) };
            let x = Pixels { data: x, pitch: self.pitch };
            gather(ws.isa(), &seen, x, self.weight, channels, pixels.start, y, channels);
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
        let (dx, seeing) = (Shared::new(dx), self.slide.seeing(self.images));
        for_chunks(ws.isa(), self.images.len(1), |_, pixels| {
            if !pixels.is_empty() {
                // SAFETY: chunks do not overlap.
                let dx = unsafe { dx.slice(pixels.start * pitch..(pixels.end - 1) * pitch + channels) };
                let dy = Pixels { data: dy, pitch: channels };
                gather(ws.isa(), &seeing, dy, self.weight, channels, pixels.start, dx, pitch);
            }
        });
        let (pixels, count, seen) = (out.len(1), self.weight.len(), self.slide.seen(self.images));
        let mut parts = ws.take_zeroed(Chunks::new(ws.isa(), pixels).count() * count);
        {
            let parts = Shared::new(&mut parts);
            for_chunks(ws.isa(), pixels, |i, pixels| {
                // SAFETY: each chunk has its own sums.
                let dw = unsafe { parts.slice(i * count..(i + 1) * count) };
                let dy = &dy[pixels.start * channels..pixels.end * channels];
                let x = Pixels { data: x, pitch };
                scatter(ws.isa(), &seen, x, dy, channels, pixels.start, dw);
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

/// Pixels that are met: the channels of each, so far apart.
#[derive(Clone, Copy)]
struct Pixels<'a> {
    data: &'a [f32],
    pitch: usize,
}

impl<'a> Pixels<'a> {
    /// Some channels of a pixel.
    #[inline(always)]
    fn part(self, pixel: usize, channels: Range<usize>) -> &'a [f32] {
        &self.data[pixel * self.pitch + channels.start..pixel * self.pitch + channels.end]
    }
}

dispatch! {
    /// `y[p] = Σ x[pixel] w[tap]` over what each pixel meets, for pixels from `first` on, of `n` channels, `pitch` floats apart in `y`.
    fn gather(
        s: Isa, meetings: &Meetings, x: Pixels, weight: &[f32], n: usize, first: usize, y: &mut [f32], pitch: usize,
    ) {
        let wide = VECTORS * S::LANES;
        let whole = n - n % wide;
        for (i, y) in y.chunks_mut(pitch).enumerate() {
            let patch = meetings.of(first + i);
            for c in (0..whole).step_by(wide) {
                let mut sums = [s.zero(); VECTORS];
                for row in 0..patch.rows {
                    for column in 0..patch.columns {
                        let (tap, pixel) = patch.at(row, column);
                        let (x, w) = (x.part(pixel, c..c + wide), &weight[tap * n + c..tap * n + c + wide]);
                        for (v, sum) in sums.iter_mut().enumerate() {
                            let at = v * S::LANES;
                            *sum = s.fma(s.load(&x[at..]), s.load(&w[at..]), *sum);
                        }
                    }
                }
                let y = &mut y[c..c + wide];
                for (v, sum) in sums.iter().enumerate() {
                    s.store(&mut y[v * S::LANES..], *sum);
                }
            }
            let y = &mut y[whole..n];
            sweep!(s, n - whole, c, load, store, {
                let mut sum = s.zero();
                for row in 0..patch.rows {
                    for column in 0..patch.columns {
                        let (tap, pixel) = patch.at(row, column);
                        let (x, w) = (x.part(pixel, whole..n), &weight[tap * n + whole..(tap + 1) * n]);
                        sum = s.fma(load(s, x, c, 0.0), load(s, w, c, 0.0), sum);
                    }
                }
                store(s, y, c, sum);
            });
        }
    }
}

dispatch! {
    /// `dw[tap] += dy[p] x[pixel]` over what each pixel meets, for pixels from `first` on, of `n` channels.
    fn scatter(s: Isa, meetings: &Meetings, x: Pixels, dy: &[f32], n: usize, first: usize, dw: &mut [f32]) {
        let wide = VECTORS * S::LANES;
        let whole = n - n % wide;
        for (i, dy) in dy.chunks_exact(n).enumerate() {
            let patch = meetings.of(first + i);
            for c in (0..whole).step_by(wide) {
                let dy: [S::V; VECTORS] = from_fn(|v| s.load(&dy[c + v * S::LANES..]));
                for row in 0..patch.rows {
                    for column in 0..patch.columns {
                        let (tap, pixel) = patch.at(row, column);
                        let (x, dw) = (x.part(pixel, c..c + wide), &mut dw[tap * n + c..tap * n + c + wide]);
                        for (v, dy) in dy.iter().enumerate() {
                            let at = v * S::LANES;
                            let sum = s.fma(*dy, s.load(&x[at..]), s.load(&dw[at..]));
                            s.store(&mut dw[at..], sum);
                        }
                    }
                }
            }
            let dy = &dy[whole..];
            for row in 0..patch.rows {
                for column in 0..patch.columns {
                    let (tap, pixel) = patch.at(row, column);
                    let (x, dw) = (x.part(pixel, whole..n), &mut dw[tap * n + whole..(tap + 1) * n]);
                    sweep!(s, n - whole, c, load, store, {
                        let sum = s.fma(load(s, dy, c, 0.0), load(s, x, c, 0.0), load(s, dw, c, 0.0));
                        store(s, dw, c, sum);
                    });
                }
            }
        }
    }
}
