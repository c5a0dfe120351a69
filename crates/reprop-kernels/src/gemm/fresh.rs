//! A right-hand operand that is packed panel by panel, each right before it is used: it passes through the first-level cache once,
//! and while a panel is used, what the next one is packed from is fetched.

use std::ops::Range;

use super::micro::{LINE, Start};
use super::{Init, Mat, Next, Target, k_block, multiply_panel, pack};
use crate::simd::{Simd, dispatch};

/// One block of `k`: rows of `a` against columns of `b`, steps `depth`; `panel` is room for one panel. `sums`, if wanted, get
/// the sums of the columns added.
///
/// # Safety
/// `a` must be readable at `m` rows and as many columns as there are steps, with the given strides, and `c` have `m` rows and as many
/// columns as `columns`.
#[inline(always)]
pub(super) unsafe fn multiply_fresh<S: Simd>(
    s: S,
    m: usize,
    a: *const f32,
    strides: (usize, usize, usize),
    (b, columns, depth): (Mat, Range<usize>, Range<usize>),
    panel: &mut [f32],
    c: Target<'_>,
    start: Start,
    mut sums: Option<&mut [f32]>,
) {
    let k = depth.len();
    for j in (0..columns.len()).step_by(S::NR) {
        let n = (columns.len() - j).min(S::NR);
        let first = columns.start + j;
        pack::columns(s, b, first..first + n, depth.clone(), panel);
        if let Some(sums) = sums.as_deref_mut() {
            add_panel_sums(s, &panel[..k * S::NR], &mut sums[j..j + n]);
        }
        let next = Next::of::<S>(b, first + S::NR, &depth);
        // SAFETY: the panel is packed for `n` columns and `k` steps; the rest is the caller's promise.
        unsafe {
            multiply_panel(s, (m, n, k), a, strides, (panel.as_ptr(), S::NR), c.at(j), start.at(j), next);
        }
    }
}

dispatch! {
    /// `C = A B` on one thread for some columns of `b`, plus what `C` holds or a bias row, as `init` says. `panel` is room for one
    /// panel of the longest block of `k`.
    pub(crate) fn multiply_columns(
        s: Isa, a: Mat, b: Mat, columns: Range<usize>, panel: &mut [f32], c: Target<'_>, init: Init<'_>,
    ) {
        let (m, k) = (a.rows, a.cols);
        assert_eq!((b.rows, c.rows, c.cols), (k, m, columns.len()), "shapes do not fit");
        let strides = (a.row_stride, a.col_stride, S::MR * a.row_stride);
        let mut start = init.start(c);
        let mut from = 0;
        loop {
            let count = k_block(k).min(k - from);
            let right = (b, columns.clone(), from..from + count);
            // SAFETY: `a` and `c` were checked when they were made, and their shapes above.
            unsafe {
                let a = a.data.as_ptr().wrapping_add(from * a.col_stride);
                multiply_fresh(s, m, a, strides, right, panel, c, start, None);
            }
            start = c.start();
            from += count;
            if from >= k {
                break;
            }
        }
    }
}

impl Next {
    /// The source of the panel that begins at `column`: a piece of each row, if rows lie in one piece. By the ends of lines, since
    /// rows need not begin with one; where they do not, the first line of a piece is the last one of the piece before.
    #[inline(always)]
    fn of<S: Simd>(b: Mat, column: usize, depth: &Range<usize>) -> Self {
        if b.col_stride != 1 {
            return Self::NOTHING;
        }
        let from = b.data.as_ptr().wrapping_add(depth.start * b.row_stride + column + LINE - 1);
        Self {
            from,
            lines: S::NR.div_ceil(LINE).next_power_of_two().min(4),
            step: b.row_stride,
            count: depth.len(),
        }
    }
}

/// Adds to `sums` the column sums of a panel.
#[inline(always)]
fn add_panel_sums<S: Simd>(s: S, panel: &[f32], sums: &mut [f32]) {
    for (v, sums) in sums.chunks_mut(S::LANES).enumerate() {
        let mut total = s.zero();
        for row in panel.chunks_exact(S::NR) {
            total = s.add(total, s.load(&row[v * S::LANES..]));
        }
        let old = s.load_part(sums, 0.0);
        s.store_part(sums, s.add(old, total));
    }
}
