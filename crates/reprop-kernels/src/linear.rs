//! The linear layer `Y = X W + b` with `W` stored inputs x outputs.
//!
//! `dX = dY Wᵀ`, `dW = Xᵀ dY`, `db = Σ_rows dY`.

use crate::gemm::{Init, Mat, PackedMatrix, PackedWeight, Product, Right, Target, gemm, multiply};
use crate::rows::for_chunks;
use crate::share::Shared;
use crate::workspace::Workspace;

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
    assert_eq!(w.isa(), ws.isa(), "weight packed for another instruction set");
    let (k, n) = (w.k(), w.n());
    let rows = y.len().checked_div(n).unwrap_or(0);
    let c = Target::new(y, rows, n, n);
    // Rows a multiple of 4 KiB apart fall into the same set of a first-level cache and push each other out.
    if k > 0 && k.is_multiple_of(1024) && rows > 1 {
        let padded = k + 16;
        let mut copy = ws.take(rows * padded);
        for (to, from) in copy.chunks_exact_mut(padded).zip(x.chunks_exact(k)) {
            to[..k].copy_from_slice(from);
        }
        multiply(ws.isa(), Mat::strided(&copy, rows, k, padded, 1), Right::Packed(w.data()), c, init);
    } else {
        multiply(ws.isa(), Mat::new(x, rows, k), Right::Packed(w.data()), c, init);
    }
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
