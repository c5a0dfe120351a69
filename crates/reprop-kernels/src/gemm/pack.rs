//! Packing: operands copied into the order in which the register tile reads them.
//!
//! A panel of `B` holds `NR` columns: for each `k`, `NR` floats in a row, zeros beyond the last column. A panel of `A`
//! holds `MR` rows: for each `k`, `MR` floats, zeros beyond the last row.

use super::Mat;
use crate::simd::Simd;

/// Packs `wide` lines of `of`, from line `first`, depths `depth`, into panels of `width` lines.
///
/// A line is what the panel interleaves (a column of `B`, a row of `A`); `line` and `step` are the strides from line to
/// line and along a line.
#[inline(always)]
fn panels(
    data: &[f32],
    line: usize,
    step: usize,
    lines: std::ops::Range<usize>,
    depth: std::ops::Range<usize>,
    width: usize,
    out: &mut [f32],
) {
    let size = width * depth.len();
    let mut first = lines.start;
    for panel in out.chunks_exact_mut(size.max(1)) {
        if first >= lines.end {
            break;
        }
        let count = width.min(lines.end - first);
        if line == 1 {
            for (row, k) in panel.chunks_exact_mut(width).zip(depth.clone()) {
                let at = k * step + first;
                if count == width {
                    row.copy_from_slice(&data[at..at + width]);
                } else {
                    row[..count].copy_from_slice(&data[at..at + count]);
                    row[count..].fill(0.0);
                }
            }
        } else {
            if count < width {
                panel.fill(0.0);
            }
            for i in 0..count {
                let source = &data[(first + i) * line + depth.start * step..];
                for (row, x) in panel.chunks_exact_mut(width).zip(source.iter().step_by(step)) {
                    row[i] = *x;
                }
            }
        }
        first += width;
    }
}

/// Packs columns `columns` of `b`, rows `depth`.
#[inline(always)]
pub(crate) fn columns<S: Simd>(
    _: S,
    b: Mat,
    columns: std::ops::Range<usize>,
    depth: std::ops::Range<usize>,
    out: &mut [f32],
) {
    panels(b.data, b.col_stride, b.row_stride, columns, depth, S::NR, out);
}

/// Packs rows `rows` of `a`, columns `depth`.
#[inline(always)]
pub(crate) fn rows<S: Simd>(
    _: S,
    a: Mat,
    rows: std::ops::Range<usize>,
    depth: std::ops::Range<usize>,
    out: &mut [f32],
) {
    panels(a.data, a.row_stride, a.col_stride, rows, depth, S::MR, out);
}
