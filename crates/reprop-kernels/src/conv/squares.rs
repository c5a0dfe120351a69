//! The passes between images and transformed tiles of a convolution with stride 2, one image at a time.
//!
//! Neighbouring tiles share one row or column of pixels alone, so that images are read and written where they lie, without a
//! [frame](super::ring).

use super::Images;
use super::split::{Input, InputBack, Output, OutputBack, PIXELS, SUMS};
use super::tiles::{Layout, Tiling, Transformed};
use super::winograd::both_sides;
use crate::simd::dispatch;

/// One image against rows of transformed tiles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// The image's size; its `batch` does not count.
    pub images: Images,
    pub channels: usize,
    pub tiling: Tiling,
    /// The row of the first tile.
    pub at: usize,
    pub layout: Layout,
}

impl Span {
    #[inline(always)]
    fn check(&self, image: usize, matrices: usize, count: usize) {
        assert_eq!(image, self.images.pixels() * self.channels, "not an image");
        assert!(self.layout.count >= count && matrices >= self.layout.len(), "matrices too short");
        assert!(
            self.channels.next_multiple_of(crate::simd::MAX_LANES) <= self.layout.row,
            "rows of the matrices too short"
        );
        assert!(
            (self.at + self.tiling.count()) * self.layout.row <= self.layout.matrix,
            "more tiles than rows"
        );
    }

    /// Where the pixels of a tile lie in the image, or nothing where they are outside it: `N` rows and columns, `step` from one
    /// tile to the next, the first `border` of the first tile outside.
    #[inline(always)]
    fn pixels<const N: usize>(&self, tile: usize, step: usize, border: usize) -> [[Option<usize>; N]; N] {
        let (down, across) = (tile / self.tiling.across, tile % self.tiling.across);
        let mut pixels = [[None; N]; N];
        for (i, row) in pixels.iter_mut().enumerate() {
            let y = (step * down + i).wrapping_sub(border);
            for (j, pixel) in row.iter_mut().enumerate() {
                let x = (step * across + j).wrapping_sub(border);
                if y < self.images.height && x < self.images.width {
                    *pixel = Some((y * self.images.width + x) * self.channels);
                }
            }
        }
        pixels
    }
}

/// Defines a pass from an image to matrices (`gather`) or back (`scatter`), over vectors of channels.
macro_rules! pass {
    ($(#[$meta:meta])* gather $name:ident, $transform:ident, $n:expr, $step:expr, $border:expr, $m:expr) => {
        dispatch! {
            $(#[$meta])*
            pub(super) fn $name(s: Isa, image: &[f32], matrices: &mut Transformed<'_>, span: &Span) {
                span.check(image.len(), matrices.len, $m * $m);
                for tile in 0..span.tiling.count() {
                    let pixels = span.pixels::<{ $n }>(tile, $step, $border);
                    // Pixels outside stay zero.
                    let mut d = [[s.zero(); $n]; $n];
                    for c in (0..span.channels).step_by(S::LANES) {
                        for y in 0..$n {
                            for x in 0..$n {
                                let Some(at) = pixels[y][x] else { continue };
                                let pixel = &image[at + c..at + span.channels];
                                d[y][x] =
                                    if pixel.len() < S::LANES { s.load_part(pixel, 0.0) } else { s.load(pixel) };
                            }
                        }
                        let t = both_sides::<$transform, _, _, _>(s, d);
                        // SAFETY: the tile's row is in each of the matrices, and as wide as all vectors of channels, as checked.
                        unsafe {
                            let to = matrices.ptr.add((span.at + tile) * span.layout.row + c);
                            for y in 0..$m {
                                for x in 0..$m {
                                    s.store_ptr(to.add(($m * y + x) * span.layout.matrix), t[y][x]);
                                }
                            }
                        }
                    }
                }
            }
        }
    };
    ($(#[$meta:meta])* scatter $name:ident, $transform:ident, $n:expr, $step:expr, $border:expr, $m:expr) => {
        dispatch! {
            $(#[$meta])*
            pub(super) fn $name(s: Isa, matrices: &[f32], image: &mut [f32], span: &Span) {
                // What tiles share is above or to the left in the one that comes later.
                const SHARED: usize = $border;
                span.check(image.len(), matrices.len(), $m * $m);
                for tile in 0..span.tiling.count() {
                    let pixels = span.pixels::<{ $n }>(tile, $step, $border);
                    for c in (0..span.channels).step_by(S::LANES) {
                        let mut m = [[s.zero(); $m]; $m];
                        // SAFETY: as in the other direction.
                        unsafe {
                            let from = matrices.as_ptr().add((span.at + tile) * span.layout.row + c);
                            for y in 0..$m {
                                for x in 0..$m {
                                    m[y][x] = s.load_ptr(from.add(($m * y + x) * span.layout.matrix));
                                }
                            }
                        }
                        let t = both_sides::<$transform, _, _, _>(s, m);
                        for y in 0..$n {
                            for x in 0..$n {
                                let Some(at) = pixels[y][x] else { continue };
                                let pixel = &mut image[at + c..at + span.channels];
                                let add = y.min(x) < SHARED;
                                if pixel.len() < S::LANES {
                                    let before = if add { s.load_part(pixel, 0.0) } else { s.zero() };
                                    s.store_part(pixel, s.add(before, t[y][x]));
                                } else {
                                    s.store(pixel, if add { s.add(s.load(pixel), t[y][x]) } else { t[y][x] });
                                }
                            }
                        }
                    }
                }
            }
        }
    };
}

pass!(
    /// Transformed pixels of the tiles' 9x9.
    gather gather_input, Input, PIXELS, 8, 1, PIXELS
);
pass!(
    /// Gradients of sums of products from the tiles' 4x4 outputs.
    gather gather_output_gradient, OutputBack, 4, 4, 0, SUMS
);
pass!(
    /// The tiles' 4x4 outputs from sums of products.
    scatter scatter_output, Output, 4, 4, 0, SUMS
);
pass!(
    /// Gradients of the tiles' 9x9 pixels; added to the first row and column, which the tiles above and to the left have too.
    scatter scatter_input_gradient, InputBack, PIXELS, 8, 1, PIXELS
);
