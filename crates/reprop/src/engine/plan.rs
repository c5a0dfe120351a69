//! What a strategy will need, told before it runs, and the choice that `Auto` makes from it.

use crate::strategy::Plan;
use crate::{Context, Error, Footprint, Head, Holder, Meter, Network, Pass, Piece, Result, Stem, Strategy};

use super::{FIRST_PIECE, STEM};

/// What a pass will need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prediction {
    /// The most bytes of activations that will live at once.
    pub activation_peak: u64,
    /// Evaluations of a block's forward, recoveries included.
    pub forward_evaluations: usize,
    /// Blocks whose saved tensors are kept.
    pub blocks_kept: usize,
}

/// Scratch of a piece's forward, as far as it can tell.
pub(super) fn forward_scratch<const D: usize>(
    piece: Piece<'_, D>,
    dims: [usize; D],
    context: &Context<'_>,
) -> u64 {
    match piece {
        Piece::Block(block) => block.footprint(dims, context).map_or(0, |footprint| footprint.forward),
        Piece::Transition(transition) => transition.footprint(dims, context).map_or(0, |(_, f)| f.forward),
    }
}

/// Scratch of a piece's gradients, as far as it can tell.
pub(super) fn grads_scratch<const D: usize>(
    piece: Piece<'_, D>,
    dims: [usize; D],
    context: &Context<'_>,
) -> u64 {
    match piece {
        Piece::Block(block) => block.footprint(dims, context).map_or(0, |footprint| footprint.grads),
        Piece::Transition(transition) => transition.footprint(dims, context).map_or(0, |(_, f)| f.vjp),
    }
}

/// The plan of a strategy for this network and batch.
pub(super) fn choose<const D: usize, N: Network<D>>(
    network: &N,
    batch: usize,
    pass: &Pass,
    strategy: Strategy,
) -> Result<Plan> {
    let pieces = network.pieces().len();
    let budget = match strategy {
        Strategy::Stored => return Ok(Plan::STORED),
        Strategy::Reprop => return Ok(Plan::recover_all(pieces, false)),
        Strategy::PaReprop => return Ok(Plan::recover_all(pieces, true)),
        Strategy::Auto { budget } => budget,
    };
    // A network that cannot tell its bytes gets the leanest plan.
    let leanest = Plan::recover_all(pieces, false);
    let Some(sizes) = Sizes::of(network, batch, pass) else {
        return Ok(leanest);
    };
    // Each block that is kept saves a recovery; of plans that keep as many, the one with overlap is never slower.
    let overlap = rayon::current_num_threads() > 1;
    let candidates = (0..=pieces).flat_map(|keep_from| {
        let with = (overlap && keep_from > 0).then_some(Plan { keep_from, overlap });
        with.into_iter().chain([Plan { keep_from, overlap: false }])
    });
    let fits = |plan: &Plan| sizes.predict(*plan).activation_peak <= budget;
    let mut candidates = candidates;
    candidates
        .find(fits)
        .ok_or_else(|| Error::BudgetTooSmall { budget, least: sizes.predict(leanest).activation_peak })
}

/// What `strategy` will need.
pub(crate) fn predicted<const D: usize, N: Network<D>>(
    network: &N,
    batch: usize,
    pass: &Pass,
    strategy: Strategy,
) -> Result<Option<Prediction>> {
    let plan = choose(network, batch, pass, strategy)?;
    Ok(Sizes::of(network, batch, pass).map(|sizes| sizes.predict(plan)))
}

/// The bytes of every part.
struct Sizes {
    /// Both streams as they leave the stem.
    streams: u64,
    stem: Footprint,
    pieces: Vec<PieceSizes>,
    head: Footprint,
}

struct PieceSizes {
    is_block: bool,
    /// Both streams as they leave the piece.
    streams: u64,
    saved: u64,
    forward: u64,
    grads: u64,
}

impl Sizes {
    fn of<const D: usize, N: Network<D>>(network: &N, batch: usize, pass: &Pass) -> Option<Self> {
        let streams = |dims: [usize; D]| 2 * (dims.iter().product::<usize>() * size_of::<f32>()) as u64;
        let (mut dims, stem) = network.stem().footprint(batch, &pass.context(STEM))?;
        let first = streams(dims);
        let mut pieces = Vec::new();
        for (index, piece) in network.pieces().into_iter().enumerate() {
            let context = pass.context(FIRST_PIECE + index);
            let sizes = match piece {
                Piece::Block(block) => {
                    let size = block.footprint(dims, &context)?;
                    PieceSizes {
                        is_block: true,
                        streams: streams(dims),
                        saved: size.saved,
                        forward: size.forward,
                        grads: size.grads,
                    }
                }
                Piece::Transition(transition) => {
                    let (next, size) = transition.footprint(dims, &context)?;
                    dims = next;
                    PieceSizes {
                        is_block: false,
                        streams: streams(dims),
                        saved: size.saved,
                        forward: size.forward,
                        grads: size.vjp,
                    }
                }
            };
            pieces.push(sizes);
        }
        let head = network.head().footprint(dims, &pass.context(FIRST_PIECE + pieces.len()))?;
        Some(Self { streams: first, stem, pieces, head })
    }

    /// Walks through forward and backward as the engine does, on bytes alone.
    fn predict(&self, plan: Plan) -> Prediction {
        let meter = Meter::new();
        let kept = |index: usize| !self.pieces[index].is_block || index >= plan.keep_from;
        let blocks = self.pieces.iter().filter(|piece| piece.is_block).count();
        let blocks_kept = (0..self.pieces.len()).filter(|&i| self.pieces[i].is_block && kept(i)).count();

        let _stem = meter.hold(Holder::Ends, self.stem.saved);
        let mut streams = meter.hold(Holder::Streams, self.streams);
        let mut saved = Vec::new();
        let mut inputs = Vec::new();
        for (index, piece) in self.pieces.iter().enumerate() {
            let _scratch = meter.hold(Holder::Scratch, piece.forward);
            let below = if index == 0 { self.streams } else { self.pieces[index - 1].streams };
            let keeps_input = index > 0 && kept(index) && !kept(index - 1);
            inputs.push(keeps_input.then(|| meter.hold(Holder::Streams, below)));
            saved.push(kept(index).then(|| meter.hold(Holder::Blocks, piece.saved)));
            drop(streams);
            streams = meter.hold(Holder::Streams, piece.streams);
        }

        let last = self.pieces.len().checked_sub(1);
        let top_bytes = last.map_or(self.streams, |last| self.pieces[last].streams);
        let mut output = last.filter(|&last| !kept(last)).map(|_| meter.hold(Holder::Streams, top_bytes));
        drop(streams);
        let head = meter.hold(Holder::Ends, self.head.saved);

        let mut rest = self.pieces.len();
        let mut recover = |rest: &mut usize, output: &mut Option<_>| {
            let mut ready = Vec::new();
            while *rest > 0 {
                *rest -= 1;
                if let Some(held) = saved[*rest].take() {
                    ready.push((*rest, held));
                    *output = inputs[*rest].take();
                    continue;
                }
                let piece = &self.pieces[*rest];
                let scratch = meter.hold(Holder::Scratch, piece.forward);
                ready.push((*rest, meter.hold(Holder::Blocks, piece.saved)));
                drop(scratch);
                *output = (*rest > 0).then(|| meter.hold(Holder::Streams, piece.streams));
                break;
            }
            ready
        };

        let mut ready = recover(&mut rest, &mut output);
        drop(head);
        let mut gradients = meter.hold(Holder::StreamGradients, top_bytes);
        while !ready.is_empty() {
            // With overlap the block below is recovered while these gradients are computed.
            let ahead = plan.overlap.then(|| recover(&mut rest, &mut output));
            for (index, held) in ready {
                let piece = &self.pieces[index];
                let below = if index == 0 { self.streams } else { self.pieces[index - 1].streams };
                let scratch = meter.hold(Holder::Scratch, piece.grads);
                drop(gradients);
                gradients = meter.hold(Holder::StreamGradients, below);
                drop((scratch, held));
            }
            ready = ahead.unwrap_or_else(|| recover(&mut rest, &mut output));
        }
        Prediction {
            activation_peak: meter.report().activation_peak,
            forward_evaluations: 2 * blocks - blocks_kept,
            blocks_kept,
        }
    }
}
