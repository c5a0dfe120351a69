//! Images cut into 4x4 tiles, and the passes between images and transformed tiles.
//!
//! A *frame* holds an image with a border of zeros and whole tiles: rows of `4 across + 2` pixels of `depth` channels
//! (whole vectors of every instruction set). Transforms then need no case for edges. Transformed tiles lie as 36 matrices
//! of tiles x channels.

use std::marker::PhantomData;
use std::ops::Range;

use super::Images;
use super::winograd::{Input, InputBack, Output, OutputBack, both_sides};
use crate::share::Shared;
use crate::simd::{Isa, MAX_LANES, dispatch};

/// Geometry of one image's tiles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tiling {
    pub down: usize,
    pub across: usize,
}

impl Tiling {
    pub(crate) fn new(images: Images) -> Self {
        Self { down: images.height.div_ceil(4), across: images.width.div_ceil(4) }
    }

    pub(crate) fn count(self) -> usize {
        self.down * self.across
    }

    /// Pixels of a frame's row.
    pub(crate) fn frame_width(self) -> usize {
        4 * self.across + 2
    }

    /// Floats of a frame.
    pub(crate) fn frame_len(self, depth: usize) -> usize {
        (4 * self.down + 2) * self.frame_width() * depth
    }
}

/// Channels of a frame's pixel.
pub(crate) fn frame_depth(channels: usize) -> usize {
    channels.next_multiple_of(MAX_LANES)
}

/// How 36 matrices of tiles x channels lie in a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Distance between tiles: whole panels, and not a power of two, so that tiles spread over a cache's sets.
    pub row: usize,
    /// Distance between matrices, likewise.
    pub matrix: usize,
}

impl Layout {
    pub(crate) fn new(isa: Isa, tiles: usize, channels: usize) -> Self {
        let row = channels.next_multiple_of(isa.panel_width().max(MAX_LANES));
        let row = if row >= 128 { row + 16 } else { row };
        // The last row is read up to a whole panel.
        Self { row, matrix: (tiles * row + isa.panel_width()).next_multiple_of(16) + 16 }
    }

    pub(crate) fn len(self) -> usize {
        36 * self.matrix
    }
}

/// Memory of 36 matrices that transformed tiles are written to.
pub(crate) struct Transformed<'a> {
    ptr: *mut f32,
    len: usize,
    owner: PhantomData<&'a mut [f32]>,
}

impl<'a> Transformed<'a> {
    /// All rows of all matrices.
    pub(crate) fn whole(matrices: &'a mut [f32]) -> Self {
        let shared = Shared::new(matrices);
        // SAFETY: the slice is borrowed for as long as this lives.
        unsafe { Self::part(&shared) }
    }

    /// Some rows, which others do not write.
    ///
    /// # Safety
    /// No one else may use rows that are written through this while it lives.
    pub(crate) unsafe fn part(matrices: &Shared<'a>) -> Self {
        Self { ptr: matrices.at(0), len: matrices.len(), owner: PhantomData }
    }
}

/// Tiles `tiles` of one image against rows `at..` of the matrices.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub tiling: Tiling,
    pub depth: usize,
    pub tiles: Range<usize>,
    pub at: usize,
    pub layout: Layout,
}

impl Span {
    /// The first float of tile `i`'s 6x6 pixels in a frame, or of its 4x4 pixels inside the border.
    #[inline(always)]
    fn corner(&self, tile: usize, inside: usize) -> usize {
        let (y, x) = (tile / self.tiling.across, tile % self.tiling.across);
        ((4 * y + inside) * self.tiling.frame_width() + 4 * x + inside) * self.depth
    }

    #[inline(always)]
    fn check(&self, frame: usize, matrices: usize) {
        assert!(
            self.tiles.end <= self.tiling.count() && self.depth.is_multiple_of(MAX_LANES),
            "tiles outside a frame"
        );
        assert!(frame >= self.tiling.frame_len(self.depth), "frame too short");
        assert!(self.depth <= self.layout.row, "rows of the matrices too short");
        assert!(matrices >= self.layout.len(), "matrices too short");
        assert!((self.at + self.tiles.len()) * self.layout.row <= self.layout.matrix, "more tiles than rows");
    }
}

/// Defines a pass from frame to matrices (`gather`) or back (`scatter`), over whole vectors of channels.
macro_rules! pass {
    ($(#[$meta:meta])* gather $name:ident, $transform:ident, $inside:literal, $n:literal) => {
        dispatch! {
            $(#[$meta])*
            pub(crate) fn $name(s: Isa, frame: &[f32], matrices: &mut Transformed<'_>, span: &Span) {
                span.check(frame.len(), matrices.len);
                let row = span.tiling.frame_width() * span.depth;
                for (i, tile) in span.tiles.clone().enumerate() {
                    for c in (0..span.depth).step_by(S::LANES) {
                        let mut d = [[s.zero(); $n]; $n];
                        // SAFETY: the tile's pixels are in the frame and its row in the matrices, as checked; `c` and the
                        // lanes after it are below `depth`.
                        unsafe {
                            let from = frame.as_ptr().add(span.corner(tile, $inside) + c);
                            for y in 0..$n {
                                for x in 0..$n {
                                    d[y][x] = s.load_ptr(from.add(y * row + x * span.depth));
                                }
                            }
                            let t = both_sides::<$transform, _, _, _>(s, d);
                            let to = matrices.ptr.add((span.at + i) * span.layout.row + c);
                            for y in 0..6 {
                                for x in 0..6 {
                                    s.store_ptr(to.add((6 * y + x) * span.layout.matrix), t[y][x]);
                                }
                            }
                        }
                    }
                }
            }
        }
    };
    ($(#[$meta:meta])* scatter $name:ident, $transform:ident, $inside:literal, $n:literal, $add:literal) => {
        dispatch! {
            $(#[$meta])*
            pub(crate) fn $name(s: Isa, matrices: &[f32], frame: &mut [f32], span: &Span) {
                span.check(frame.len(), matrices.len());
                let row = span.tiling.frame_width() * span.depth;
                for (i, tile) in span.tiles.clone().enumerate() {
                    for c in (0..span.depth).step_by(S::LANES) {
                        let mut m = [[s.zero(); 6]; 6];
                        // SAFETY: as in the other direction.
                        unsafe {
                            let from = matrices.as_ptr().add((span.at + i) * span.layout.row + c);
                            for y in 0..6 {
                                for x in 0..6 {
                                    m[y][x] = s.load_ptr(from.add((6 * y + x) * span.layout.matrix));
                                }
                            }
                            let t = both_sides::<$transform, _, _, _>(s, m);
                            let to = frame.as_mut_ptr().add(span.corner(tile, $inside) + c);
                            for y in 0..$n {
                                for x in 0..$n {
                                    let to = to.add(y * row + x * span.depth);
                                    let old = if $add { s.load_ptr(to) } else { s.zero() };
                                    s.store_ptr(to, if $add { s.add(old, t[y][x]) } else { t[y][x] });
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
    /// `V = Bᵀ d B` of the tiles' 6x6 pixels.
    gather gather_input, Input, 0, 6
);
pass!(
    /// `dM = A dY Aᵀ` of the tiles' 4x4 pixels.
    gather gather_output_gradient, OutputBack, 1, 4
);
pass!(
    /// `Y = Aᵀ M A` into the tiles' 4x4 pixels.
    scatter scatter_output, Output, 1, 4, false
);
pass!(
    /// `B dV Bᵀ` added to the tiles' 6x6 pixels, which overlap those of their neighbours.
    scatter scatter_input_gradient, InputBack, 0, 6, true
);
