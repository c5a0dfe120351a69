//! The backward pass: a fold of `join(grads, recover)` from the last piece to the first.

use crate::network::Output;
use crate::{
    Activity, AnySaved, Block, Gradients, Head, Held, Holder, Kept, Network, Pass, Piece, Result, Saved,
    Stem, Streams,
};

use super::beside::Beside;
use super::snapshots::Snapshots;
use super::trail::{Recorded, StemTrail, Trail, Way};
use super::{FIRST_PIECE, STEM, Scratch};

/// A forward pass and what was kept of it, waiting for its backward.
///
/// It borrows the network, so that the parameters cannot change in between: they are needed to recover activations.
pub struct Tape<'n, const D: usize, N: Network<D>> {
    pub(super) network: &'n N,
    pub(super) trail: Trail<D, N>,
    /// What is below the trail, where that is of the last segment alone.
    pub(super) below: Option<Snapshots<D, N>>,
    pub(super) loss: f32,
    pub(super) output: Output<D, N>,
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
    ///
    /// # Errors
    ///
    /// Streams that left memory for a disk cannot be read again. Gradients are then of some of the parameters alone.
    pub fn backward(self, gradients: &mut Gradients) -> Result<(f32, Output<D, N>)> {
        let Self { network, trail, below, loss, output } = self;
        match below {
            None => drop(backward(network, trail, None, false, gradients)),
            Some(below) => below.backward(network, trail, gradients)?,
        }
        Ok((loss, output))
    }
}

/// What goes down a network in a backward pass.
#[derive(Clone, Debug)]
pub struct Descent<const D: usize> {
    /// The streams that were given, or got back, at this place; nothing where nobody recovers anything from them.
    pub streams: Option<Streams<D>>,
    /// Gradients with respect to them.
    pub gradients: Streams<D>,
}

/// The backward of a run of parts, from what comes down to what goes further down: nothing below the stem. Gradients of
/// parameters are added to `gradients`. `hand_down` asks for the streams that the run was given.
pub(super) fn backward<const D: usize, N: Network<D>>(
    network: &N,
    trail: Trail<D, N>,
    above: Option<Descent<D>>,
    hand_down: bool,
    gradients: &mut Gradients,
) -> Option<Descent<D>> {
    let Trail { pass, overlap, stem, pieces: rest, top, head } = trail;
    let meter = pass.metering();
    let pieces = network.pieces();
    let (output, dy) = match above {
        Some(Descent { streams, gradients }) => {
            let recovers = rest.last().is_some_and(|recorded| matches!(recorded.way, Way::Recover));
            let streams = streams.filter(|_| recovers || (rest.is_empty() && hand_down));
            let gradients = meter.keep(Holder::StreamGradients, gradients);
            (streams.map(|streams| meter.keep(Holder::Streams, streams)), Some(gradients))
        }
        None => (top, None),
    };

    let front = Front { pieces: &pieces, ready: Vec::new(), rest, output, hand_down, overlap };
    let given = front.tensors().chain(dy.as_ref().map(Kept::value)).next();
    let beside = Beside::on(overlap, given.map(|streams| streams.x1.device()));
    let overlap = beside.overlaps();
    // Blocks that were kept are ready as they are. To recover the one below them here already would put its saved tensors
    // beside all of theirs.
    let scratch = meter.hold(Holder::Scratch, front.scratch(false));
    let (place, last) = (FIRST_PIECE + pieces.len(), network.head());
    let (dx, mut front) = beside.run(
        || match (head, dy) {
            (Some(head), _) => {
                let (saved, held) = head.into_parts();
                let dx = pass.note(Activity::Grads, place, || {
                    last.vjp(saved, pass.weight_of_loss(), &pass.context(place), gradients)
                });
                (dx, Some(held))
            }
            (None, Some(dy)) => {
                let (dy, held) = dy.into_parts();
                (dy, Some(held))
            }
            (None, None) => unreachable!("gradients come from above or from the head"),
        },
        || front.recover(false, &pass),
    );
    let (dx, held) = dx;
    drop((held, scratch));

    let mut dx = meter.keep(Holder::StreamGradients, dx);
    loop {
        if let Some(block) = front.to_reverse() {
            dx = front.reverse(block, dx, &pass, gradients);
            let _scratch = meter.hold(Holder::Scratch, front.scratch(false));
            front = front.recover(false, &pass);
            continue;
        }
        if front.ready.is_empty() {
            break;
        }
        let _scratch = meter.hold(Holder::Scratch, front.scratch(overlap));
        let ready = std::mem::take(&mut front.ready);
        let (held, next) = beside
            .run(|| grads(&pieces, ready, dx, overlap, &pass, gradients), || front.recover(overlap, &pass));
        (dx, front) = (held.0, next);
        // Only now, so that what the meter says does not depend on which half ended first.
        drop(held.1);
    }

    let (dx, _held) = dx.into_parts();
    let Some(stem) = stem else {
        let streams = front.output.filter(|_| hand_down).map(|output| output.into_parts().0);
        return Some(Descent { streams, gradients: dx });
    };
    let context = pass.context(STEM);
    let (saved, _held) = match stem {
        StemTrail::Saved(saved) => {
            let (saved, held) = saved.into_parts();
            let saved = pass.restore(saved);
            let whole = pass.stores().then(|| meter.hold(Holder::Ends, saved.bytes()));
            (saved, (held, whole))
        }
        StemTrail::Rerun(input) => {
            let again = || network.stem().forward_saving(input, &context).1;
            let saved = pass.note(Activity::Recover, STEM, again);
            let held = meter.hold(Holder::Ends, saved.bytes());
            (saved, (held, None))
        }
    };
    pass.note(Activity::Grads, STEM, || network.stem().vjp(saved, dx, &context, gradients));
    None
}

/// A piece whose gradients can be computed.
struct Ready {
    index: usize,
    saved: Kept<AnySaved>,
    scratch: Scratch,
}

/// Where recovery has come to.
struct Front<'n, const D: usize> {
    /// All pieces of the network.
    pieces: &'n [Piece<'n, D>],
    /// Pieces whose gradients can be computed, from the top down.
    ready: Vec<Ready>,
    /// Pieces below them.
    rest: Vec<Recorded<D>>,
    /// What the uppermost of `rest` gave, if it must be recovered from it; at the end, what the lowest piece was given,
    /// if that is handed down.
    output: Option<Kept<Streams<D>>>,
    hand_down: bool,
    /// Whether blocks are recovered beside gradients, or else reversed.
    overlap: bool,
}

impl<'n, const D: usize> Front<'n, D> {
    /// How many of the uppermost of `rest` a call of [`Self::recover`] takes: pieces whose saved tensors were kept, or one
    /// that must be recovered or rerun; both, if it goes `beyond` those that were kept. Else that one waits until the
    /// gradients of the pieces above are done and their tensors gone.
    fn reach(&self, beyond: bool) -> usize {
        let kept = self.rest.iter().rev().take_while(|recorded| recorded.is_saved()).count();
        let next = self.rest.iter().rev().nth(kept);
        let is_taken =
            |next: &Recorded<D>| (beyond || kept == 0) && (self.overlap || !matches!(next.way, Way::Recover));
        if next.is_some_and(is_taken) { kept + 1 } else { kept }
    }

    /// The block that is to be reversed next, if it is the turn of one.
    fn to_reverse(&self) -> Option<&'n dyn Block<D>> {
        let next = self.rest.last().filter(|next| matches!(next.way, Way::Recover))?;
        match self.pieces[next.index] {
            Piece::Block(block) if !self.overlap && self.ready.is_empty() => Some(block),
            _ => None,
        }
    }

    /// Reverses `block`, the uppermost of `rest`: gradients with respect to what it was given, from those to what it gave.
    fn reverse(
        &mut self,
        block: &dyn Block<D>,
        dy: Kept<Streams<D>>,
        pass: &Pass,
        gradients: &mut Gradients,
    ) -> Kept<Streams<D>> {
        let (Some(Recorded { index, .. }), Some(output)) = (self.rest.pop(), self.output.take()) else {
            unreachable!("what a block gave comes from above")
        };
        let meter = pass.metering();
        let (y, held) = output.into_parts();
        let (dy, held_dy) = dy.into_parts();
        let (x, dx) = block.reverse(y, dy, &pass.context(FIRST_PIECE + index), gradients);
        drop((held, held_dy));
        self.output = self.wants_input().then(|| meter.keep(Holder::Streams, x));
        meter.keep(Holder::StreamGradients, dx)
    }

    /// Bytes of temporaries, of the gradients at hand and of the next recovery. Both halves reach their most for a
    /// moment only, so that the larger of the two counts where they run side by side.
    fn scratch(&self, beyond: bool) -> u64 {
        let grads = self.ready.iter().map(|ready| ready.scratch.grads);
        let recover = self.rest.iter().rev().take(self.reach(beyond)).map(Recorded::recovering);
        grads.chain(recover).max().unwrap_or(0)
    }

    /// Streams that were kept, from the top down.
    fn tensors(&self) -> impl Iterator<Item = &Streams<D>> {
        let inputs = self.rest.iter().rev().filter_map(|recorded| recorded.input.as_ref());
        self.output.iter().chain(inputs).map(Kept::value)
    }

    /// Whether what a piece was given is still wanted: the piece below is recovered from it, or it is handed down.
    fn wants_input(&self) -> bool {
        self.rest.last().map_or(self.hand_down, |below| matches!(below.way, Way::Recover))
    }

    /// Makes the next pieces ready.
    fn recover(mut self, beyond: bool, pass: &Pass) -> Self {
        let meter = pass.metering();
        for _ in 0..self.reach(beyond) {
            let Some(Recorded { index, way, input, scratch }) = self.rest.pop() else { break };
            let place = FIRST_PIECE + index;
            let context = pass.context(place);
            let (saved, input) = match (way, self.pieces[index], input, self.output.take()) {
                (Way::Saved(saved), _, input, _) => (saved, input),
                (Way::Recover, Piece::Block(block), _, Some(output)) => {
                    let (output, held) = output.into_parts();
                    let (input, saved) =
                        pass.note(Activity::Recover, place, || block.recover(output, &context));
                    drop(held);
                    let saved = meter.keep(Holder::Blocks, saved);
                    // Nobody recovers anything from the inputs of the first piece, nor from those of a piece above one
                    // that was kept.
                    (saved, self.wants_input().then(|| meter.keep(Holder::Streams, input)))
                }
                (Way::Rerun, Piece::Transition(transition), Some(input), _) => {
                    let (input, held) = input.into_parts();
                    let again = || transition.forward_saving(input.clone(), &context).1;
                    let saved = meter.keep(Holder::Transitions, pass.note(Activity::Recover, place, again));
                    (saved, self.wants_input().then(|| held.keep(input)))
                }
                _ => unreachable!(
                    "the forward keeps the inputs of transitions that are rerun, and the outputs of blocks to be \
                     recovered come from above"
                ),
            };
            self.ready.push(Ready { index, saved, scratch });
            self.output = input;
        }
        self
    }
}

/// Gradients through the pieces that are ready. With overlap, the guards that count their saved tensors are handed
/// back; without, the tensors are gone one after the other.
fn grads<const D: usize>(
    pieces: &[Piece<'_, D>],
    ready: Vec<Ready>,
    dy: Kept<Streams<D>>,
    overlap: bool,
    pass: &Pass,
    gradients: &mut Gradients,
) -> (Kept<Streams<D>>, Vec<Held>) {
    let meter = pass.metering();
    let mut used = Vec::new();
    let dx = ready.into_iter().fold(dy, |dy, Ready { index, saved, .. }| {
        let context = pass.context(FIRST_PIECE + index);
        let (dy, held_dy) = dy.into_parts();
        let (saved, held) = saved.into_parts();
        let dx = pass.note(Activity::Grads, FIRST_PIECE + index, || match pieces[index] {
            Piece::Block(block) => block.grads(pass.restore(saved), dy, &context, gradients),
            Piece::Transition(transition) => transition.vjp(pass.restore(saved), dy, &context, gradients),
        });
        used.extend(overlap.then_some(held));
        drop(held_dy);
        meter.keep(Holder::StreamGradients, dx)
    });
    (dx, used)
}
