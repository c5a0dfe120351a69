//! A matrix as a slice and two strides.

/// A matrix inside a slice: element `(i, j)` is `data[i * row_stride + j * col_stride]`.
#[derive(Clone, Copy, Debug)]
pub struct Mat<'a> {
    /// Where the elements are.
    pub data: &'a [f32],
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub cols: usize,
    /// Distance between rows.
    pub row_stride: usize,
    /// Distance between columns.
    pub col_stride: usize,
}

impl<'a> Mat<'a> {
    /// A matrix whose rows lie one after the other.
    ///
    /// # Panics
    /// If `data` holds fewer than `rows * cols` floats.
    pub fn new(data: &'a [f32], rows: usize, cols: usize) -> Self {
        Self::strided(data, rows, cols, cols, 1)
    }

    /// A matrix with any strides.
    ///
    /// # Panics
    /// If the last element lies outside `data`.
    pub fn strided(data: &'a [f32], rows: usize, cols: usize, row_stride: usize, col_stride: usize) -> Self {
        if rows > 0 && cols > 0 {
            let last = (rows - 1) * row_stride + (cols - 1) * col_stride;
            assert!(
                last < data.len(),
                "a {rows} x {cols} matrix with strides {row_stride}, {col_stride} reaches element {last} of {}",
                data.len()
            );
        }
        Self { data, rows, cols, row_stride, col_stride }
    }

    /// Some of its columns.
    ///
    /// # Panics
    /// If it has fewer.
    pub fn columns(self, range: std::ops::Range<usize>) -> Self {
        assert!(range.end <= self.cols, "columns {range:?} of {}", self.cols);
        let from = (range.start * self.col_stride).min(self.data.len());
        Self::strided(&self.data[from..], self.rows, range.len(), self.row_stride, self.col_stride)
    }

    /// The transpose, without moving anything.
    pub fn t(self) -> Self {
        Self {
            data: self.data,
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
        }
    }
}
