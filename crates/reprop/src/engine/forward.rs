//! The forward pass: through the pieces once, keeping what the layout says.

use std::ops::Range;

use burn::tensor::Tensor;

use crate::arithmetic::RangeWatch;
use crate::network::{Input, Output, Target, is_trainable};
use crate::strategy::Layout;
use crate::{
    Activity, Block, Error, Head, Holder, Kept, Network, Pass, Piece, Result, Saved, Stem, Strategy, Streams,
};
use crate::{host, kernels};

use super::snapshots::Snapshots;
use super::trail::{Recorded, StemTrail, Trail, Way};
use super::{FIRST_PIECE, STEM, Scratch, Tape, plan};

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
    let mut watch = RangeWatch::new(pass.arithmetic_of_streams());
    let streams = enter_stem(network, input, pass, &mut watch)?;
    let streams = go_through(network, 0..network.pieces().len(), streams, pass, &mut watch);
    watch.check()?;
    Ok(streams)
}

/// The streams as they leave the stem.
pub(super) fn enter_stem<const D: usize, N: Network<D>>(
    network: &N,
    input: Input<D, N>,
    pass: &Pass,
    watch: &mut RangeWatch,
) -> Result<Streams<D>> {
    network.stem().check(&input)?;
    let context = pass.context(STEM);
    let streams = network.stem().forward(input, &context);
    pass.check_precision(&streams.x1.device())?;
    Ok(enter(network.stem().enters(&context), streams, pass, watch))
}

/// The streams as they leave the last of `range`, with nothing kept.
pub(super) fn go_through<const D: usize, N: Network<D>>(
    network: &N,
    range: Range<usize>,
    mut streams: Streams<D>,
    pass: &Pass,
    watch: &mut RangeWatch,
) -> Streams<D> {
    let pieces = network.pieces();
    for index in range {
        streams = pass_through(pieces[index], index, streams, pass, watch);
    }
    streams
}

/// As [`go_through`], counted and noted.
pub(super) fn advance<const D: usize, N: Network<D>>(
    network: &N,
    range: Range<usize>,
    mut streams: Kept<Streams<D>>,
    pass: &Pass,
    watch: &mut RangeWatch,
) -> Kept<Streams<D>> {
    let meter = pass.metering();
    let pieces = network.pieces();
    for index in range {
        let (piece, place) = (pieces[index], FIRST_PIECE + index);
        let scratch = Scratch::of(piece, streams.value().dims(), &pass.context(place));
        let _scratch = meter.hold(Holder::Scratch, scratch.forward);
        let (given, held) = streams.into_parts();
        let next = pass.note(Activity::Forward, place, || pass_through(piece, index, given, pass, watch));
        drop(held);
        streams = meter.keep(Holder::Streams, next);
    }
    streams
}

/// The streams as they leave one piece, with nothing kept.
fn pass_through<const D: usize>(
    piece: Piece<'_, D>,
    index: usize,
    streams: Streams<D>,
    pass: &Pass,
    watch: &mut RangeWatch,
) -> Streams<D> {
    let context = pass.context(FIRST_PIECE + index);
    match piece {
        Piece::Block(block) => looked_at(block, block.forward(streams, &context), pass, watch),
        Piece::Transition(transition) => {
            enter(transition.enters(&context), transition.forward(streams, &context), pass, watch)
        }
    }
}

/// Samples in a batch, as the stem tells them.
pub(crate) fn batch_of<const D: usize, N: Network<D>>(
    network: &N,
    input: Input<D, N>,
    pass: &Pass,
) -> Result<usize> {
    network.stem().check(&input)?;
    Ok(network.stem().forward(input, &pass.context(STEM)).dims()[0])
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
    let settled = plan::settled(network, strategy);
    if let Some(layout) = settled.filter(Layout::takes_snapshots) {
        return record_snapshots(network, input, target, pass, layout);
    }
    let again = matches!(strategy, Strategy::Auto { .. }).then(|| input.clone());
    let mut watch = RangeWatch::new(pass.arithmetic_of_streams());
    let (streams, stem) = record_stem(network, input, &pass, false, &mut watch)?;
    let batch = streams.value().dims()[0];
    network.head().check(&target, batch)?;
    let layout = settled.map_or_else(|| plan::choose(network, batch, &pass, strategy), Ok)?;
    if let (Some(input), true) = (again, layout.takes_snapshots()) {
        // The stem had to tell the size of the batch, and is run again.
        drop((streams, stem));
        return record_snapshots(network, input, target, pass, layout);
    }
    let (streams, pieces) =
        record_pieces(network, 0..network.pieces().len(), streams, layout, &pass, &mut watch);
    let trail = Trail { pass, overlap: layout.overlap, stem: Some(stem), pieces, top: None, head: None };
    finish(network, streams, target, (trail, None), watch)
}

/// A forward pass that keeps few of the transitions' inputs, and of the last segment what it takes to reverse that.
fn record_snapshots<const D: usize, N: Network<D>>(
    network: &N,
    input: Input<D, N>,
    target: Target<D, N>,
    pass: Pass,
    layout: Layout,
) -> Result<Tape<'_, D, N>> {
    let mut watch = RangeWatch::new(pass.arithmetic_of_streams());
    let (below, streams, range) = Snapshots::record(network, input, layout, &pass, &mut watch)?;
    network.head().check(&target, streams.value().dims()[0])?;
    let (streams, pieces) = record_pieces(network, range, streams, layout, &pass, &mut watch);
    let trail = Trail { pass, overlap: layout.overlap, stem: None, pieces, top: None, head: None };
    finish(network, streams, target, (trail, Some(below)), watch)
}

/// The end of a forward pass, of which this much was kept: the head, and an error for what left its range.
fn finish<const D: usize, N: Network<D>>(
    network: &N,
    streams: Kept<Streams<D>>,
    target: Target<D, N>,
    (mut trail, below): (Trail<D, N>, Option<Snapshots<D, N>>),
    watch: RangeWatch,
) -> Result<Tape<'_, D, N>> {
    let (loss, output) = record_head(network, streams, target, &mut trail);
    watch.check()?;
    let loss = finite(&loss, &trail.pass)?;
    Ok(Tape { network, trail, below, loss, output })
}

/// The streams as they leave the stem, and what is kept of it: its input if it is to be rerun, else what it saved.
pub(super) fn record_stem<const D: usize, N: Network<D>>(
    network: &N,
    input: Input<D, N>,
    pass: &Pass,
    rerun: bool,
    watch: &mut RangeWatch,
) -> Result<(Kept<Streams<D>>, StemTrail<D, N>)> {
    network.stem().check(&input)?;
    let meter = pass.metering();
    let context = pass.context(STEM);
    let (streams, stem) = pass.note(Activity::Forward, STEM, || {
        if rerun {
            (network.stem().forward(input.clone(), &context), StemTrail::Rerun(input))
        } else {
            let (streams, saved) = network.stem().forward_saving(input, &context);
            let _whole = pass.stores().then(|| meter.hold(Holder::Ends, saved.bytes()));
            (streams, StemTrail::Saved(meter.keep(Holder::Ends, pass.store(saved))))
        }
    });
    pass.check_precision(&streams.x1.device())?;
    let streams = enter(network.stem().enters(&context), streams, pass, watch);
    Ok((meter.keep(Holder::Streams, streams), stem))
}

/// Runs the pieces in `range` and keeps of them what the layout says.
pub(super) fn record_pieces<const D: usize, N: Network<D>>(
    network: &N,
    range: Range<usize>,
    mut streams: Kept<Streams<D>>,
    layout: Layout,
    pass: &Pass,
    watch: &mut RangeWatch,
) -> (Kept<Streams<D>>, Vec<Recorded<D>>) {
    let pieces = network.pieces();
    let mut recorded = Vec::new();
    for index in range {
        let (next, piece) = record_piece(pieces[index], index, streams, &recorded, layout, pass, watch);
        streams = next;
        recorded.push(piece);
    }
    (streams, recorded)
}

/// Runs one piece and keeps of it what the layout says.
fn record_piece<const D: usize>(
    piece: Piece<'_, D>,
    index: usize,
    streams: Kept<Streams<D>>,
    below: &[Recorded<D>],
    layout: Layout,
    pass: &Pass,
    watch: &mut RangeWatch,
) -> (Kept<Streams<D>>, Recorded<D>) {
    let meter = pass.metering();
    let context = pass.context(FIRST_PIECE + index);
    let is_block = matches!(piece, Piece::Block(_));
    let recovers = is_block && !layout.keeps(index, true);
    let reruns = !is_block && (!layout.keeps(index, false) || pass.recomputes_transitions());
    let saves_lean = is_block && !recovers && layout.saves_lean();
    let context = if saves_lean { context.recovering() } else { context };
    let dims = streams.value().dims();
    let scratch = if recovers || reruns {
        Scratch::of(piece, dims, &context)
    } else {
        Scratch::keeping(piece, dims, pass, &context)
    };
    let _scratch = meter.hold(Holder::Scratch, scratch.forward);
    let (streams, held) = streams.into_parts();
    // What is kept of the input is what was in flight: the same bytes, counted once.
    let (held, input) = if reruns || (!recovers && needs_its_output(below.last())) {
        (None, Some(held.keep(streams.clone())))
    } else {
        (Some(held), None)
    };
    let (next, way) = pass.note(Activity::Forward, FIRST_PIECE + index, || match piece {
        Piece::Block(_) if recovers => (pass_through(piece, index, streams, pass, watch), Way::Recover),
        Piece::Block(block) => {
            let (next, saved) = block.forward_saving(streams, &context);
            (looked_at(block, next, pass, watch), Way::Saved(meter.keep(Holder::Blocks, pass.store(saved))))
        }
        Piece::Transition(_) if reruns => (pass_through(piece, index, streams, pass, watch), Way::Rerun),
        Piece::Transition(transition) => {
            let (next, saved) = transition.forward_saving(streams, &context);
            let next = enter(transition.enters(&context), next, pass, watch);
            (next, Way::Saved(meter.keep(Holder::Transitions, pass.store(saved))))
        }
    });
    drop(held);
    (meter.keep(Holder::Streams, next), Recorded { index, way, input, scratch })
}

/// Loss and output; the trail keeps what the head saved, and the streams if the last piece is to be recovered.
pub(super) fn record_head<const D: usize, N: Network<D>>(
    network: &N,
    streams: Kept<Streams<D>>,
    target: Target<D, N>,
    trail: &mut Trail<D, N>,
) -> (Tensor<1>, Output<D, N>) {
    let place = FIRST_PIECE + network.pieces().len();
    let (streams, held) = streams.into_parts();
    // A head alone has nothing to recover, but the stage below may ask for the streams.
    let alone = trail.pieces.is_empty() && trail.stem.is_none();
    let (held, top) = if alone || needs_its_output(trail.pieces.last()) {
        (None, Some(held.keep(streams.clone())))
    } else {
        (Some(held), None)
    };
    let pass = &trail.pass;
    let (loss, output, head) = pass
        .note(Activity::Forward, place, || network.head().loss_saving(streams, target, &pass.context(place)));
    drop(held);
    trail.head = Some(trail.pass.metering().keep(Holder::Ends, head));
    trail.top = top;
    (loss, output)
}

/// The loss, if its gradients can be used.
pub(super) fn finite(loss: &Tensor<1>, pass: &Pass) -> Result<f32> {
    let loss = host::read(loss.clone()).iter::<f32>().next().unwrap_or(f32::NAN);
    if loss.is_finite() { Ok(loss) } else { Err(Error::LossNotFinite { loss, step: pass.step_number() }) }
}

/// Whether the piece below must be recovered, so that its output has to be kept by what comes above.
fn needs_its_output<const D: usize>(below: Option<&Recorded<D>>) -> bool {
    below.is_some_and(|recorded| matches!(recorded.way, Way::Recover))
}

/// Streams on the grid, where they may have `entered` already. Who takes them there tells whether they are inside its range.
fn enter<const D: usize>(
    entered: bool,
    streams: Streams<D>,
    pass: &Pass,
    watch: &mut RangeWatch,
) -> Streams<D> {
    if entered && pass.is_watched() {
        return streams;
    }
    let Streams { x1, x2 } = streams;
    let [x1, x2] = [x1, x2].map(|x| {
        let (x, inside) = kernels::enter(x, pass);
        if !inside {
            watch.look(&x);
        }
        x
    });
    Streams::new(x1, x2)
}

/// The streams as they leave a block, which it or `watch` has looked at.
fn looked_at<const D: usize>(
    block: &dyn Block<D>,
    streams: Streams<D>,
    pass: &Pass,
    watch: &mut RangeWatch,
) -> Streams<D> {
    if block.watches_range() && pass.is_watched() {
        return streams;
    }
    for x in [&streams.x1, &streams.x2] {
        if !kernels::in_range(x, pass) {
            watch.look(x);
        }
    }
    streams
}
