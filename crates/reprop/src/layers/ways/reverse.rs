//! A sub-block on fused kernels that is recovered and differentiated in one.

use burn::tensor::Tensor;
use reprop_kernels::heap::blank;
use reprop_kernels::output::{Base, Output};

use super::{FusedWay, Rates, bytes_of};
use crate::kernels::{Use, added, adds_to, tensor, update};
use crate::{Context, Direction, Gradients};

/// Bytes of temporaries, if the sub-block is recovered and differentiated in one.
pub(super) fn scratch<const D: usize, T: FusedWay<D>>(
    sub_block: &T,
    dims: [usize; D],
    context: &Context<'_>,
) -> Option<u64> {
    let inside =
        if sub_block.fuses(context) { sub_block.reverse_scratch(dims, context)? } else { return None };
    let (rates, stream) = (sub_block.rates(), bytes_of(sub_block.output_dims(dims)));
    let output = if is_apart(rates, context) { stream } else { 0 };
    let masks = if rates.apply(context) { 2 * stream } else { 0 };
    Some(inside + output + masks)
}

/// Whether the output is made apart from the stream that it is taken from: something is dropped from it, or kernels cannot add.
fn is_apart(rates: Rates, context: &Context<'_>) -> bool {
    rates.apply(context) || !adds_to(context.arithmetic())
}

/// The stream before, and the gradient of the input, as [`Residual::reverse_onto`](crate::Residual::reverse_onto) gives them.
pub(super) fn in_one<const D: usize, T: FusedWay<D>>(
    sub_block: &T,
    (x, y): (Tensor<D>, Tensor<D>),
    (dy, base): (Tensor<D>, Tensor<D>),
    context: &Context<'_>,
    gradients: &mut Gradients,
) -> (Tensor<D>, Tensor<D>) {
    let parts = sub_block.parts(x.dims(), Use::Reverse, context).expect("what fuses has its parts");
    let (rates, arithmetic) = (sub_block.rates(), context.arithmetic());
    let dy = rates.masked_gradient(dy, context);
    let run = |output: &mut Output| {
        let write = |base: Option<&[f32]>, dx: &mut [f32]| {
            let base = base.map_or(Base::Itself, Base::Other);
            sub_block.fused_reverse(&parts, (x, dy), output, (dx, base), gradients)
        };
        update(base, write)
    };
    if is_apart(rates, context) {
        let shape = y.dims();
        let mut f = blank(shape.iter().product());
        let (dx, inside) = run(&mut Output::Value(&mut f));
        inside.expect("values of their own are on no grid");
        context.unwatched();
        let f = rates.masked(tensor(f, shape), context);
        return (arithmetic.apply(y, f, Direction::Subtract), dx);
    }
    let (stream, (dx, inside)) = added(y, Direction::Subtract, arithmetic, run);
    if inside.is_err() {
        context.unwatched();
    }
    (stream, dx)
}
