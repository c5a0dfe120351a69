//! The backward pass: a fold of `join(grads, recover)` from the last piece to the first.

use crate::network::Output;
use crate::{Activity, AnySaved, Gradients, Head, Held, Holder, Kept, Network, Pass, Piece, Stem, Streams};

use super::{FIRST_PIECE, STEM, Scratch};

/// A forward pass and what was kept of it, waiting for its backward.
///
/// It borrows the network, so that the parameters cannot change in between: they are needed to recover activations.
pub struct Tape<'n, const D: usize, N: Network<D>> {
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
    /// What it was given, if the piece below is to be recovered from it, or the piece itself to be recomputed.
    pub input: Option<Kept<Streams<D>>>,
    pub scratch: Scratch,
}

impl<const D: usize> Recorded<'_, D> {
    /// Whether the piece must be recovered from its output.
    pub fn needs_its_output(&self) -> bool {
        matches!(self.piece, Piece::Block(_)) && self.saved.is_none()
    }
}

/// A piece whose gradients can be computed.
struct Ready<'n, const D: usize> {
    piece: Piece<'n, D>,
    index: usize,
    saved: Kept<AnySaved>,
    scratch: Scratch,
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
        let place = FIRST_PIECE + pieces.len();
        let context = pass.context(place);
        let front = Front { ready: Vec::new(), rest: pieces, output: top };
        let scratch = meter.hold(Holder::Scratch, front.scratch(overlap));
        let (dx, mut front) = both(
            overlap,
            || {
                pass.note(Activity::Grads, place, || {
                    head.vjp(saved, pass.weight_of_loss(), &context, gradients)
                })
            },
            || front.recover(overlap, &pass),
        );
        drop((held, scratch));

        let mut dx = meter.keep(Holder::StreamGradients, dx);
        while !front.ready.is_empty() {
            let _scratch = meter.hold(Holder::Scratch, front.scratch(overlap));
            let Front { ready, rest, output } = front;
            let below = Front { ready: Vec::new(), rest, output };
            let (held, next) = both(
                overlap,
                || grads(ready, dx, overlap, &pass, gradients),
                || below.recover(overlap, &pass),
            );
            (dx, front) = (held.0, next);
            // Only now, so that what the meter says does not depend on which half ended first.
            drop(held.1);
        }

        let (dx, _held) = dx.into_parts();
        let (stem, _held) = stem.into_parts();
        pass.note(Activity::Grads, STEM, || network.stem().vjp(stem, dx, &pass.context(STEM), gradients));
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
    /// How many of the uppermost of `rest` a call of [`Self::recover`] takes: pieces whose saved tensors were kept, and
    /// a block that must be recovered. Where nothing runs beside it, that block waits until the gradients of the pieces
    /// above are done and their tensors gone.
    fn reach(&self, overlap: bool) -> usize {
        let kept = self.rest.iter().rev().take_while(|recorded| recorded.saved.is_some()).count();
        if kept < self.rest.len() && (overlap || kept == 0) { kept + 1 } else { kept }
    }

    /// Bytes of temporaries, of the gradients at hand and of the next recovery. Both halves reach their most for a
    /// moment only, so that the larger of the two counts where they run side by side.
    fn scratch(&self, overlap: bool) -> u64 {
        let grads = self.ready.iter().map(|ready| ready.scratch.grads);
        let recover = self.rest.iter().rev().take(self.reach(overlap));
        let recover =
            recover.filter(|recorded| recorded.saved.is_none()).map(|recorded| recorded.scratch.recover);
        grads.chain(recover).max().unwrap_or(0)
    }

    /// Whether the uppermost of `rest` must be recovered from its output.
    fn needs_an_output(&self) -> bool {
        self.rest.last().is_some_and(Recorded::needs_its_output)
    }

    /// Makes the next pieces ready.
    fn recover(mut self, overlap: bool, pass: &Pass) -> Self {
        let meter = pass.metering();
        for _ in 0..self.reach(overlap) {
            let Some(Recorded { piece, index, saved, input, scratch }) = self.rest.pop() else { break };
            if let Some(saved) = saved {
                self.ready.push(Ready { piece, index, saved, scratch });
                self.output = input;
                continue;
            }
            let place = FIRST_PIECE + index;
            let (block, output) = match (piece, input, self.output.take()) {
                (Piece::Block(block), _, Some(output)) => (block, output),
                (Piece::Transition(transition), Some(input), _) => {
                    let (_, saved) = pass.note(Activity::Recover, place, || {
                        transition.forward_saving(input.value().clone(), &pass.context(place))
                    });
                    let saved = meter.keep(Holder::Transitions, saved);
                    self.ready.push(Ready { piece, index, saved, scratch });
                    self.output = self.needs_an_output().then_some(input);
                    continue;
                }
                _ => unreachable!(
                    "the forward keeps the output of each block to be recovered, and the input of each transition"
                ),
            };
            let (output, held) = output.into_parts();
            let (input, saved) =
                pass.note(Activity::Recover, place, || block.recover(output, &pass.context(place)));
            drop(held);
            self.ready.push(Ready { piece, index, saved: meter.keep(Holder::Blocks, saved), scratch });
            // Nobody recovers anything from the inputs of the first piece, nor from those of a piece above one that was
            // kept.
            self.output = self.needs_an_output().then(|| meter.keep(Holder::Streams, input));
        }
        self
    }
}

/// Gradients through the pieces that are ready. With overlap, the guards that count their saved tensors are handed
/// back; without, the tensors are gone one after the other.
fn grads<const D: usize>(
    ready: Vec<Ready<'_, D>>,
    dy: Kept<Streams<D>>,
    overlap: bool,
    pass: &Pass,
    gradients: &mut Gradients,
) -> (Kept<Streams<D>>, Vec<Held>) {
    let meter = pass.metering();
    let mut used = Vec::new();
    let dx = ready.into_iter().fold(dy, |dy, Ready { piece, index, saved, .. }| {
        let context = pass.context(FIRST_PIECE + index);
        let (dy, held_dy) = dy.into_parts();
        let (saved, held) = saved.into_parts();
        let dx = pass.note(Activity::Grads, FIRST_PIECE + index, || match piece {
            Piece::Block(block) => block.grads(saved, dy, &context, gradients),
            Piece::Transition(transition) => transition.vjp(saved, dy, &context, gradients),
        });
        used.extend(overlap.then_some(held));
        drop(held_dy);
        meter.keep(Holder::StreamGradients, dx)
    });
    (dx, used)
}
