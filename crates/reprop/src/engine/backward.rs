//! The backward pass: a fold of `join(grads, recover)` from the last piece to the first.

use crate::network::Output;
use crate::{AnySaved, Gradients, Head, Held, Holder, Kept, Network, Pass, Piece, Stem, Streams};

use super::{FIRST_PIECE, STEM, plan};

/// A forward pass and what was kept of it, waiting for its backward.
///
/// It borrows the network, so that the parameters cannot change in between: they are needed to recover activations.
pub struct Tape<'n, const D: usize, N: Network<D> + ?Sized> {
    pub(super) network: &'n N,
    pub(super) pass: Pass,
    pub(super) overlap: bool,
    pub(super) stem: Kept<<N::Stem as Stem<D>>::Saved>,
    pub(super) pieces: Vec<Recorded<'n, D>>,
    /// What the last piece gave, if it must be recovered from it.
    pub(super) top: Option<Kept<Streams<D>>>,
    pub(super) head: Kept<<N::Head as Head<D>>::Saved>,
    pub(super) loss: f32,
    pub(super) output: Output<D, N>,
}

/// A piece and what the forward kept of it.
pub(super) struct Recorded<'n, const D: usize> {
    pub piece: Piece<'n, D>,
    pub index: usize,
    /// What its gradients need; `None` if that is to be recovered.
    pub saved: Option<Kept<AnySaved>>,
    /// What it was given, if the piece below is to be recovered from it.
    pub input: Option<Kept<Streams<D>>>,
}

/// A piece whose gradients can be computed.
struct Ready<'n, const D: usize> {
    piece: Piece<'n, D>,
    index: usize,
    saved: Kept<AnySaved>,
}

/// Where recovery has come to.
struct Front<'n, const D: usize> {
    /// Pieces whose gradients can be computed, from the top down.
    ready: Vec<Ready<'n, D>>,
    /// Pieces below them.
    rest: Vec<Recorded<'n, D>>,
    /// What the uppermost of `rest` gave, if it must be recovered from it.
    output: Option<Kept<Streams<D>>>,
}

impl<const D: usize, N: Network<D>> Tape<'_, D, N> {
    /// The loss of this pass.
    pub fn loss(&self) -> f32 {
        self.loss
    }

    /// The output of this pass.
    pub fn output(&self) -> &Output<D, N> {
        &self.output
    }

    /// Adds the gradients of the loss to `gradients`, and returns loss and output.
    pub fn backward(self, gradients: &mut Gradients) -> (f32, Output<D, N>) {
        let Self { network, pass, overlap, stem, pieces, top, head, loss, output } = self;
        let meter = pass.metering();

        let (saved, held) = head.into_parts();
        let head = network.head();
        let context = pass.context(FIRST_PIECE + pieces.len());
        let front = Front { ready: Vec::new(), rest: pieces, output: top };
        let (dx, mut front) = both(
            overlap,
            || head.vjp(saved, pass.weight_of_loss(), &context, gradients),
            || front.recover(&pass),
        );
        drop(held);

        let mut dx = meter.keep(Holder::StreamGradients, dx);
        while !front.ready.is_empty() {
            let Front { ready, rest, output } = front;
            let below = Front { ready: Vec::new(), rest, output };
            let (held, next) = both(overlap, || grads(ready, dx, &pass, gradients), || below.recover(&pass));
            (dx, front) = (held.0, next);
            // Only now, so that what the meter says does not depend on which half ended first.
            drop(held.1);
        }

        let (dx, _held) = dx.into_parts();
        let (stem, _held) = stem.into_parts();
        network.stem().vjp(stem, dx, &pass.context(STEM), gradients);
        (loss, output)
    }
}

/// Both results: side by side if `overlap`, else one after the other.
fn both<A: Send, B: Send>(
    overlap: bool,
    first: impl FnOnce() -> A + Send,
    second: impl FnOnce() -> B + Send,
) -> (A, B) {
    if overlap { rayon::join(first, second) } else { (first(), second()) }
}

impl<const D: usize> Front<'_, D> {
    /// Makes the next block ready, and every piece above it whose saved tensors were kept.
    fn recover(mut self, pass: &Pass) -> Self {
        let meter = pass.metering();
        while let Some(Recorded { piece, index, saved, input }) = self.rest.pop() {
            if let Some(saved) = saved {
                self.ready.push(Ready { piece, index, saved });
                self.output = input;
                continue;
            }
            let (Piece::Block(block), Some(output)) = (piece, self.output.take()) else {
                unreachable!(
                    "the forward keeps what a transition saved, and the output of each block to be recovered"
                )
            };
            let context = pass.context(FIRST_PIECE + index);
            let (output, held) = output.into_parts();
            let _scratch = meter.hold(Holder::Scratch, plan::forward_scratch(piece, output.dims(), &context));
            let (input, saved) = block.recover(output, &context);
            drop(held);
            self.ready.push(Ready { piece, index, saved: meter.keep(Holder::Blocks, saved) });
            // Nobody recovers anything from the inputs of the first piece.
            self.output = (!self.rest.is_empty()).then(|| meter.keep(Holder::Streams, input));
            break;
        }
        self
    }
}

/// Gradients through the pieces that are ready. The guards that count their saved tensors are handed back.
fn grads<const D: usize>(
    ready: Vec<Ready<'_, D>>,
    dy: Kept<Streams<D>>,
    pass: &Pass,
    gradients: &mut Gradients,
) -> (Kept<Streams<D>>, Option<Held>) {
    let meter = pass.metering();
    let mut last = None;
    let dx = ready.into_iter().fold(dy, |dy, Ready { piece, index, saved }| {
        let context = pass.context(FIRST_PIECE + index);
        let (dy, held_dy) = dy.into_parts();
        let (saved, held) = saved.into_parts();
        last = Some(held);
        let _scratch = meter.hold(Holder::Scratch, plan::grads_scratch(piece, dy.dims(), &context));
        let dx = match piece {
            Piece::Block(block) => block.grads(saved, dy, &context, gradients),
            Piece::Transition(transition) => transition.vjp(saved, dy, &context, gradients),
        };
        drop(held_dy);
        meter.keep(Holder::StreamGradients, dx)
    });
    (dx, last)
}
