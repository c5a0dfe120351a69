//! Embedding: rows of a table picked by token.
//!
//! `y[i] = table[token[i]]`, `dtable[t] = Σ_{token[i] = t} dy[i]`, added in the order of `i`. Tasks of the derivative take
//! strips of columns, so that no two meet in a row.

use crate::rows::for_chunks;
use crate::share::Shared;
use crate::simd::Isa;
use crate::tasks::for_each;

/// Columns of one task of the derivative: two cache lines.
const STRIP: usize = 32;

/// Picks rows of `table` (entries x width).
///
/// # Panics
/// If a token has no entry or lengths do not fit.
pub fn forward(table: &[f32], width: usize, tokens: &[u32], y: &mut [f32]) {
    assert_eq!(y.len(), tokens.len() * width, "y must be {} x {width}", tokens.len());
    let y = Shared::new(y);
    for_chunks(Isa::portable(), tokens.len(), |_, r| {
        // SAFETY: chunks do not overlap.
        let y = unsafe { y.slice(r.start * width..r.end * width) };
        for (y, &token) in y.chunks_exact_mut(width).zip(&tokens[r]) {
            let from = token as usize * width;
            y.copy_from_slice(&table[from..from + width]);
        }
    });
}

/// Adds each row of `dy` to its token's row of `dtable`.
///
/// # Panics
/// If a token has no entry or lengths do not fit.
pub fn vjp(width: usize, tokens: &[u32], dy: &[f32], dtable: &mut [f32]) {
    assert_eq!(dy.len(), tokens.len() * width, "dy must be {} x {width}", tokens.len());
    let table = Shared::new(dtable);
    for_each(width.div_ceil(STRIP), |strip| {
        let columns = strip * STRIP..((strip + 1) * STRIP).min(width);
        for (dy, &token) in dy.chunks_exact(width).zip(tokens) {
            let from = token as usize * width;
            // SAFETY: each task has its own columns.
            let row = unsafe { table.slice(from + columns.start..from + columns.end) };
            row.iter_mut().zip(&dy[columns.clone()]).for_each(|(a, b)| *a += b);
        }
    });
}
