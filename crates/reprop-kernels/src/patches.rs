//! Squares of pixels cut out of images, each a row: what a convolution with a large stride multiplies by its weight.

use rayon::prelude::*;

use crate::conv::{Images, Slide};

/// Cuts out the square at each place of `slide`: `x` is batch x channels x height x width, and a row of `y` holds the square's
/// pixels by channel, row and column, zeros outside of the image.
///
/// # Panics
/// If lengths do not fit.
pub fn cut(images: Images, slide: Slide, channels: usize, x: &[f32], y: &mut [f32]) {
    let Slide { kernel, stride, padding } = slide;
    let (out, square) = (slide.output(images), channels * kernel * kernel);
    assert_eq!(x.len(), images.len(channels), "x must hold {images:?} of {channels} channels");
    assert_eq!(y.len(), out.len(square), "y must hold {out:?} squares of {square} pixels");
    let pixels = images.pixels();
    y.par_chunks_exact_mut((out.width * square).max(1)).enumerate().for_each(|(line, y)| {
        let (image, top) = (line / out.height, line % out.height * stride);
        for (place, square) in y.chunks_exact_mut(square.max(1)).enumerate() {
            let left = place * stride;
            // Columns of the square that lie inside.
            let start = padding.saturating_sub(left).min(kernel);
            let end = (images.width + padding).saturating_sub(left).clamp(start, kernel);
            for (i, run) in square.chunks_exact_mut(kernel).enumerate() {
                let (channel, row) = (i / kernel, top + i % kernel);
                run.fill(0.0);
                if start < end && (padding..images.height + padding).contains(&row) {
                    let plane = (image * channels + channel) * pixels;
                    let from = plane + (row - padding) * images.width + left + start - padding;
                    run[start..end].copy_from_slice(&x[from..from + end - start]);
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pixel_of_a_square_is_that_of_the_image() {
        let images = Images { batch: 2, height: 7, width: 9 };
        let channels = 3;
        let x: Vec<f32> = (1..=images.len(channels)).map(|i| i as f32).collect();
        for (kernel, stride, padding) in [(1, 1, 0), (2, 2, 0), (3, 2, 1), (7, 4, 3), (5, 1, 4), (4, 3, 0)] {
            let slide = Slide { kernel, stride, padding };
            let out = slide.output(images);
            let mut y = vec![f32::NAN; out.len(channels * kernel * kernel)];
            cut(images, slide, channels, &x, &mut y);
            for (i, &y) in y.iter().enumerate() {
                let (column, row) = (i % kernel, i / kernel % kernel);
                let (channel, place) = (i / kernel / kernel % channels, i / (channels * kernel * kernel));
                let (image, v) = (place / out.pixels(), place % out.pixels() / out.width * stride + row);
                let u = place % out.width * stride + column;
                let inside = (padding..images.height + padding).contains(&v)
                    && (padding..images.width + padding).contains(&u);
                let want = if inside {
                    let line = (image * channels + channel) * images.height + v - padding;
                    x[line * images.width + u - padding]
                } else {
                    0.0
                };
                assert_eq!(y.to_bits(), f32::to_bits(want), "{slide:?}, element {i}");
            }
        }
    }
}
