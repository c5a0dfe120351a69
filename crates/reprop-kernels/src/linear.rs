//! The linear layer `Y = X W + b` with `W` stored inputs x outputs.
//!
//! `dX = dY Wᵀ`, `dW = Xᵀ dY`, `db = Σ_rows dY`.

use std::ops::Range;

use crate::gemm::{
    Init, Mat, PackedMatrix, PackedWeight, Product, Right, Target, blocks, gemm, k_block, multiply,
    multiply_columns,
};
use crate::rows::for_chunks;
use crate::share::Shared;
use crate::tasks::for_each;
use crate::workspace::{Buffer, Workspace};

/// Up to so many rows a weight is better left as it is, [`Weight::Fresh`](crate::gemm::Weight): [a block](crate::gemm) of them stays in a
/// second-level cache while the weight passes by.
pub const FEW_ROWS: usize = 512;
/// Tasks that columns make, about.
const TASKS: usize = 16;
/// Floats between rows that would share a set of the first-level cache.
const GAP: usize = 16;

/// `Y = X W (+ b)` for `rows` rows; `w` is the weight packed for the forward (or, for `dX`, for the backward).
///
/// # Panics
/// If a length does not fit `rows` and the weight's shape, or the weight is packed for another instruction set.
pub fn forward(
    ws: &Workspace,
    w: &PackedMatrix,
    bias: Option<&[f32]>,
    x: &[f32],
    y: &mut [f32],
    rows: usize,
) {
    let (k, n) = (w.k(), w.n());
    assert_eq!(x.len(), rows * k, "x must be {rows} x {k}");
    assert_eq!(y.len(), rows * n, "y must be {rows} x {n}");
    let y = Shared::new(y);
    for_chunks(ws.isa(), rows, |_, range| {
        // SAFETY: chunks do not overlap.
        let y = unsafe { y.slice(range.start * n..range.end * n) };
        let init = bias.map_or(Init::Zero, Init::Bias);
        times_packed(ws, w, init, &x[range.start * k..range.end * k], y);
    });
}

/// One task's rows: `y = x w`, plus what `init` says, on the calling thread.
pub(crate) fn times_packed(ws: &Workspace, w: &PackedMatrix, init: Init, x: &[f32], y: &mut [f32]) {
    let (k, n) = (w.k(), w.n());
    let rows = y.len().checked_div(n).unwrap_or(0);
    rows_times_packed(ws, w, init, Mat::new(x, rows, k), Target::new(y, rows, n, n));
}

/// The same for rows any distance apart.
pub(crate) fn rows_times_packed(ws: &Workspace, w: &PackedMatrix, init: Init, x: Mat, y: Target) {
    assert_eq!(w.isa(), ws.isa(), "weight packed for another instruction set");
    let copy = apart(ws, x);
    multiply(ws.isa(), left(x, copy.as_deref()), Right::Packed(w.data()), y, init);
}

/// The distance at which rows of `k` floats are best multiplied by a weight. A multiple of 4 KiB apart they would fall into the same set
/// of a first-level cache and push each other out.
pub(crate) fn distance(k: usize) -> usize {
    if k > 0 && k.is_multiple_of(1024) { k + GAP } else { k }
}

/// `Y = X W + b` for `rows` rows and a weight that is used once, as it is.
///
/// # Panics
/// If a length does not fit.
pub fn forward_once(ws: &Workspace, w: Mat, bias: &[f32], x: &[f32], y: &mut [f32], rows: usize) {
    let (k, n) = (w.rows, w.cols);
    assert!(x.len() == rows * k && y.len() == rows * n, "x must be {rows} x {k} and y {rows} x {n}");
    for some in blocks(rows, FEW_ROWS) {
        let (x, y) = (&x[some.start * k..some.end * k], &mut y[some.start * n..some.end * n]);
        by_columns(ws, w, Init::Bias(bias), Mat::new(x, some.len(), k), (&Shared::new(y), n), |_| ());
    }
}

/// All rows: `y = x w`, plus what `init` says, with rows of `y` the given distance apart; tasks are columns, and `then` is told of
/// each when it is done.
///
/// # Panics
/// If shapes do not fit.
pub(crate) fn by_columns(
    ws: &Workspace,
    w: Mat,
    init: Init,
    x: Mat,
    (y, y_row): (&Shared, usize),
    then: impl Fn(Range<usize>) + Sync,
) {
    let (rows, k, n) = (x.rows, w.rows, w.cols);
    assert_eq!((x.cols, y.len()), (k, rows * y_row), "x must be rows x {k} and y rows x {y_row}");
    if rows == 0 {
        return;
    }
    let copy = apart(ws, x);
    let a = left(x, copy.as_deref());
    let panel = ws.isa().panel_width();
    let width = (n.div_ceil(panel) / TASKS).max(1) * panel;
    for_each(n.div_ceil(width), |task| {
        let columns = task * width..((task + 1) * width).min(n);
        let mut room = ws.take(panel * k_block(k).min(k));
        // SAFETY: tasks have their own columns.
        let c = unsafe { Target::part(y, columns.start, rows, columns.len(), y_row) };
        multiply_columns(ws.isa(), a, w, columns.clone(), &mut room, c, init.columns(columns.clone()));
        then(columns);
    });
}

/// A copy of rows that are not a good [`distance`] apart.
fn apart(ws: &Workspace, x: Mat) -> Option<Buffer> {
    let far = distance(x.row_stride);
    if x.cols == 0 || far == x.row_stride || x.rows <= 1 {
        return None;
    }
    let mut copy = ws.take(x.rows * far);
    for (to, from) in copy.chunks_exact_mut(far).zip(x.data.chunks(x.row_stride)) {
        to[..x.cols].copy_from_slice(&from[..x.cols]);
    }
    Some(copy)
}

/// Rows, or their copy with gaps.
fn left<'a>(x: Mat<'a>, copy: Option<&'a [f32]>) -> Mat<'a> {
    copy.map_or(x, |copy| Mat::strided(copy, x.rows, x.cols, distance(x.row_stride), 1))
}

/// Gradients of a linear layer: `dX` from the packed weight, `dW` and `db` from `x`.
///
/// # Panics
/// If a length does not fit.
pub fn vjp(ws: &Workspace, w: &PackedWeight, x: &[f32], dy: &[f32], rows: usize, grads: LinearGrads) {
    let (inputs, outputs) = (w.inputs(), w.outputs());
    rayon::join(
        || forward(ws, &w.backward, None, dy, grads.x, rows),
        || {
            let product = Product::weight_gradient(
                Mat::new(x, rows, inputs),
                Mat::new(dy, rows, outputs),
                grads.weight,
                grads.bias,
            );
            gemm(ws, product);
        },
    );
}

/// Where a linear layer's gradients go; each is overwritten.
#[derive(Debug)]
pub struct LinearGrads<'a> {
    /// `rows x inputs`.
    pub x: &'a mut [f32],
    /// `inputs x outputs`.
    pub weight: &'a mut [f32],
    /// `outputs`.
    pub bias: &'a mut [f32],
}
