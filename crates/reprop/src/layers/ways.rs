//! Sub-blocks that compute in two ways: on Burn's operations, and on fused kernels.
//!
//! A sub-block writes the one as [`BurnWay`] and the other as [`FusedWay`]; which of them runs, where masks come in, and how a result is added to a
//! stream while it is in cache is the same for all, and written here once.

mod reverse;

use burn::tensor::Tensor;
use reprop_kernels::grid::GridOverflow;
use reprop_kernels::heap::blank;
use reprop_kernels::output::{Base, Output};
use reprop_kernels::sixteen::Rounds;

use super::site;
use crate::kernels::{Use, lent, onto, spared, tensor, update, value};
use crate::residual::in_turn;
use crate::{Activity, Context, Direction, Footprint, Gradients, Residual, Reversal, Saved, Storing};

/// The rates at which a sub-block's output is dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Of elements.
    pub dropout: f64,
    /// Of whole samples.
    pub drop_path: f64,
}

impl Rates {
    /// Nothing is dropped.
    pub const NONE: Self = Self { dropout: 0.0, drop_path: 0.0 };

    /// Whether anything is dropped in this pass.
    pub fn apply(self, context: &Context<'_>) -> bool {
        context.masks(self.dropout, self.drop_path)
    }

    /// The output with elements and samples dropped.
    fn masked<const D: usize>(self, y: Tensor<D>, context: &Context<'_>) -> Tensor<D> {
        let y = context.dropout(y, self.dropout, site::OUTPUT);
        context.drop_path(y, self.drop_path, site::PATH)
    }

    /// The output's gradient with elements and samples dropped.
    fn masked_gradient<const D: usize>(self, dy: Tensor<D>, context: &Context<'_>) -> Tensor<D> {
        let dy = context.drop_path(dy, self.drop_path, site::PATH);
        context.dropout(dy, self.dropout, site::OUTPUT)
    }
}

/// A sub-block on Burn's operations.
pub trait BurnWay<const D: usize>: Send + Sync {
    /// What the derivative needs.
    type BurnSaved: Saved;

    /// The rates at which the output is dropped.
    fn rates(&self) -> Rates;

    /// The output before anything is dropped, and what [`Self::burn_vjp`] needs.
    fn burn_forward(&self, x: Tensor<D>, context: &Context<'_>) -> (Tensor<D>, Self::BurnSaved);

    /// The gradient of the input from that of the output.
    fn burn_vjp(
        &self,
        saved: Self::BurnSaved,
        dy: Tensor<D>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Tensor<D>;

    /// What Burn's way needs.
    fn burn_footprint(&self, dims: [usize; D], context: &Context<'_>) -> Footprint;
}

/// A sub-block on fused kernels. Written beside [`BurnWay`], it writes [`Residual`].
pub trait FusedWay<const D: usize>: BurnWay<D> {
    /// What the kernel saves for its derivative, beside the input.
    type KernelSaved: Rounds + Send + 'static;
    /// Parameters as the kernel takes them.
    type Parts<'p>: FusedParts<D, Saved = Self::KernelSaved>;

    /// Whether this sub-block runs on fused kernels in `context`.
    fn fuses(&self, context: &Context<'_>) -> bool;

    /// The shape of the output for this input's.
    fn output_dims(&self, dims: [usize; D]) -> [usize; D] {
        dims
    }

    /// What the kernel takes, if this sub-block runs on it for this input.
    fn parts<'p>(&self, dims: [usize; D], usage: Use, context: &Context<'p>) -> Option<Self::Parts<'p>>;

    /// From `dy` the gradient of the input, added to `base`, in `dx`; those of the parameters to `gradients`.
    fn fused_vjp(
        &self,
        saved: FusedSaved<D, Self::KernelSaved>,
        dy: Tensor<D>,
        dx: (&mut [f32], Base),
        context: &Context<'_>,
        gradients: &mut Gradients,
    );

    /// Bytes that [`Self::fused_reverse`] needs, masks not counted; `None` where there is none.
    fn reverse_scratch(&self, dims: [usize; D], context: &Context<'_>) -> Option<u64> {
        let _ = (dims, context);
        None
    }

    /// The output of `x`, and from `dy` what [`Self::fused_vjp`] gives, in one. It is not called where [`Self::reverse_scratch`] tells
    /// no bytes.
    ///
    /// # Errors
    ///
    /// The output leaves the grid's range.
    fn fused_reverse(
        &self,
        parts: &Self::Parts<'_>,
        (x, dy): (Tensor<D>, Tensor<D>),
        output: &mut Output,
        dx: (&mut [f32], Base),
        gradients: &mut Gradients,
    ) -> Result<(), GridOverflow> {
        let _ = (parts, x, dy, output, dx, gradients);
        unreachable!("recovered and differentiated one after the other")
    }

    /// Multiply-adds of the largest product of its forward: as a rule that with the weights of queries, keys and values.
    fn largest_product(&self, dims: [usize; D]) -> usize {
        3 * dims.iter().product::<usize>() * dims[D - 1]
    }

    /// The kernel's part of a [`FusedSaved`].
    fn kernel_saved(&self, dims: [usize; D], context: &Context<'_>) -> KernelLens;

    /// By how much a forward and a vjp exceed what is saved, masks not counted: see [`Footprint`].
    fn fused_scratch(&self, dims: [usize; D], context: &Context<'_>) -> FusedScratch;
}

/// Floats of the buffers that a kernel saves.
#[derive(Default)]
pub struct KernelLens {
    /// Of those that stay as they are.
    pub statistics: Vec<usize>,
    /// Of those that may be [rounded](Rounds).
    pub values: Vec<usize>,
}

impl KernelLens {
    /// Bytes that they and an input of so many floats hold, and by how much less in 16 bits.
    fn bytes(self, input: usize) -> (u64, u64) {
        let Self { statistics, values } = self;
        let less = spared(values.iter().copied());
        let saved = lent(statistics.into_iter().chain(values));
        (saved + (input * size_of::<f32>()) as u64, less + (input * size_of::<u16>()) as u64)
    }
}

/// Bytes of temporaries on fused kernels.
pub struct FusedScratch {
    /// As [`Footprint::forward`].
    pub forward: u64,
    /// As [`Footprint::vjp`].
    pub vjp: u64,
}

/// A sub-block's parameters, with which its kernel runs.
pub trait FusedParts<const D: usize> {
    /// What the derivative needs, beside the input.
    type Saved;

    /// Writes the output.
    ///
    /// # Errors
    ///
    /// The output leaves the grid's range.
    fn forward(&self, x: &Tensor<D>, output: &mut Output) -> Result<(), GridOverflow>;

    /// Writes the output.
    ///
    /// # Errors
    ///
    /// The output leaves the grid's range.
    fn forward_saving(&self, x: &Tensor<D>, output: &mut Output) -> Result<Self::Saved, GridOverflow>;
}

/// What the derivative on fused kernels needs.
pub struct FusedSaved<const D: usize, K> {
    /// The input.
    pub x: Tensor<D>,
    /// What the kernel saved.
    pub kernel: K,
    bytes: u64,
}

/// What the derivative needs, by the way that it goes.
pub enum Ways<const D: usize, B, K> {
    /// Burn's operations.
    Burn(Box<B>),
    /// Fused kernels.
    Fused(Box<FusedSaved<D, K>>),
}

impl<const D: usize, K: Rounds> FusedSaved<D, K> {
    fn store(&mut self, storing: &Storing<'_>) {
        let before = self.x.bytes();
        self.x.store(storing);
        let less = storing.kernel(&mut self.kernel);
        self.bytes = (self.bytes + self.x.bytes() - before).saturating_add_signed(-less);
    }
}

impl<const D: usize, B: Saved, K: Rounds + Send + 'static> Saved for Ways<D, B, K> {
    fn bytes(&self) -> u64 {
        match self {
            Self::Burn(saved) => saved.bytes(),
            Self::Fused(saved) => saved.bytes,
        }
    }

    fn store(&mut self, storing: &Storing<'_>) {
        match self {
            Self::Burn(saved) => saved.store(storing),
            Self::Fused(saved) => saved.store(storing),
        }
    }
}

/// The kernel's parts, where its output can be added to a stream before anything else is done to it.
fn parts_onto<'p, const D: usize, T: FusedWay<D>>(
    sub_block: &T,
    dims: [usize; D],
    context: &Context<'p>,
) -> Option<T::Parts<'p>> {
    if sub_block.rates().apply(context) { None } else { sub_block.parts(dims, Use::Forward, context) }
}

fn fused_saved<const D: usize, T: FusedWay<D>>(
    sub_block: &T,
    x: Tensor<D>,
    kernel: T::KernelSaved,
    context: &Context<'_>,
) -> Ways<D, T::BurnSaved, T::KernelSaved> {
    let dims = x.dims();
    let (bytes, _) = sub_block.kernel_saved(dims, context).bytes(dims.iter().product());
    Ways::Fused(Box::new(FusedSaved { x, kernel, bytes }))
}

/// Bytes of a tensor of `f32`.
fn bytes_of<const D: usize>(dims: [usize; D]) -> u64 {
    (dims.iter().product::<usize>() * size_of::<f32>()) as u64
}

impl<const D: usize, T: FusedWay<D>> Residual<D> for T {
    type Saved = Ways<D, T::BurnSaved, T::KernelSaved>;

    fn forward(&self, x: Tensor<D>, context: &Context<'_>) -> Tensor<D> {
        let y = match self.parts(x.dims(), Use::Forward, context) {
            Some(parts) => value(self.output_dims(x.dims()), |output| parts.forward(&x, output)).0,
            None => self.burn_forward(x, context).0,
        };
        self.rates().masked(y, context)
    }

    fn forward_saving(&self, x: Tensor<D>, context: &Context<'_>) -> (Tensor<D>, Self::Saved) {
        let (y, saved) = if let Some(parts) = self.parts(x.dims(), Use::Forward, context) {
            let (y, saved) = value(self.output_dims(x.dims()), |output| parts.forward_saving(&x, output));
            (y, fused_saved(self, x, saved, context))
        } else {
            let (y, saved) = self.burn_forward(x, context);
            (y, Ways::Burn(Box::new(saved)))
        };
        (self.rates().masked(y, context), saved)
    }

    fn vjp(
        &self,
        saved: Self::Saved,
        dy: Tensor<D>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Tensor<D> {
        let dy = self.rates().masked_gradient(dy, context);
        match saved {
            Ways::Burn(saved) => self.burn_vjp(*saved, dy, context, gradients),
            Ways::Fused(saved) => {
                let shape = saved.x.dims();
                let mut dx = blank(shape.iter().product());
                self.fused_vjp(*saved, dy, (&mut dx, Base::Nothing), context, gradients);
                tensor(dx, shape)
            }
        }
    }

    fn forward_onto(
        &self,
        x: Tensor<D>,
        base: Tensor<D>,
        direction: Direction,
        context: &Context<'_>,
    ) -> Tensor<D> {
        if let Some(parts) = parts_onto(self, x.dims(), context) {
            onto(base, direction, context, |output| parts.forward(&x, output)).0
        } else {
            context.unwatched();
            context.arithmetic().apply(base, self.forward(x, context), direction)
        }
    }

    fn forward_saving_onto(
        &self,
        x: Tensor<D>,
        base: Tensor<D>,
        direction: Direction,
        context: &Context<'_>,
    ) -> (Tensor<D>, Self::Saved) {
        if let Some(parts) = parts_onto(self, x.dims(), context) {
            let (y, saved) = onto(base, direction, context, |output| parts.forward_saving(&x, output));
            (y, fused_saved(self, x, saved, context))
        } else {
            context.unwatched();
            let (f, saved) = self.forward_saving(x, context);
            (context.arithmetic().apply(base, f, direction), saved)
        }
    }

    fn watches_range(&self) -> bool {
        true
    }

    fn vjp_onto(
        &self,
        saved: Self::Saved,
        dy: Tensor<D>,
        base: Tensor<D>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Tensor<D> {
        let dy = self.rates().masked_gradient(dy, context);
        match saved {
            Ways::Burn(saved) => base + self.burn_vjp(*saved, dy, context, gradients),
            Ways::Fused(saved) => {
                let write = |base: Option<&[f32]>, dx: &mut [f32]| {
                    let base = base.map_or(Base::Itself, Base::Other);
                    self.fused_vjp(*saved, dy, (dx, base), context, gradients);
                };
                update(base, write).0
            }
        }
    }

    fn reverse_onto(
        &self,
        x: Tensor<D>,
        y: Tensor<D>,
        dy: Tensor<D>,
        base: Tensor<D>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> (Tensor<D>, Tensor<D>) {
        if reverse::scratch(self, x.dims(), context).is_none() {
            return in_turn(self, (x, y), (dy, base), context, gradients);
        }
        context.note(Activity::Grads, || reverse::in_one(self, (x, y), (dy, base), context, gradients))
    }

    fn reversal(&self, dims: [usize; D], context: &Context<'_>) -> Option<Reversal> {
        match reverse::scratch(self, dims, context) {
            Some(scratch) => Some(Reversal { saved: 0, scratch }),
            None => Some(Reversal::in_turn(dims, self.footprint(dims, context)?)),
        }
    }

    fn shared_work(&self, dims: [usize; D], context: &Context<'_>) -> usize {
        if self.fuses(context) { self.largest_product(dims) } else { 0 }
    }

    fn footprint(&self, dims: [usize; D], context: &Context<'_>) -> Option<Footprint> {
        if !self.fuses(context) {
            return Some(self.burn_footprint(dims, context));
        }
        let masks = if self.rates().apply(context) { 2 * bytes_of(self.output_dims(dims)) } else { 0 };
        let FusedScratch { forward, vjp } = self.fused_scratch(dims, context);
        let (saved, spared) = self.kernel_saved(dims, context).bytes(dims.iter().product());
        Some(Footprint { saved, forward: forward + masks, vjp: vjp + masks, spared })
    }
}
