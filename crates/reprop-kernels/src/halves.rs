//! Rows of `left + right` floats, cut into two tensors and put together again: the two streams of a wide stem.

use crate::share::Shared;
use crate::tasks::for_each;

/// Rows of a task: enough to outweigh its start.
const PART: usize = 512;

/// The first `left` floats of each row of `x`, and the others.
///
/// # Panics
/// If lengths do not fit.
pub fn split(x: &[f32], left: usize, a: &mut [f32], b: &mut [f32]) {
    let (rows, right) = shape(left, a.len(), b.len());
    assert_eq!(x.len(), a.len() + b.len(), "x must be as long as both halves");
    let (a, b) = (Shared::new(a), Shared::new(b));
    for_each(rows.div_ceil(PART), |part| {
        let (first, last) = (part * PART, ((part + 1) * PART).min(rows));
        // SAFETY: parts do not overlap.
        let (a, b) = unsafe { (a.slice(first * left..last * left), b.slice(first * right..last * right)) };
        split_rows(&x[first * (left + right)..last * (left + right)], (left, right), a, b);
    });
}

/// The same on one thread, with `left` and `right` floats of a row.
fn split_rows(x: &[f32], (left, right): (usize, usize), a: &mut [f32], b: &mut [f32]) {
    let halves = a.chunks_exact_mut(left).zip(b.chunks_exact_mut(right));
    for (x, (a, b)) in x.chunks_exact(left + right).zip(halves) {
        a.copy_from_slice(&x[..left]);
        b.copy_from_slice(&x[left..]);
    }
}

/// Undoes [`split`].
///
/// # Panics
/// If lengths do not fit.
pub fn join(a: &[f32], b: &[f32], left: usize, x: &mut [f32]) {
    let (rows, right) = shape(left, a.len(), b.len());
    assert_eq!(x.len(), a.len() + b.len(), "x must be as long as both halves");
    let x = Shared::new(x);
    for_each(rows.div_ceil(PART), |part| {
        let (first, last) = (part * PART, ((part + 1) * PART).min(rows));
        // SAFETY: parts do not overlap.
        let x = unsafe { x.slice(first * (left + right)..last * (left + right)) };
        let halves = (&a[first * left..last * left], &b[first * right..last * right]);
        join_rows(halves, (left, right), x);
    });
}

/// The same on one thread, with `left` and `right` floats of a row.
pub(crate) fn join_rows((a, b): (&[f32], &[f32]), (left, right): (usize, usize), x: &mut [f32]) {
    let halves = a.chunks_exact(left).zip(b.chunks_exact(right));
    for (x, (a, b)) in x.chunks_exact_mut(left + right).zip(halves) {
        x[..left].copy_from_slice(a);
        x[left..].copy_from_slice(b);
    }
}

/// Rows, and floats of a row in the right half.
fn shape(left: usize, a: usize, b: usize) -> (usize, usize) {
    assert!(left > 0 && a.is_multiple_of(left), "the left half must have rows of {left}, not {a} floats");
    let rows = a / left;
    assert!(
        rows == 0 || b.is_multiple_of(rows) && b > 0,
        "the right half must have {rows} rows, not {b} floats"
    );
    (rows, b.checked_div(rows).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::{join, split};

    #[test]
    fn what_is_cut_is_put_together_again() {
        for (rows, left, right) in [(0, 3, 2), (1, 1, 1), (1500, 3, 2), (513, 16, 16)] {
            let x: Vec<f32> = (0..rows * (left + right)).map(|i| i as f32).collect();
            let (mut a, mut b) = (vec![0.0; rows * left], vec![0.0; rows * right]);
            split(&x, left, &mut a, &mut b);
            for row in 0..rows {
                assert_eq!(a[row * left].to_bits(), x[row * (left + right)].to_bits());
                assert_eq!(b[row * right].to_bits(), x[row * (left + right) + left].to_bits());
            }
            let mut again = vec![0.0; x.len()];
            join(&a, &b, left, &mut again);
            assert_eq!(again, x);
        }
    }
}
