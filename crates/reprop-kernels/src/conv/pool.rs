//! Max and average pools.
//!
//! The maximum's gradient goes to the first of equal maxima, found again from `x`: nothing is saved. The average divides by
//! the square's full size or, for a pool over the whole image, by its pixels.

use super::{Images, Slide};
use crate::rows::{for_chunks, for_each};
use crate::share::Shared;
use crate::simd::Isa;

/// Channels that go together.
const BLOCK: usize = 64;

/// `y = max` over each place of the square; pixels outside do not count.
///
/// # Panics
/// If lengths do not fit or a place sees no pixel.
pub fn max_forward(images: Images, slide: Slide, channels: usize, x: &[f32], y: &mut [f32]) {
    each_pixel(images, slide, channels, x, y, |pixel, y| {
        y.fill(f32::NEG_INFINITY);
        for (_, from) in slide.taps(images, pixel) {
            for (y, &x) in y.iter_mut().zip(&x[from * channels..]) {
                *y = y.max(x);
            }
        }
    });
}

/// `dx` of [`max_forward`], overwritten.
///
/// # Panics
/// If lengths do not fit.
pub fn max_vjp(images: Images, slide: Slide, channels: usize, x: &[f32], dy: &[f32], dx: &mut [f32]) {
    each_image(images, slide, channels, dy, dx, |pixel, dy, dx, first| {
        // Tap by tap over a block of channels, so that channels go in vectors.
        for (block, dy) in dy.chunks(BLOCK).enumerate() {
            let at = |pixel: usize| pixel * channels + block * BLOCK;
            let (mut tops, mut places) = ([f32::NEG_INFINITY; BLOCK], [usize::MAX; BLOCK]);
            for (_, from) in slide.taps(images, pixel) {
                let x = &x[at(from)..at(from) + dy.len()];
                for ((top, place), &x) in tops.iter_mut().zip(&mut places).zip(x) {
                    if x > *top || *place == usize::MAX {
                        (*top, *place) = (x, from);
                    }
                }
            }
            for (c, (&place, dy)) in places.iter().zip(dy).enumerate() {
                dx[at(place - first) + c] += dy;
            }
        }
    });
}

/// `y = Σ / kernel²` over each place of the square; pixels outside count as zero.
///
/// # Panics
/// If lengths do not fit.
pub fn average_forward(images: Images, slide: Slide, channels: usize, x: &[f32], y: &mut [f32]) {
    let share = 1.0 / (slide.kernel * slide.kernel) as f32;
    each_pixel(images, slide, channels, x, y, |pixel, y| {
        y.fill(0.0);
        for (_, from) in slide.taps(images, pixel) {
            y.iter_mut().zip(&x[from * channels..]).for_each(|(y, x)| *y += x * share);
        }
    });
}

/// `dx` of [`average_forward`], overwritten.
///
/// # Panics
/// If lengths do not fit.
pub fn average_vjp(images: Images, slide: Slide, channels: usize, dy: &[f32], dx: &mut [f32]) {
    let share = 1.0 / (slide.kernel * slide.kernel) as f32;
    each_image(images, slide, channels, dy, dx, |pixel, dy, dx, first| {
        for (_, from) in slide.taps(images, pixel) {
            let dx = &mut dx[(from - first) * channels..];
            dx.iter_mut().zip(dy).for_each(|(dx, dy)| *dx += dy * share);
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

/// Runs `pool(output pixel, its channels)` for every output pixel.
fn each_pixel(
    images: Images,
    slide: Slide,
    channels: usize,
    x: &[f32],
    y: &mut [f32],
    pool: impl Fn(usize, &mut [f32]) + Sync,
) {
    let out = slide.output(images);
    assert_eq!((x.len(), y.len()), (images.len(channels), out.len(channels)), "lengths do not fit");
    let y = Shared::new(y);
    for_chunks(Isa::portable(), out.len(1), |_, pixels| {
        // SAFETY: chunks do not overlap.
        let y = unsafe { y.slice(pixels.start * channels..pixels.end * channels) };
        pixels.zip(y.chunks_exact_mut(channels)).for_each(|(pixel, y)| pool(pixel, y));
    });
}

/// Runs `pool(output pixel, its gradient, its image's dx, the image's first pixel)`, images in parallel.
fn each_image(
    images: Images,
    slide: Slide,
    channels: usize,
    dy: &[f32],
    dx: &mut [f32],
    pool: impl Fn(usize, &[f32], &mut [f32], usize) + Sync,
) {
    let out = slide.output(images);
    assert_eq!((dx.len(), dy.len()), (images.len(channels), out.len(channels)), "lengths do not fit");
    let dx = Shared::new(dx);
    for_each(images.batch, |image| {
        let first = image * images.pixels();
        // SAFETY: each image has its own part.
        let dx = unsafe { dx.slice(first * channels..(first + images.pixels()) * channels) };
        dx.fill(0.0);
        for pixel in image * out.pixels()..(image + 1) * out.pixels() {
            pool(pixel, &dy[pixel * channels..(pixel + 1) * channels], dx, first);
        }
    });
}
