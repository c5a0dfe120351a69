//! The forward pass: through the pieces once, keeping what the plan says.

use crate::arithmetic::RangeWatch;
use crate::network::is_trainable;
use crate::strategy::Plan;
use crate::{Activity, Error, Head, Holder, Kept, Network, Pass, Piece, Result, Stem, Strategy, Streams};

use super::backward::{Recorded, Tape};
use super::{FIRST_PIECE, STEM, Scratch, plan};

type Input<const D: usize, N> = crate::network::Input<D, N>;
type Target<const D: usize, N> = crate::network::Target<D, N>;
type Output<const D: usize, N> = crate::network::Output<D, N>;

/// The output alone.
pub(crate) fn predict<const D: usize, N: Network<D>>(
    network: &N,
    input: Input<D, N>,
    pass: &Pass,
) -> Result<Output<D, N>> {
    let streams = streams(network, input, pass)?;
    Ok(network.head().predict(streams, &pass.context(FIRST_PIECE + network.pieces().len())))
}

/// The streams as they leave the last piece.
pub(crate) fn streams<const D: usize, N: Network<D>>(
    network: &N,
    input: Input<D, N>,
    pass: &Pass,
) -> Result<Streams<D>> {
    network.stem().check(&input)?;
    let mut watch = RangeWatch::new(pass.arithmetic_of_streams());
    let mut streams = enter(network.stem().forward(input, &pass.context(STEM)), pass);
    look(&mut watch, &streams);
    for (index, piece) in network.pieces().into_iter().enumerate() {
        let context = pass.context(FIRST_PIECE + index);
        streams = match piece {
            Piece::Block(block) => block.forward(streams, &context),
            Piece::Transition(transition) => enter(transition.forward(streams, &context), pass),
        };
        look(&mut watch, &streams);
    }
    watch.check()?;
    Ok(streams)
}

/// The inputs of the last stage from its outputs.
pub(crate) fn inverse<const D: usize, N: Network<D>>(network: &N, y: Streams<D>, pass: &Pass) -> Streams<D> {
    let pieces = network.pieces();
    let stage = pieces.iter().enumerate().rev().map_while(|(index, piece)| match piece {
        Piece::Block(block) => Some((index, *block)),
        Piece::Transition(_) => None,
    });
    stage.fold(y, |streams, (index, block)| block.inverse(streams, &pass.context(FIRST_PIECE + index)))
}

/// A forward pass that keeps what the strategy needs.
pub(crate) fn record<const D: usize, N: Network<D>>(
    network: &N,
    input: Input<D, N>,
    target: Target<D, N>,
    pass: Pass,
    strategy: Strategy,
) -> Result<Tape<'_, D, N>> {
    if !is_trainable(network) {
        return Err(Error::NothingToTrain);
    }
    network.stem().check(&input)?;

    let meter = pass.metering().clone();
    let (streams, stem) =
        pass.note(Activity::Forward, STEM, || network.stem().forward_saving(input, &pass.context(STEM)));
    let stem = meter.keep(Holder::Ends, stem);
    let streams = enter(streams, &pass);
    let batch = streams.dims()[0];
    network.head().check(&target, batch)?;
    let plan = plan::choose(network, batch, &pass, strategy)?;

    let mut watch = RangeWatch::new(pass.arithmetic_of_streams());
    look(&mut watch, &streams);
    let mut streams = meter.keep(Holder::Streams, streams);
    let mut pieces = Vec::new();
    for (index, piece) in network.pieces().into_iter().enumerate() {
        let (next, recorded) = record_piece(piece, index, streams, &pieces, plan, &pass);
        look(&mut watch, next.value());
        streams = next;
        pieces.push(recorded);
    }

    let context = pass.context(FIRST_PIECE + pieces.len());
    let (streams, held) = streams.into_parts();
    let (held, top) = if needs_its_output(pieces.last()) {
        (None, Some(held.keep(streams.clone())))
    } else {
        (Some(held), None)
    };
    let (loss, output, head) = pass.note(Activity::Forward, FIRST_PIECE + pieces.len(), || {
        network.head().loss_saving(streams, target, &context)
    });
    drop(held);
    let head = meter.keep(Holder::Ends, head);

    watch.check()?;
    let loss = loss.into_scalar::<f32>();
    if !loss.is_finite() {
        return Err(Error::LossNotFinite { loss, step: pass.step_number() });
    }
    Ok(Tape { network, pass, overlap: plan.overlap, stem, pieces, top, head, loss, output })
}

/// Runs one piece and keeps of it what the plan says.
fn record_piece<'n, const D: usize>(
    piece: Piece<'n, D>,
    index: usize,
    streams: Kept<Streams<D>>,
    below: &[Recorded<'n, D>],
    plan: Plan,
    pass: &Pass,
) -> (Kept<Streams<D>>, Recorded<'n, D>) {
    let meter = pass.metering();
    let context = pass.context(FIRST_PIECE + index);
    let scratch = Scratch::of(piece, streams.value().dims(), &context);
    let _scratch = meter.hold(Holder::Scratch, scratch.forward);
    let (streams, held) = streams.into_parts();
    let recomputes = matches!(piece, Piece::Transition(_)) && pass.recomputes_transitions();
    let keeps = !recomputes && !matches!(piece, Piece::Block(_) if index < plan.keep_from);
    // What is kept of the input is what was in flight: the same bytes, counted once.
    let (held, input) = if recomputes || keeps && needs_its_output(below.last()) {
        (None, Some(held.keep(streams.clone())))
    } else {
        (Some(held), None)
    };
    let (next, saved) = pass.note(Activity::Forward, FIRST_PIECE + index, || match piece {
        Piece::Block(block) if keeps => {
            let (next, saved) = block.forward_saving(streams, &context);
            (next, Some(meter.keep(Holder::Blocks, saved)))
        }
        Piece::Block(block) => (block.forward(streams, &context), None),
        Piece::Transition(transition) if recomputes => {
            (enter(transition.forward(streams, &context), pass), None)
        }
        Piece::Transition(transition) => {
            let (next, saved) = transition.forward_saving(streams, &context);
            (enter(next, pass), Some(meter.keep(Holder::Transitions, saved)))
        }
    });
    drop(held);
    (meter.keep(Holder::Streams, next), Recorded { piece, index, saved, input, scratch })
}

/// Whether the piece below must be recovered, so that its output has to be kept by what comes above.
fn needs_its_output<const D: usize>(below: Option<&Recorded<'_, D>>) -> bool {
    below.is_some_and(Recorded::needs_its_output)
}

fn enter<const D: usize>(Streams { x1, x2 }: Streams<D>, pass: &Pass) -> Streams<D> {
    let arithmetic = pass.arithmetic_of_streams();
    Streams::new(arithmetic.enter(x1), arithmetic.enter(x2))
}

fn look<const D: usize>(watch: &mut RangeWatch, streams: &Streams<D>) {
    watch.look(&streams.x1);
    watch.look(&streams.x2);
}
