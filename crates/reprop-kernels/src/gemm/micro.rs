//! The register tile: `C[m x n] (+)= A[m x k] B[k x n]` for one tile of at most `MR x NR`.
//!
//! `B` comes as `NR` floats for each `k`, `b_row` apart (`NR` if it is packed; columns beyond `n` are not used). `A` may lie anywhere with any strides: its
//! elements are broadcast one by one, so only the distance between cache lines matters, not their packing.
//!
//! Each element of `C` is one chain of (fused) multiply-adds in the order of `k`. It does not depend on the tile that
//! holds it, so every way of cutting `C` into tiles and tasks gives the same bits.

use std::array::from_fn;

use crate::simd::Simd;

/// What the tile adds its product to, and how it is stored.
///
/// Not an enum: a null pointer is defined in every case, so that memory checkers can follow it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    /// `n` floats for each row of the tile, or null if there is nothing to add to.
    pub base: *const f32,
    /// Floats from row to row of them: none if all rows have the same.
    pub base_row: usize,
    /// Whether whole tiles are stored past the caches: rows of `C` must begin at multiples of a vector.
    pub past: bool,
}

impl Start {
    pub(crate) const ZERO: Self = Self { base: std::ptr::null(), base_row: 0, past: false };

    /// From column `j` on.
    #[inline(always)]
    pub(crate) fn at(self, j: usize) -> Self {
        self.moved(j)
    }

    /// From row `i` on.
    #[inline(always)]
    pub(crate) fn below(self, i: usize) -> Self {
        self.moved(i * self.base_row)
    }

    #[inline(always)]
    fn moved(self, floats: usize) -> Self {
        if self.base.is_null() { self } else { Self { base: self.base.wrapping_add(floats), ..self } }
    }
}

/// Operands of one tile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TileArgs {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub a: *const f32,
    pub a_row: usize,
    pub a_col: usize,
    pub b: *const f32,
    pub b_row: usize,
    pub c: *mut f32,
    pub c_row: usize,
    pub start: Start,
    pub ahead: Ahead,
}

/// What the tile asks the cache for while it multiplies: a share of the panel of `B` that comes next.
///
/// A hint that changes no bit; `from` is never read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    /// Where the share begins.
    pub from: *const f32,
    /// Cache lines to ask for in each group of [`GROUP`] steps: none, 1, 2 or 4.
    pub lines: usize,
    /// Floats from those of one group to those of the next.
    pub step: usize,
}

/// Steps of `k` between two requests for lines ahead; their loop is unrolled. With 8 the compiler hoists so many loads that
/// sums are spilled.
pub(crate) const GROUP: usize = 4;

/// Steps of `k` from which on unrolling and requests to the cache pay.
pub(crate) const DEEP: usize = 48;

/// Floats of a cache line.
pub(crate) const LINE: usize = 16;

/// The tile's size on an instruction set.
pub(crate) trait Tile: Sized {
    const MR: usize;
    const NR: usize;

    /// # Safety
    /// `1 <= m <= MR`, `1 <= n <= NR`; `A` must be readable at its `m x k` positions, `B` at `NR` floats of each of its `k` rows, what is
    /// added to at `m x n`, `C` writable at its `m x n` positions and used by nobody else meanwhile.
    unsafe fn tile(self, args: TileArgs);
}

/// The tile as `MR` rows of `NV` vectors.
///
/// # Safety
/// As [`Tile::tile`].
#[inline(always)]
pub(crate) unsafe fn tile<S: Simd, const MR: usize, const NV: usize>(s: S, t: TileArgs) {
    // The strides that most products have are constants, so that unrolling costs no registers for addresses. Each way stores its own
    // sums: where ways meet, sums go through memory.
    // SAFETY: the caller's promise.
    unsafe {
        let packed = t.k >= DEEP && t.b_row == S::NR;
        if packed && t.a_col == 1 {
            store(s, unrolled::<S, MR, NV>(s, TileArgs { a_col: 1, b_row: S::NR, ..t }), t);
        } else if packed && (t.a_row, t.a_col) == (1, S::MR) {
            store(s, unrolled::<S, MR, NV>(s, TileArgs { a_row: 1, a_col: S::MR, b_row: S::NR, ..t }), t);
        } else {
            if t.k >= DEEP {
                (0..t.m).for_each(|row| fetch_row::<S, NV>(s, t, row));
            }
            store(s, plain::<S, MR, NV>(s, t), t);
        }
    }
}

/// Stores the sums of a tile.
///
/// # Safety
/// As [`Tile::tile`].
#[inline(always)]
unsafe fn store<S: Simd, const MR: usize, const NV: usize>(s: S, sums: [[S::V; NV]; MR], t: TileArgs) {
    if t.m == MR && t.n == NV * S::LANES {
        // SAFETY: a whole tile is a tile.
        unsafe { store_whole(s, sums, t) };
    } else {
        // SAFETY: the caller's promise.
        unsafe { store_part(s, sums, t) };
    }
}

/// Asks for what a row of sums is to be stored to, or, if that goes past the caches, added to: by the ends of lines, since rows need
/// not begin with one, and the line in which this row begins was asked for with the columns before.
#[inline(always)]
fn fetch_row<S: Simd, const NV: usize>(s: S, t: TileArgs, row: usize) {
    let row = if t.start.past {
        t.start.base.wrapping_add(row * t.start.base_row)
    } else {
        t.c.wrapping_add(row * t.c_row).cast_const()
    };
    for line in 0..(NV * S::LANES).div_ceil(LINE) {
        s.prefetch(row.wrapping_add((line + 1) * LINE - 1));
    }
}

/// One step of `k`: a macro and not a function, since sums that have an address leave their registers.
macro_rules! step {
    ($s:ident, $t:ident, $a:ident, $b:ident, $rows:ident, $sums:ident, $NV:ident) => {{
        let mut columns = [$s.zero(); $NV];
        for (j, column) in columns.iter_mut().enumerate() {
            // SAFETY: `B` holds `NR` floats for each `k`.
            *column = unsafe { $s.load_ptr($b.add(j * S::LANES)) };
        }
        for (i, sum) in $sums.iter_mut().enumerate() {
            // SAFETY: `rows[i]` is a row of `A`, and `a` stands at column `k`.
            let x = $s.splat(unsafe { *$a.add($rows[i]) });
            for (column, sum) in columns.iter().zip(sum) {
                *sum = $s.fma(x, *column, *sum);
            }
        }
        // Wrapping: after the last `k` both may point past their memory; they are not read there.
        $a = $a.wrapping_add($t.a_col);
        $b = $b.wrapping_add($t.b_row);
    }};
}

/// The products' sums, step by step.
///
/// # Safety
/// As [`Tile::tile`].
#[inline(always)]
unsafe fn plain<S: Simd, const MR: usize, const NV: usize>(s: S, t: TileArgs) -> [[S::V; NV]; MR] {
    let mut sums = [[s.zero(); NV]; MR];
    // Rows past the end read the last row again; their sums are not stored.
    let rows: [usize; MR] = from_fn(|i| i.min(t.m - 1) * t.a_row);
    let (mut a, mut b) = (t.a, t.b);
    for _ in 0..t.k {
        step!(s, t, a, b, rows, sums, NV);
    }
    sums
}

/// The same sums, by [`GROUP`] steps at a time, with requests for the panel that comes next.
///
/// # Safety
/// As [`Tile::tile`].
#[inline(always)]
unsafe fn unrolled<S: Simd, const MR: usize, const NV: usize>(s: S, t: TileArgs) -> [[S::V; NV]; MR] {
    let mut sums = [[s.zero(); NV]; MR];
    let rows: [usize; MR] = from_fn(|i| i.min(t.m - 1) * t.a_row);
    let (mut a, mut b, mut ahead) = (t.a, t.b, t.ahead.from);
    // Rows of `C` are asked for hundreds of cycles before they are stored to, but not much earlier: operands that pass through the
    // first-level cache would push them out again.
    let groups = t.k / GROUP;
    let first = groups.saturating_sub(2 * MR);
    let last = if t.start.past && t.start.base.is_null() { first } else { first + t.m };
    for group in 0..groups {
        if group >= first && group < last {
            fetch_row::<S, NV>(s, t, group - first);
        }
        if t.ahead.lines > 0 {
            s.prefetch_far(ahead);
            if t.ahead.lines > 1 {
                s.prefetch_far(ahead.wrapping_add(LINE));
                if t.ahead.lines > 2 {
                    s.prefetch_far(ahead.wrapping_add(2 * LINE));
                    s.prefetch_far(ahead.wrapping_add(3 * LINE));
                }
            }
            ahead = ahead.wrapping_add(t.ahead.step);
        }
        for _ in 0..GROUP {
            step!(s, t, a, b, rows, sums, NV);
        }
    }
    for _ in 0..t.k % GROUP {
        step!(s, t, a, b, rows, sums, NV);
    }
    sums
}

/// Stores a tile that nothing is cut from.
///
/// # Safety
/// As [`Tile::tile`], with `m = MR` and `n = NR`.
#[inline(always)]
unsafe fn store_whole<S: Simd, const MR: usize, const NV: usize>(s: S, sums: [[S::V; NV]; MR], t: TileArgs) {
    // SAFETY: the caller's promise.
    unsafe {
        match (t.start.base.is_null(), t.start.past) {
            (true, false) => store_as::<S, MR, NV, false, false>(s, sums, t),
            (false, false) => store_as::<S, MR, NV, true, false>(s, sums, t),
            (true, true) => store_as::<S, MR, NV, false, true>(s, sums, t),
            (false, true) => store_as::<S, MR, NV, true, true>(s, sums, t),
        }
    }
}

/// The same for one way to begin and one to store. The ways are constants: where a loop asks, it is not unrolled, and sums go through
/// memory.
///
/// # Safety
/// As [`store_whole`].
#[inline(always)]
unsafe fn store_as<S: Simd, const MR: usize, const NV: usize, const ADD: bool, const PAST: bool>(
    s: S,
    sums: [[S::V; NV]; MR],
    t: TileArgs,
) {
    for (i, sum) in sums.iter().enumerate() {
        for (j, sum) in sum.iter().enumerate() {
            let done = j * S::LANES;
            // SAFETY: row `i` of `C` holds `NR` floats, and so does that of the base; past the caches, rows begin at multiples of
            // vectors.
            unsafe {
                let base = t.start.base.wrapping_add(i * t.start.base_row + done);
                let sum = if ADD { s.add(s.load_ptr(base), *sum) } else { *sum };
                let c = t.c.add(i * t.c_row + done);
                if PAST {
                    s.stream_ptr(c, sum);
                } else {
                    s.store_ptr(c, sum);
                }
            }
        }
    }
}

/// Stores a tile at the edge of `C`.
///
/// # Safety
/// As [`Tile::tile`].
#[inline(always)]
unsafe fn store_part<S: Simd, const MR: usize, const NV: usize>(s: S, sums: [[S::V; NV]; MR], t: TileArgs) {
    let any = !t.start.base.is_null();
    // Every index is a constant, here as elsewhere: an array that is indexed by a variable lies in memory.
    for (i, sum) in sums.iter().enumerate() {
        for (j, sum) in sum.iter().enumerate() {
            let done = j * S::LANES;
            if i >= t.m || done >= t.n {
                continue;
            }
            let width = (t.n - done).min(S::LANES);
            // SAFETY: row `i` of `C` holds `n > done` floats.
            let c = unsafe { t.c.add(i * t.c_row + done) };
            let base = t.start.base.wrapping_add(i * t.start.base_row + done);
            if width == S::LANES {
                // SAFETY: `LANES` floats of the row remain, in `C` as in the base.
                unsafe { s.store_ptr(c, if any { s.add(s.load_ptr(base), *sum) } else { *sum }) };
            } else {
                // Without anything to add to, the sum itself: adding zero would turn -0 into +0 here alone.
                let mut sum = *sum;
                if any {
                    // SAFETY: `width` floats of the row remain, in `C` as in the base.
                    let old = unsafe { std::slice::from_raw_parts(base, width) };
                    sum = s.add(s.load_part(old, 0.0), sum);
                }
                // SAFETY: `width` floats of the row remain, and they are ours alone.
                s.store_part(unsafe { std::slice::from_raw_parts_mut(c, width) }, sum);
            }
        }
    }
}
