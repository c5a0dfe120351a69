//! Max and average pools.
//!
//! The maximum's gradient goes to the first of equal maxima, found again from `x`: nothing is saved. The average divides by
//! the square's full size or, for a pool over the whole image, by its pixels.

use std::ops::Range;

use super::{Images, Slide};
use crate::rows::for_chunks;
use crate::share::Shared;
use crate::simd::{Isa, dispatch};
use crate::sweep::sweep;
use crate::tasks::for_each;

/// `y = max` over each place of the square; pixels outside do not count. Where a pixel is not a number, nor is the maximum.
///
/// # Panics
/// If lengths do not fit or a place sees no pixel.
pub fn max_forward(isa: Isa, images: Images, slide: Slide, channels: usize, x: &[f32], y: &mut [f32]) {
    each_chunk(images, slide, channels, x, y, |pixels, y| {
        max_pixels(isa, (images, slide, channels), x, pixels, y);
    });
}

/// `dx` of [`max_forward`], overwritten.
///
/// # Panics
/// If lengths do not fit.
pub fn max_vjp(
    isa: Isa,
    images: Images,
    slide: Slide,
    channels: usize,
    x: &[f32],
    dy: &[f32],
    dx: &mut [f32],
) {
    each_image(images, slide, channels, dy, dx, |image, dy, dx| {
        let size = images.pixels() * channels;
        max_image_vjp(isa, (images, slide, channels), image, &x[image * size..(image + 1) * size], dy, dx);
    });
}

dispatch! {
    /// The maxima of some output pixels.
    fn max_pixels(
        s: Isa, shape: (Images, Slide, usize), x: &[f32], pixels: Range<usize>, y: &mut [f32],
    ) {
        let (images, slide, channels) = shape;
        let mut places = Vec::new();
        for (pixel, y) in pixels.zip(y.chunks_exact_mut(channels.max(1))) {
            places.clear();
            places.extend(slide.taps(images, pixel).map(|(_, from)| from * channels));
            sweep!(s, channels, i, load, store, {
                let mut top = s.splat(f32::NEG_INFINITY);
                for &from in &places {
                    top = s.largest(load(s, &x[from..from + channels], i, 0.0), top);
                }
                store(s, y, i, top);
            });
        }
    }
}

dispatch! {
    /// The gradient of one image, from its `x` and `dy`.
    fn max_image_vjp(
        s: Isa, shape: (Images, Slide, usize), image: usize, x: &[f32], dy: &[f32], dx: &mut [f32],
    ) {
        let (images, slide, channels) = shape;
        let (first, out) = (image * images.pixels(), slide.output(images).pixels());
        let mut places = Vec::new();
        dx.fill(0.0);
        for (pixel, dy) in dy.chunks_exact(channels.max(1)).enumerate() {
            places.clear();
            places.extend(slide.taps(images, image * out + pixel).map(|(_, from)| (from - first) * channels));
            sweep!(s, channels, i, load, store, {
                let mut top = s.splat(f32::NEG_INFINITY);
                for &from in &places {
                    top = s.largest(load(s, &x[from..from + channels], i, 0.0), top);
                }
                // The first place that has the maximum takes the gradient, and leaves none.
                let mut left = load(s, dy, i, 0.0);
                for &from in &places {
                    let x = load(s, &x[from..from + channels], i, 0.0);
                    let d = s.select_gt(top, x, s.zero(), left);
                    left = s.select_gt(top, x, left, s.zero());
                    let sum = s.add(load(s, &dx[from..from + channels], i, 0.0), d);
                    store(s, &mut dx[from..from + channels], i, sum);
                }
            });
        }
    }
}

/// `y = Σ / kernel²` over each place of the square; pixels outside count as zero.
///
/// # Panics
/// If lengths do not fit.
pub fn average_forward(images: Images, slide: Slide, channels: usize, x: &[f32], y: &mut [f32]) {
    let share = 1.0 / (slide.kernel * slide.kernel) as f32;
    each_chunk(images, slide, channels, x, y, |pixels, y| {
        for (pixel, y) in pixels.zip(y.chunks_exact_mut(channels.max(1))) {
            y.fill(0.0);
            for (_, from) in slide.taps(images, pixel) {
                y.iter_mut().zip(&x[from * channels..]).for_each(|(y, x)| *y += x * share);
            }
        }
    });
}

/// `dx` of [`average_forward`], overwritten.
///
/// # Panics
/// If lengths do not fit.
pub fn average_vjp(images: Images, slide: Slide, channels: usize, dy: &[f32], dx: &mut [f32]) {
    let share = 1.0 / (slide.kernel * slide.kernel) as f32;
    each_image(images, slide, channels, dy, dx, |image, dy, dx| {
        let (first, out) = (image * images.pixels(), slide.output(images).pixels());
        dx.fill(0.0);
        for (pixel, dy) in dy.chunks_exact(channels.max(1)).enumerate() {
            for (_, from) in slide.taps(images, image * out + pixel) {
                let dx = &mut dx[(from - first) * channels..];
                dx.iter_mut().zip(dy).for_each(|(dx, dy)| *dx += dy * share);
            }
        }
    });
}

/// The mean over all pixels (or tokens) of each image: batch x channels.
///
/// # Panics
/// If lengths do not fit.
pub fn global_forward(images: Images, channels: usize, x: &[f32], y: &mut [f32]) {
    assert_eq!((x.len(), y.len()), (images.len(channels), images.batch * channels), "lengths do not fit");
    let share = 1.0 / images.pixels() as f32;
    let y = Shared::new(y);
    for_each(images.batch, |image| {
        // SAFETY: each image has its own row.
        let y = unsafe { y.slice(image * channels..(image + 1) * channels) };
        y.fill(0.0);
        let size = images.pixels() * channels;
        for x in x[image * size..(image + 1) * size].chunks_exact(channels) {
            y.iter_mut().zip(x).for_each(|(y, x)| *y += x);
        }
        for y in y {
            *y *= share;
        }
    });
}

/// `dx` of [`global_forward`], overwritten.
///
/// # Panics
/// If lengths do not fit.
pub fn global_vjp(images: Images, channels: usize, dy: &[f32], dx: &mut [f32]) {
    assert_eq!((dx.len(), dy.len()), (images.len(channels), images.batch * channels), "lengths do not fit");
    let share = 1.0 / images.pixels() as f32;
    let dx = Shared::new(dx);
    for_chunks(Isa::portable(), images.len(1), |_, pixels| {
        // SAFETY: chunks do not overlap.
        let dx = unsafe { dx.slice(pixels.start * channels..pixels.end * channels) };
        for (pixel, dx) in pixels.zip(dx.chunks_exact_mut(channels)) {
            let dy = &dy[pixel / images.pixels() * channels..][..channels];
            dx.iter_mut().zip(dy).for_each(|(dx, dy)| *dx = dy * share);
        }
    });
}

/// Runs `pool(output pixels, their channels)` for all output pixels.
fn each_chunk(
    images: Images,
    slide: Slide,
    channels: usize,
    x: &[f32],
    y: &mut [f32],
    pool: impl Fn(Range<usize>, &mut [f32]) + Sync,
) {
    let out = slide.output(images);
    assert_eq!((x.len(), y.len()), (images.len(channels), out.len(channels)), "lengths do not fit");
    let y = Shared::new(y);
    for_chunks(Isa::portable(), out.len(1), |_, pixels| {
        // SAFETY: chunks do not overlap.
        let y = unsafe { y.slice(pixels.start * channels..pixels.end * channels) };
        pool(pixels, y);
    });
}

/// Runs `pool(image, its gradient, its dx)`, images in parallel.
fn each_image(
    images: Images,
    slide: Slide,
    channels: usize,
    dy: &[f32],
    dx: &mut [f32],
    pool: impl Fn(usize, &[f32], &mut [f32]) + Sync,
) {
    let out = slide.output(images);
    assert_eq!((dx.len(), dy.len()), (images.len(channels), out.len(channels)), "lengths do not fit");
    let (size, out) = (images.pixels() * channels, out.pixels() * channels);
    let dx = Shared::new(dx);
    for_each(images.batch, |image| {
        // SAFETY: each image has its own part.
        let dx = unsafe { dx.slice(image * size..(image + 1) * size) };
        pool(image, &dy[image * out..(image + 1) * out], dx);
    });
}
