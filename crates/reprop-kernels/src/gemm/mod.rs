//! Matrix products `C (+)= A B`, packed and blocked by shape alone.
//!
//! `k` is cut into equal blocks of at most `K_BLOCK`; within a block each element of `C` is one chain of multiply-adds,
//! and blocks are added in order. `m` and `n` are cut into tasks and tiles, which changes no bit (see `micro`). So the
//! result is the same at any number of threads, and does not depend on where a row stands in its batch.

mod fresh;
mod mat;
pub(crate) mod micro;
mod pack;
mod packed;
mod product;

pub(crate) use fresh::multiply_columns;
use fresh::multiply_fresh;
pub use mat::Mat;
pub use packed::{PackedMatrix, PackedWeight, Weight};
pub(crate) use packed::{pack_all, packed_len};
pub use product::{Product, gemm};
pub(crate) use product::{add_up, run_all};

use std::marker::PhantomData;
use std::ops::Range;

use self::micro::{Ahead, DEEP, GROUP, LINE, Start, TileArgs};
use crate::share::Shared;
use crate::simd::{Isa, Simd, dispatch};

/// The longest chain of multiply-adds: a panel of `B` this deep stays in the first-level cache while rows of `A` pass it.
pub(crate) const K_BLOCK: usize = 384;

/// The block length of a product over `k`: equal blocks, none longer than [`K_BLOCK`].
pub(crate) fn k_block(k: usize) -> usize {
    let count = k.div_ceil(K_BLOCK).max(1);
    k.div_ceil(count).next_multiple_of(8)
}

/// The ranges of at most `size` that cover `0..len`.
pub(crate) fn blocks(len: usize, size: usize) -> impl Iterator<Item = Range<usize>> {
    (0..len).step_by(size.max(1)).map(move |start| start..(start + size).min(len))
}

/// A part of `C` that one task writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    ptr: *mut f32,
    rows: usize,
    cols: usize,
    row_stride: usize,
    owner: PhantomData<&'a mut [f32]>,
}

impl<'a> Target<'a> {
    /// The first `cols` floats of each of `rows` rows in a slice.
    pub(crate) fn new(c: &'a mut [f32], rows: usize, cols: usize, row_stride: usize) -> Self {
        let shared = Shared::new(c);
        // SAFETY: the slice is borrowed for as long as the target lives.
        unsafe { Self::part(&shared, 0, rows, cols, row_stride) }
    }

    /// A rectangle of a slice that other tasks write too.
    ///
    /// # Safety
    /// No other part that overlaps the rectangle may be in use while the target is.
    pub(crate) unsafe fn part(
        c: &Shared<'a>,
        at: usize,
        rows: usize,
        cols: usize,
        row_stride: usize,
    ) -> Self {
        if rows > 0 {
            let _in_bounds = c.at(at + (rows - 1) * row_stride + cols);
        }
        assert!(rows <= 1 || cols <= row_stride, "rows overlap");
        Self { ptr: c.at(at), rows, cols, row_stride, owner: PhantomData }
    }

    /// From column `j` on.
    fn at(self, j: usize) -> Self {
        Self { ptr: self.ptr.wrapping_add(j), cols: self.cols - j, ..self }
    }

    /// What it holds, for tiles to add to.
    fn start(self) -> Start {
        Start { base: self.ptr, base_row: self.row_stride, ..Start::ZERO }
    }
}

/// One block of `k`: rows of `a` against the panels in `b`.
///
/// # Safety
/// `a` must be readable at `m x k` positions with the given strides, `b` at `k` rows of `n` floats rounded up
/// to whole panels, `c` be at least `m x n`
/// and a bias hold `n` floats.
#[inline(always)]
unsafe fn multiply_block<S: Simd>(
    s: S,
    (m, n, k): (usize, usize, usize),
    a: *const f32,
    strides: (usize, usize, usize),
    (b, b_row, b_col): (*const f32, usize, usize),
    c: Target<'_>,
    start: Start,
) {
    // While a panel of `B` is used, the next is fetched, each tile its share; only packed panels lie in one piece.
    let panel_len = k * S::NR;
    let groups = (m.div_ceil(S::MR) * (k / GROUP)).max(1);
    let share = panel_len.div_ceil(LINE).div_ceil(groups).next_power_of_two().min(4);
    for j in (0..n).step_by(S::NR) {
        let panel = b.wrapping_add(j * b_col);
        let next = if b_row == S::NR {
            let count = panel_len.div_ceil(share * LINE);
            Next { from: panel.wrapping_add(panel_len), lines: share, step: share * LINE, count }
        } else {
            Next::NOTHING
        };
        // SAFETY: columns `j..j + NR`, cut at `n`, are part of the caller's promise.
        unsafe {
            multiply_panel(
                s,
                (m, (n - j).min(S::NR), k),
                a,
                strides,
                (panel, b_row),
                c.at(j),
                start.at(j),
                next,
            );
        };
    }
}

/// What is fetched while a panel is used: `count` times some cache lines, the first ones at `from`, `step` floats apart.
#[derive(Clone, Copy, Debug)]
struct Next {
    from: *const f32,
    lines: usize,
    step: usize,
    count: usize,
}

impl Next {
    const NOTHING: Self = Self { from: std::ptr::null(), lines: 0, step: 0, count: 0 };
}

/// Rows of `a` against one panel.
///
/// # Safety
/// As [`multiply_block`], with `n` at most a panel's columns.
#[inline(always)]
unsafe fn multiply_panel<S: Simd>(
    s: S,
    (m, n, k): (usize, usize, usize),
    a: *const f32,
    (a_row, a_col, a_panel): (usize, usize, usize),
    (b, b_row): (*const f32, usize),
    c: Target<'_>,
    start: Start,
    next: Next,
) {
    let groups = if k >= DEEP { k / GROUP } else { 0 };
    for (tile, i) in (0..m).step_by(S::MR).enumerate() {
        let done = tile * groups;
        let lines = if done < next.count { next.lines } else { 0 };
        let ahead = Ahead { from: next.from.wrapping_add(done * next.step), lines, step: next.step };
        // SAFETY: rows `i..i + MR`, cut at `m`, are part of the caller's promise.
        unsafe {
            s.tile(TileArgs {
                m: (m - i).min(S::MR),
                n,
                k,
                a: a.add(tile * a_panel),
                a_row,
                a_col,
                b,
                b_row,
                c: c.ptr.add(i * c.row_stride),
                c_row: c.row_stride,
                start: start.below(i),
                ahead,
            });
        }
    }
}

dispatch! {
    /// `C = A B` on one thread, plus what `C` holds or a bias row, as `init` says.
    pub(crate) fn multiply(s: Isa, a: Mat, b: Right<'_>, c: Target<'_>, init: Init<'_>) {
        let (m, n, k) = (a.rows, c.cols, a.cols);
        let wide = n.next_multiple_of(S::NR);
        assert_eq!(c.rows, m, "rows of A and C differ");
        match b {
            Right::Packed(b) => assert!(b.len() >= k * wide, "packed operand too short"),
            Right::Rows(b, stride) => {
                assert!(k == 0 || b.len() >= (k - 1) * stride + wide, "right operand too short");
            }
        }
        let strides = (a.row_stride, a.col_stride, S::MR * a.row_stride);
        let mut start = init.start(c);
        let mut from = 0;
        loop {
            let count = k_block(k).min(k - from);
            let a = a.data.as_ptr().wrapping_add(from * a.col_stride);
            // SAFETY: `a` and `c` were checked when they were made, `b` and the bias above.
            unsafe {
                let b = match b {
                    Right::Packed(b) => (b.as_ptr().add(from * wide), S::NR, count),
                    Right::Rows(b, stride) => (b.as_ptr().add(from * stride), stride, 1),
                };
                multiply_block(s, (m, n, count), a, strides, b, c, start);
            }
            start = c.start();
            from += count;
            if from >= k {
                break;
            }
        }
    }
}

dispatch! {
    /// The same for operands that both lie by steps of `k`, each a row far from the next one, as those of a weight's gradient do: they are
    /// packed into `room` of [`packing_room`] floats first. It pays where results are many times as wide as what is packed at a time.
    pub(crate) fn multiply_packing(s: Isa, a: Mat, b: Mat, room: &mut [f32], c: Target<'_>, init: Init<'_>) {
        let (m, n, k) = (a.rows, c.cols, a.cols);
        assert_eq!((c.rows, b.rows, b.cols), (m, k, n), "shapes do not fit");
        let longest = k_block(k).min(k);
        let (left, panel) = room.split_at_mut(m.next_multiple_of(S::MR) * longest);
        let mut start = init.start(c);
        let mut from = 0;
        loop {
            let depth = from..(from + longest).min(k);
            pack::rows(s, a, 0..m, depth.clone(), left);
            from = depth.end;
            let strides = (1, S::MR, S::MR * depth.len());
            // SAFETY: the left operand is packed for `m` rows and all steps in `depth`; `c` was checked when it was made.
            unsafe { multiply_fresh(s, m, left.as_ptr(), strides, (b, 0..n, depth), panel, c, start, None) };
            start = c.start();
            if from >= k {
                break;
            }
        }
    }
}

/// Floats that [`multiply_packing`] needs for `m` rows and `k` steps.
pub(crate) fn packing_room(isa: Isa, m: usize, k: usize) -> usize {
    (m.next_multiple_of(isa.tile_rows()) + isa.panel_width()) * k_block(k).min(k)
}

/// The right-hand operand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Right<'a> {
    /// Packed in full, as [`pack_all`] does.
    Packed(&'a [f32]),
    /// Rows a given distance apart, readable up to whole panels.
    Rows(&'a [f32], usize),
}

/// What a product is added to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Init<'a> {
    /// Nothing.
    Zero,
    /// What `C` holds.
    Add,
    /// The same row for every row of `C`.
    Bias(&'a [f32]),
}

impl<'a> Init<'a> {
    /// For the tiles of `c`.
    #[inline(always)]
    fn start(self, c: Target<'_>) -> Start {
        match self {
            Init::Zero => Start::ZERO,
            Init::Add => c.start(),
            Init::Bias(bias) => {
                assert_eq!(bias.len(), c.cols, "one bias for each column");
                Start { base: bias.as_ptr(), ..Start::ZERO }
            }
        }
    }

    /// For some of the columns.
    pub(crate) fn columns(self, columns: Range<usize>) -> Init<'a> {
        match self {
            Init::Bias(bias) => Init::Bias(&bias[columns]),
            other => other,
        }
    }
}
