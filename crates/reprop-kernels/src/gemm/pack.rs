//! Packing: operands copied into the order in which the register tile reads them.
//!
//! A panel of `B` holds `NR` columns: for each `k`, `NR` floats in a row, zeros beyond the last column. A panel of `A`
//! holds `MR` rows: for each `k`, `MR` floats, zeros beyond the last row.

use super::micro::LINE;
use super::{Mat, blocks};
use crate::simd::{SQUARE, Simd};

/// Rows of the source that are read side by side.
const ROWS: usize = 16;

/// Packs `wide` lines of `of`, from line `first`, depths `depth`, into panels of `width` lines.
///
/// A line is what the panel interleaves (a column of `B`, a row of `A`); `line` and `step` are the strides from line to
/// line and along a line. `ahead`: while lines that lie side by side are copied, the same pieces of the steps that come next are asked
/// for; each may lie on a page of its own, where nothing is fetched unasked.
#[inline(always)]
fn panels<S: Simd>(
    s: S,
    data: &[f32],
    line: usize,
    step: usize,
    lines: std::ops::Range<usize>,
    depth: std::ops::Range<usize>,
    width: usize,
    ahead: bool,
    out: &mut [f32],
) {
    let size = width * depth.len();
    if line == 1 {
        // Some rows of the source at a time: read in so many streams, written in pieces that lie together.
        for some in blocks(depth.len(), ROWS) {
            for (panel, first) in lines.clone().step_by(width).enumerate() {
                let count = width.min(lines.end - first);
                let from = &data[(depth.start + some.start) * step + first..];
                let to = &mut out[panel * size + some.start * width..];
                // The last row of a panel is followed by the next panel, which may hold its floats already.
                let last = some.end == depth.len();
                copy(s, from, step, (some.len(), last), to, (count, width), ahead);
            }
        }
        return;
    }
    for (panel, first) in out.chunks_exact_mut(size.max(1)).zip(lines.clone().step_by(width)) {
        let count = width.min(lines.end - first);
        if count < width {
            panel.fill(0.0);
        }
        // Lines that lie in one piece are turned in squares.
        let turned = if step == 1 { count / SQUARE * SQUARE } else { 0 };
        for i in (0..turned).step_by(SQUARE) {
            turn(s, &data[(first + i) * line + depth.start..], line, depth.len(), &mut panel[i..], width);
        }
        for i in turned..count {
            let source = &data[(first + i) * line + depth.start * step..];
            for (row, x) in panel.chunks_exact_mut(width).zip(source.iter().step_by(step)) {
                row[i] = *x;
            }
        }
    }
}

/// `rows` rows of `count` floats, `step` apart, to rows of `width` floats, zeros beyond `count`.
///
/// Whole rows go as whole vectors: what is too much is overwritten by the next row, or lies beyond the `last` one and is
/// not written.
#[inline(always)]
fn copy<S: Simd>(
    s: S,
    from: &[f32],
    step: usize,
    (rows, last): (usize, bool),
    to: &mut [f32],
    (count, width): (usize, usize),
    ahead: bool,
) {
    let wide = width.next_multiple_of(S::LANES);
    let mut done = 0;
    if count == width {
        let whole = if last && wide != width { rows - 1 } else { rows };
        let fits = |len: usize, step: usize| if len < wide { 0 } else { (len - wide) / step.max(1) + 1 };
        done = whole.min(fits(from.len(), step)).min(fits(to.len(), width));
        for row in 0..done {
            for v in (0..wide).step_by(S::LANES) {
                if ahead {
                    s.prefetch(from.as_ptr().wrapping_add((row + ROWS) * step + v));
                }
                // SAFETY: `wide` floats fit behind row `done - 1` of both, as counted above.
                unsafe {
                    let x = s.load_ptr(from.as_ptr().add(row * step + v));
                    s.store_ptr(to.as_mut_ptr().add(row * width + v), x);
                }
            }
        }
    }
    for row in done..rows {
        let to = &mut to[row * width..(row + 1) * width];
        to[..count].copy_from_slice(&from[row * step..row * step + count]);
        to[count..].fill(0.0);
    }
}

/// `SQUARE` lines, `line` apart and `len` long, into the first `SQUARE` of every `width` floats of `out`.
#[inline(always)]
fn turn<S: Simd>(s: S, data: &[f32], line: usize, len: usize, out: &mut [f32], width: usize) {
    let whole = len / SQUARE * SQUARE;
    if len == 0 {
        return;
    }
    assert!(data.len() >= (SQUARE - 1) * line + len && out.len() >= (len - 1) * width + SQUARE, "too short");
    for at in (0..whole).step_by(SQUARE) {
        // The lines that come next, so that they are there when these are turned.
        if at % LINE == 0 {
            for i in SQUARE..2 * SQUARE {
                s.prefetch(data.as_ptr().wrapping_add(i * line + at));
            }
        }
        // SAFETY: both squares lie inside, as asserted.
        unsafe { s.transpose(data.as_ptr().add(at), line, out.as_mut_ptr().add(at * width), width) };
    }
    for at in whole..len {
        for i in 0..SQUARE {
            out[at * width + i] = data[i * line + at];
        }
    }
}

/// Packs columns `columns` of `b`, rows `depth`.
#[inline(always)]
pub(crate) fn columns<S: Simd>(
    s: S,
    b: Mat,
    columns: std::ops::Range<usize>,
    depth: std::ops::Range<usize>,
    out: &mut [f32],
) {
    panels(s, b.data, b.col_stride, b.row_stride, columns, depth, S::NR, false, out);
}

/// Packs rows `rows` of `a`, columns `depth`.
#[inline(always)]
pub(crate) fn rows<S: Simd>(
    s: S,
    a: Mat,
    rows: std::ops::Range<usize>,
    depth: std::ops::Range<usize>,
    out: &mut [f32],
) {
    panels(s, a.data, a.row_stride, a.col_stride, rows, depth, S::MR, true, out);
}
