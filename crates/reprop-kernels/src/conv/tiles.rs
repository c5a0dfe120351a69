//! Images cut into 4x4 tiles, and the passes between images and transformed tiles.
//!
//! Images come and go as strips of their [frames](super::ring): a strip is one row of tiles. Transformed tiles lie as 36
//! matrices of tiles x channels.

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
}

/// Channels of a frame's pixel.
pub(crate) fn frame_depth(channels: usize) -> usize {
    channels.next_multiple_of(MAX_LANES)
}

/// How matrices of tiles x channels lie in a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Distance between tiles: whole panels, and not a power of two, so that tiles spread over a cache's sets.
    pub row: usize,
    /// Distance between matrices, likewise.
    pub matrix: usize,
    /// How many there are.
    pub count: usize,
}

impl Layout {
    /// The 36 of F(4x4, 3x3).
    pub(crate) fn new(isa: Isa, tiles: usize, channels: usize) -> Self {
        Self::of(36, isa, tiles, channels)
    }

    pub(crate) fn of(count: usize, isa: Isa, tiles: usize, channels: usize) -> Self {
        let row = channels.next_multiple_of(isa.panel_width().max(MAX_LANES));
        let row = if row >= 128 { row + 16 } else { row };
        // The last row is read up to a whole panel.
        Self { row, matrix: (tiles * row + isa.panel_width()).next_multiple_of(16) + 16, count }
    }

    pub(crate) fn len(self) -> usize {
        self.count * self.matrix
    }
}

/// Memory of matrices that transformed tiles are written to.
pub(crate) struct Transformed<'a> {
    pub(super) ptr: *mut f32,
    pub(super) len: usize,
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

/// Tiles `tiles` of a strip against rows `at..` of the matrices.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub tiling: Tiling,
    pub depth: usize,
    /// Where the strip's six rows begin.
    pub rows: [usize; 6],
    pub tiles: Range<usize>,
    pub at: usize,
    pub layout: Layout,
}

impl Span {
    #[inline(always)]
    fn check(&self, strip: usize, matrices: usize) {
        let row = self.tiling.frame_width() * self.depth;
        assert!(
            self.tiles.end <= self.tiling.across && self.depth.is_multiple_of(MAX_LANES),
            "tiles outside a strip"
        );
        assert!(self.rows.iter().all(|start| start + row <= strip), "rows outside a strip");
        assert!(self.depth <= self.layout.row, "rows of the matrices too short");
        assert!(matrices >= self.layout.len(), "matrices too short");
        assert!((self.at + self.tiles.len()) * self.layout.row <= self.layout.matrix, "more tiles than rows");
    }
}

/// A pass from strip to matrices.
pub(crate) type Gather = fn(Isa, &[f32], &mut Transformed<'_>, &Span);

/// Defines a pass from strip to matrices (`gather`) or back (`scatter`), over whole vectors of channels.
macro_rules! pass {
    ($(#[$meta:meta])* gather $name:ident, $transform:ident, $inside:literal, $n:literal) => {
        dispatch! {
            $(#[$meta])*
            pub(crate) fn $name(s: Isa, strip: &[f32], matrices: &mut Transformed<'_>, span: &Span) {
                span.check(strip.len(), matrices.len);
                for (i, tile) in span.tiles.clone().enumerate() {
                    for c in (0..span.depth).step_by(S::LANES) {
                        let mut d = [[s.zero(); $n]; $n];
                        // SAFETY: the tile's pixels are in the strip and its row in the matrices, as checked; `c` and the
                        // lanes after it are below `depth`.
                        unsafe {
                            let from = strip.as_ptr().add((4 * tile + $inside) * span.depth + c);
                            for y in 0..$n {
                                let from = from.add(span.rows[y + $inside]);
                                for x in 0..$n {
                                    d[y][x] = s.load_ptr(from.add(x * span.depth));
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
    ($(#[$meta:meta])* scatter $name:ident, $transform:ident, $inside:literal, $n:literal, $shared:literal) => {
        dispatch! {
            $(#[$meta])*
            pub(crate) fn $name(s: Isa, matrices: &[f32], strip: &mut [f32], span: &Span) {
                const SHARED: usize = $shared;
                span.check(strip.len(), matrices.len());
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
                            let to = strip.as_mut_ptr().add((4 * tile + $inside) * span.depth + c);
                            for y in 0..$n {
                                let to = to.add(span.rows[y + $inside]);
                                for x in 0..$n {
                                    let (to, t) = (to.add(x * span.depth), t[y][x]);
                                    let add = y.min(x) < SHARED;
                                    s.store_ptr(to, if add { s.add(s.load_ptr(to), t) } else { t });
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
    scatter scatter_output, Output, 1, 4, 0
);
pass!(
    /// `B dV Bᵀ` into the tiles' 6x6 pixels; added to the first two rows and columns, which the tiles above and to the left
    /// have too.
    scatter scatter_input_gradient, InputBack, 0, 6, 2
);
