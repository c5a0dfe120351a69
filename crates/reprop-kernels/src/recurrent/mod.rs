//! Recurrent cells: one step forward and its derivative. Weights' gradients are added up over steps by the caller's choice.

mod gru;
mod lstm;

pub use gru::{GruCell, GruGrads, GruSaved};
pub use lstm::{LstmCell, LstmGrads, LstmSaved};

use crate::gemm::{Init, Mat, PackedMatrix, Product};
use crate::linear::times_packed;
use crate::rows::for_chunks;
use crate::share::Shared;
use crate::workspace::Workspace;

/// `y = x W + init`, rows in parallel.
fn product(ws: &Workspace, w: &PackedMatrix, init: Init, x: &[f32], y: &mut [f32], rows: usize) {
    let (k, n) = (w.k(), w.n());
    let y = Shared::new(y);
    for_chunks(ws.isa(), rows, |_, r| {
        // SAFETY: chunks do not overlap.
        let y = unsafe { y.slice(r.start * n..r.end * n) };
        times_packed(ws, w, init, &x[r.start * k..r.end * k], y);
    });
}

/// `dW (+)= Xᵀ dG` and the bias's gradient.
fn weight_gradient<'a>(
    x: &'a [f32],
    dg: &'a [f32],
    rows: usize,
    weight: &'a mut [f32],
    bias: Option<&'a mut [f32]>,
    accumulate: bool,
) -> Product<'a> {
    let (inputs, outputs) = (x.len() / rows.max(1), dg.len() / rows.max(1));
    let (a, b) = (Mat::new(x, rows, inputs).t(), Mat::new(dg, rows, outputs));
    Product { a, b, c: weight, accumulate, column_sums: bias }
}
