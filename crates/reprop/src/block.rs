//! Pieces of a network: reversible blocks, and the ordinary parts between and around them.

use burn::tensor::Tensor;

use crate::{Activity, AnySaved, Context, Footprint, Gradients, Holder, Result, Saved, Streams};

/// Bytes that a block will need beside the streams it is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockFootprint {
    /// What is kept for its gradients by a forward.
    pub saved: u64,
    /// What is kept for its gradients by a recover, which may be less.
    pub recovered: u64,
    /// The most that a forward needs beside streams and saved tensors.
    pub forward: u64,
    /// The most that a recover needs beside streams and saved tensors.
    pub recover: u64,
    /// The most that grads needs beside saved tensors and stream gradients.
    pub grads: u64,
    /// The most that a reverse keeps for gradients at a time.
    pub reversed: u64,
    /// The most that a reverse needs beside streams, their gradients and that.
    pub reverse: u64,
    /// By how much less `saved` is in a pass that keeps floats in [16 bits](crate::Pass::saved_in).
    pub spared: u64,
}

impl BlockFootprint {
    /// Of a transition whose outputs have this shape. Where it is recomputed, they are made once more.
    pub(crate) fn of_transition<const D: usize>(dims: [usize; D], told: Footprint) -> Self {
        let Footprint { saved, forward, vjp, spared } = told;
        let outputs = 2 * (dims.iter().product::<usize>() * size_of::<f32>()) as u64;
        let recover = forward + outputs;
        // Nothing is reversed here.
        Self { saved, recovered: saved, forward, recover, grads: vjp, spared, ..Self::default() }
    }

    /// Of a piece whose saved tensors are kept in 16 bits. They are there in four bytes too, beside what else is needed or beside
    /// themselves in 16 bits, while they are made and while they are used.
    pub(crate) fn stored(self) -> Self {
        let Self { saved, spared, .. } = self;
        let beside = |scratch: u64| if spared == 0 { scratch } else { saved.max(spared + scratch) };
        let (forward, grads) = (beside(self.forward), beside(self.grads));
        Self { saved: saved - spared, forward, grads, spared: 0, ..self }
    }
}

/// A reversible block: its inputs can be had back from its outputs.
///
/// Nearly every block is a [`Couple`](crate::Couple), which implements this.
pub trait Block<const D: usize>: Send + Sync {
    /// The outputs.
    fn forward(&self, x: Streams<D>, context: &Context<'_>) -> Streams<D>;

    /// The outputs, and what [`Self::grads`] needs.
    fn forward_saving(&self, x: Streams<D>, context: &Context<'_>) -> (Streams<D>, AnySaved);

    /// The inputs from the outputs.
    fn inverse(&self, y: Streams<D>, context: &Context<'_>) -> Streams<D>;

    /// The inputs from the outputs, and what [`Self::grads`] needs.
    fn recover(&self, y: Streams<D>, context: &Context<'_>) -> (Streams<D>, AnySaved);

    /// From the gradients of the outputs those of the inputs; gradients of parameters are added to `gradients`.
    fn grads(
        &self,
        saved: AnySaved,
        dy: Streams<D>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Streams<D>;

    /// The inputs from the outputs, and the gradients of the inputs from those of the outputs: [`Self::recover`] and
    /// [`Self::grads`] in one. A block of several sub-blocks can take one after the other, so that what is saved of one
    /// is gone before the next is recovered. The engine counts streams and their gradients alone here, and what a block
    /// [holds](Context::hold) itself.
    fn reverse(
        &self,
        y: Streams<D>,
        dy: Streams<D>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> (Streams<D>, Streams<D>) {
        let scratch = self.footprint(y.dims(), context).map_or(0, |told| told.reverse);
        let _scratch = context.hold(Holder::Scratch, scratch);
        let (x, saved) = context.note(Activity::Recover, || self.recover(y, context));
        let _held = context.hold(Holder::Blocks, saved.bytes());
        let dx = context.note(Activity::Grads, || self.grads(saved, dy, context, gradients));
        (x, dx)
    }

    /// Whether each stream that [`Self::forward`] and [`Self::forward_saving`] give is one that they were given, or was written
    /// by a sub-block that [looks](crate::Residual::watches_range) at it. The engine reads it again where this is false.
    fn watches_range(&self) -> bool {
        false
    }

    /// The least [work that threads share](crate::Residual::shared_work) of its sub-blocks for streams of shape `dims`.
    fn shared_work(&self, dims: [usize; D], context: &Context<'_>) -> usize {
        let _ = (dims, context);
        0
    }

    /// The bytes that the methods will need for streams of shape `dims`, or `None` where that cannot be told.
    fn footprint(&self, dims: [usize; D], context: &Context<'_>) -> Option<BlockFootprint>;
}

/// An ordinary, non-reversible block between two stages: it changes the streams' shape, or fuses them.
///
/// [`AutodiffTransition`](crate::AutodiffTransition) writes this for a plain Burn module.
pub trait Transition<const D: usize>: Send + Sync {
    /// The next stage's inputs from the last one's outputs.
    fn forward(&self, x: Streams<D>, context: &Context<'_>) -> Streams<D> {
        self.forward_saving(x, context).0
    }

    /// The same, and what [`Self::vjp`] needs.
    fn forward_saving(&self, x: Streams<D>, context: &Context<'_>) -> (Streams<D>, AnySaved);

    /// From the gradients of the outputs those of the inputs.
    fn vjp(
        &self,
        saved: AnySaved,
        dy: Streams<D>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Streams<D>;

    /// Whether the outputs are on the streams' grid already, and the pass was [told](Context::unwatched) of what is outside its
    /// range. The engine takes them there where this is false.
    fn enters(&self, context: &Context<'_>) -> bool {
        let _ = context;
        false
    }

    /// The shape of the outputs, and the bytes that the methods will need, or `None` where that cannot be told.
    fn footprint(&self, dims: [usize; D], context: &Context<'_>) -> Option<([usize; D], Footprint)> {
        let _ = (dims, context);
        None
    }
}

/// What comes before the first block: from the network's input to streams.
pub trait Stem<const D: usize>: Send + Sync {
    /// The network's input.
    type Input: Clone + Send;
    /// What the derivative needs.
    type Saved: Saved;

    /// An error if the input's shape does not fit, before anything runs on it.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`](crate::Error::Shape), naming both shapes.
    fn check(&self, input: &Self::Input) -> Result<()> {
        let _ = input;
        Ok(())
    }

    /// The streams.
    fn forward(&self, input: Self::Input, context: &Context<'_>) -> Streams<D> {
        self.forward_saving(input, context).0
    }

    /// The streams, and what [`Self::vjp`] needs.
    fn forward_saving(&self, input: Self::Input, context: &Context<'_>) -> (Streams<D>, Self::Saved);

    /// As [`Transition::enters`].
    fn enters(&self, context: &Context<'_>) -> bool {
        let _ = context;
        false
    }

    /// Gradients of parameters from those of the streams.
    fn vjp(&self, saved: Self::Saved, dx: Streams<D>, context: &Context<'_>, gradients: &mut Gradients);

    /// The shape of the streams for a batch of `batch` samples, and the bytes that the methods will need, or `None`
    /// where that cannot be told.
    fn footprint(&self, batch: usize, context: &Context<'_>) -> Option<([usize; D], Footprint)> {
        let _ = (batch, context);
        None
    }
}

/// What comes after the last block: from streams to an output, and to a loss.
pub trait Head<const D: usize>: Send + Sync {
    /// What the output is compared with.
    type Target: Clone + Send;
    /// What the network says.
    type Output;
    /// What the derivative needs.
    type Saved: Saved;

    /// An error if the targets do not fit a batch of `batch` samples, before anything runs on them.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`](crate::Error::Shape), naming both shapes.
    fn check(&self, target: &Self::Target, batch: usize) -> Result<()> {
        let _ = (target, batch);
        Ok(())
    }

    /// The output alone.
    fn predict(&self, x: Streams<D>, context: &Context<'_>) -> Self::Output;

    /// The loss (one element), the output, and what [`Self::vjp`] needs.
    fn loss_saving(
        &self,
        x: Streams<D>,
        target: Self::Target,
        context: &Context<'_>,
    ) -> (Tensor<1>, Self::Output, Self::Saved);

    /// Gradients of the streams from `weight` times the loss's.
    fn vjp(
        &self,
        saved: Self::Saved,
        weight: f64,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Streams<D>;

    /// The bytes that the methods will need for streams of shape `dims`, or `None` where that cannot be told.
    fn footprint(&self, dims: [usize; D], context: &Context<'_>) -> Option<Footprint> {
        let _ = (dims, context);
        None
    }
}

/// One piece of a network between stem and head.
#[derive(Clone, Copy)]
pub enum Piece<'n, const D: usize> {
    /// A reversible block.
    Block(&'n dyn Block<D>),
    /// An ordinary block between two stages.
    Transition(&'n dyn Transition<D>),
}
