//! Where the result of a fused sub-block goes: a tensor of its own, or a stream.

use burn::tensor::Tensor;
use reprop_kernels::grid::{Direction, Grid, GridOverflow};
use reprop_kernels::heap::blank;
use reprop_kernels::output::Output;

use super::{tensor, update};
use crate::{Arithmetic, Context};

/// The most fraction bits of a grid in the kernels.
pub(super) const MOST_BITS: u32 = 23;

/// What `run` writes, as a tensor, and what it saves.
pub(crate) fn value<const D: usize, S>(
    shape: [usize; D],
    run: impl FnOnce(&mut Output) -> Result<S, GridOverflow>,
) -> (Tensor<D>, S) {
    let mut y = blank(shape.iter().product());
    let saved = run(&mut Output::Value(&mut y)).expect("values of their own are on no grid");
    (tensor(y, shape), saved)
}

/// Whether kernels can add to streams of this arithmetic.
pub(crate) fn adds_to(arithmetic: Arithmetic) -> bool {
    !matches!(arithmetic, Arithmetic::Exact { fraction_bits } if fraction_bits > MOST_BITS)
}

/// `base ± f`, with `f` what `run` writes, added while it is in cache; and what `run` says. The same bits as
/// [`Arithmetic::apply`].
///
/// # Panics
///
/// Panics if kernels cannot [add](adds_to) to such streams.
pub(crate) fn added<const D: usize, R>(
    base: Tensor<D>,
    direction: Direction,
    arithmetic: Arithmetic,
    run: impl FnOnce(&mut Output) -> R,
) -> (Tensor<D>, R) {
    assert!(adds_to(arithmetic), "kernels have no grid of such streams: {arithmetic:?}");
    update(base, |base, y| {
        run(&mut match arithmetic {
            Arithmetic::Exact { fraction_bits } => {
                Output::OnGrid { grid: Grid { bits: fraction_bits }, base, y, direction }
            }
            Arithmetic::Float => Output::Float { base, y, direction },
        })
    })
}

/// `base ± f`, with `f` what `run` writes, and what it saves. A stream that was not looked at, or left its range, is
/// [told](Context::unwatched).
pub(crate) fn onto<const D: usize, S>(
    base: Tensor<D>,
    direction: Direction,
    context: &Context<'_>,
    run: impl Fn(&mut Output) -> Result<S, GridOverflow>,
) -> (Tensor<D>, S) {
    let (shape, arithmetic) = (base.dims(), context.arithmetic());
    if !adds_to(arithmetic) {
        context.unwatched();
        let (f, saved) = value(shape, run);
        return (arithmetic.apply(base, f, direction), saved);
    }
    let (y, saved) = added(base, direction, arithmetic, &run);
    // A stream that left its range was written all the same, and the pass finds it there. It has to come that far, so
    // that the error tells the magnitude reached.
    let saved = saved.unwrap_or_else(|_| {
        context.unwatched();
        value(shape, run).1
    });
    (y, saved)
}
