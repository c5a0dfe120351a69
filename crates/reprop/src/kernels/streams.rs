//! The residual streams' grid on fused kernels: the same bits as [`Arithmetic`]'s own, in one parallel pass.

use burn::tensor::Tensor;
use reprop_kernels::grid::Grid;

use super::output::MOST_BITS;
use super::{Floats, modify};
use crate::{Arithmetic, Context, Pass};

/// The streams' grid, if the kernels have it.
fn known(arithmetic: Arithmetic) -> Option<Grid> {
    match arithmetic {
        Arithmetic::Exact { fraction_bits } => {
            (fraction_bits <= MOST_BITS).then_some(Grid { bits: fraction_bits })
        }
        Arithmetic::Float => None,
    }
}

/// The streams' grid, if `x` is for the kernels.
fn grid<const D: usize>(x: &Tensor<D>, pass: &Pass) -> Option<Grid> {
    known(pass.arithmetic_of_streams()).filter(|_| pass.fuses(&x.device()))
}

/// The streams' grid, for a kernel that writes what enters them.
pub(crate) fn grid_of(context: &Context<'_>) -> Option<Grid> {
    known(context.arithmetic())
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
