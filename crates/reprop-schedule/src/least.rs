//! The inner loop of every dynamic programme here.

/// Independent minima that the compiler keeps in vector registers: a single running minimum of floats is a
/// chain of dependent comparisons, and many times slower.
const LANES: usize = 8;

/// `min_i a[i] + b[i]` and the first `i` that reaches it; `None` for empty slices.
///
/// # Panics
/// If the slices differ in length.
pub(crate) fn least_sum(a: &[f64], b: &[f64]) -> Option<(f64, usize)> {
    assert_eq!(a.len(), b.len());
    let mut lanes = [f64::INFINITY; LANES];
    let (a_chunks, b_chunks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    for (x, y) in a_chunks.remainder().iter().zip(b_chunks.remainder()) {
        lanes[0] = lanes[0].min(x + y);
    }
    for (x, y) in a_chunks.zip(b_chunks) {
        for lane in 0..LANES {
            let sum = x[lane] + y[lane];
            lanes[lane] = if sum < lanes[lane] { sum } else { lanes[lane] };
        }
    }
    let least = lanes.into_iter().fold(f64::INFINITY, f64::min);
    let index = a.iter().zip(b).position(|(x, y)| x + y <= least)?;
    Some((least, index))
}

/// A row of values by chain length, stored from long to short, so that `row[len - j]` is read forwards as `j`
/// rises.
#[derive(Debug, Clone)]
pub(crate) struct Backwards(Vec<f64>);

impl Backwards {
    /// The values of `row`, indexed by length.
    pub(crate) fn of(row: &[f64]) -> Self {
        Self(row.iter().rev().copied().collect())
    }

    /// The value of one length.
    pub(crate) fn get(&self, len: usize) -> f64 {
        self.0[self.0.len() - 1 - len]
    }

    /// Changes the value of one length.
    pub(crate) fn set(&mut self, len: usize, value: f64) {
        let last = self.0.len() - 1;
        self.0[last - len] = value;
    }

    /// `row[len - j]` for `j` in `1 .. len`.
    pub(crate) fn below(&self, len: usize) -> &[f64] {
        let last = self.0.len() - 1;
        &self.0[last - (len - 1)..last]
    }

    /// `row[len - j]` for `j` in `1 ..= count`.
    pub(crate) fn down_from(&self, len: usize, count: usize) -> &[f64] {
        let last = self.0.len() - 1;
        &self.0[last + 1 - len..last + 1 - len + count]
    }
}
