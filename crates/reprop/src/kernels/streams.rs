//! The residual streams' grid on fused kernels: the same bits as [`Arithmetic`]'s own, in one parallel pass.

use burn::tensor::Tensor;
use reprop_kernels::grid::Grid;

use super::output::MOST_BITS;
use super::{Floats, modify};
use crate::{Arithmetic, Pass};

/// The grid and the pass's memory, if `x` is for the kernels.
fn grid<const D: usize>(x: &Tensor<D>, pass: &Pass) -> Option<Grid> {
    match pass.arithmetic_of_streams() {
        Arithmetic::Exact { fraction_bits } if fraction_bits <= MOST_BITS => {
            pass.fuses(&x.device()).then_some(Grid { bits: fraction_bits })
        }
        _ => None,
    }
}

/// [`Arithmetic::enter`], and whether the stream is known to be inside the grid's range.
pub(crate) fn enter<const D: usize>(x: Tensor<D>, pass: &Pass) -> (Tensor<D>, bool) {
    match grid(&x, pass) {
        Some(grid) => modify(x, |x| grid.snap(x, pass.pool().kernels()).is_ok()),
        None => (pass.arithmetic_of_streams().enter(x), false),
    }
}

/// Whether `x` is known to be inside the grid's range.
pub(crate) fn in_range<const D: usize>(x: &Tensor<D>, pass: &Pass) -> bool {
    grid(x, pass).is_some_and(|grid| grid.holds(&Floats::of(x.clone()), pass.pool().kernels()))
}
