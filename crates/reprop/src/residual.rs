//! The trait of F and G: a function with its derivative made explicit.

use burn::tensor::Tensor;

use crate::{Activity, Context, Direction, Footprint, Gradients, Holder, Reversal, Saved};

/// A sub-block of a coupling: F or G. Any function of one stream, with no residual inside.
///
/// The derivative is explicit, so that a strategy decides what is kept and when it is computed, and no graph or lock
/// stands between two threads. For a plain Burn module, [`Autodiff`](crate::Autodiff) writes this trait.
///
/// Laws, on which bit-equal gradients rest:
/// - all methods are functions of their arguments alone: no state, no generator but
///   [`Context`]'s masks;
/// - `forward` and `forward_saving` give the same bits.
///
/// ```
/// use burn::module::{Module, Param};
/// use burn::tensor::Tensor;
/// use reprop::{Context, Gradients, Residual};
///
/// /// `F(x) = w * x`, with one weight for each feature.
/// #[derive(Module, Debug)]
/// struct Scale {
///     weight: Param<Tensor<1>>,
/// }
///
/// impl Residual<2> for Scale {
///     type Saved = Tensor<2>;
///
///     fn forward_saving(&self, x: Tensor<2>, _: &Context<'_>) -> (Tensor<2>, Self::Saved) {
///         (x.clone() * self.weight.val().inner().unsqueeze(), x)
///     }
///
///     fn vjp(&self, x: Tensor<2>, dy: Tensor<2>, _: &Context<'_>, gradients: &mut Gradients) -> Tensor<2> {
///         gradients.add(&self.weight, || (x * dy.clone()).sum_dim(0).squeeze_dim(0));
///         dy * self.weight.val().inner().unsqueeze()
///     }
/// }
/// ```
pub trait Residual<const D: usize>: Send + Sync {
    /// What the derivative needs.
    type Saved: Saved;

    /// `F(x)`.
    fn forward(&self, x: Tensor<D>, context: &Context<'_>) -> Tensor<D> {
        self.forward_saving(x, context).0
    }

    /// `F(x)` and what [`Self::vjp`] needs.
    fn forward_saving(&self, x: Tensor<D>, context: &Context<'_>) -> (Tensor<D>, Self::Saved);

    /// The vector-Jacobian product: from `dy`, the gradient of `F(x)`, the gradient of `x`; gradients of parameters
    /// are added to `gradients`.
    fn vjp(
        &self,
        saved: Self::Saved,
        dy: Tensor<D>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Tensor<D>;

    /// `base ± F(x)` in the pass's arithmetic. Sub-blocks that can add while their result is in cache override it and the
    /// two below; the bits are those of these bodies.
    fn forward_onto(
        &self,
        x: Tensor<D>,
        base: Tensor<D>,
        direction: Direction,
        context: &Context<'_>,
    ) -> Tensor<D> {
        context.arithmetic().apply(base, self.forward(x, context), direction)
    }

    /// `base ± F(x)`, and what [`Self::vjp`] needs.
    fn forward_saving_onto(
        &self,
        x: Tensor<D>,
        base: Tensor<D>,
        direction: Direction,
        context: &Context<'_>,
    ) -> (Tensor<D>, Self::Saved) {
        let (f, saved) = self.forward_saving(x, context);
        (context.arithmetic().apply(base, f, direction), saved)
    }

    /// Whether [`Self::forward_onto`] and [`Self::forward_saving_onto`] look while they write whether the stream stays inside
    /// the range of its grid, and [tell](Context::unwatched) where it does not or they did not look.
    fn watches_range(&self) -> bool {
        false
    }

    /// Multiply-adds of its largest product for an input of shape `dims`, if all threads of the CPU share whatever it does; none if they do
    /// not. Where that is enough for every thread there is nothing to gain from running it beside another sub-block, and
    /// [`PaReprop`](crate::Strategy::PaReprop) uses its memory otherwise.
    fn shared_work(&self, dims: [usize; D], context: &Context<'_>) -> usize {
        let _ = (dims, context);
        0
    }

    /// `base` plus what [`Self::vjp`] gives.
    fn vjp_onto(
        &self,
        saved: Self::Saved,
        dy: Tensor<D>,
        base: Tensor<D>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Tensor<D> {
        base + self.vjp(saved, dy, context, gradients)
    }

    /// The stream before `F(x)` was added to it, from `y`, the stream after; and `base` plus what [`Self::vjp`] gives. For a block that is
    /// [reversed](crate::Block::reverse). Sub-blocks that can recover and differentiate in one override it and the one below; the
    /// bits are those of this body. What is kept from recovery to derivative they [count](Context::hold) themselves; of what
    /// [`Self::reversal`] tells, the block counts the rest.
    fn reverse_onto(
        &self,
        x: Tensor<D>,
        y: Tensor<D>,
        dy: Tensor<D>,
        base: Tensor<D>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> (Tensor<D>, Tensor<D>) {
        in_turn(self, (x, y), (dy, base), context, gradients)
    }

    /// The bytes that [`Self::reverse_onto`] will need for an input of shape `dims`, or `None` where that cannot be told.
    fn reversal(&self, dims: [usize; D], context: &Context<'_>) -> Option<Reversal> {
        Some(Reversal::in_turn(dims, self.footprint(dims, context)?))
    }

    /// The bytes that the other methods will need for an input of shape `dims`, or `None` where that cannot be told.
    fn footprint(&self, dims: [usize; D], context: &Context<'_>) -> Option<Footprint> {
        let _ = (dims, context);
        None
    }
}

/// [`Residual::reverse_onto`] as a recovery and a derivative after it.
pub(crate) fn in_turn<const D: usize, F: Residual<D> + ?Sized>(
    residual: &F,
    (x, y): (Tensor<D>, Tensor<D>),
    (dy, base): (Tensor<D>, Tensor<D>),
    context: &Context<'_>,
    gradients: &mut Gradients,
) -> (Tensor<D>, Tensor<D>) {
    let (stream, saved) =
        context.note(Activity::Recover, || residual.forward_saving_onto(x, y, Direction::Subtract, context));
    let _held = context.hold(Holder::Blocks, saved.bytes());
    let dx = context.note(Activity::Grads, || residual.vjp_onto(saved, dy, base, context, gradients));
    (stream, dx)
}
