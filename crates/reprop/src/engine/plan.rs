//! What a strategy will need, told before it runs, and the choice that `Auto` makes from it.

use crate::strategy::Plan;
use crate::{
    BlockFootprint, Error, Footprint, Head, Held, Holder, Meter, Network, Pass, Piece, Result, Stem, Strategy,
};

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
        let with = (overlap && keep_from > 0).then(|| Plan::recover_all(keep_from, overlap));
        with.into_iter().chain([Plan::recover_all(keep_from, false)])
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
    recompute_transitions: bool,
}

struct PieceSizes {
    is_block: bool,
    /// Both streams as they leave the piece.
    streams: u64,
    size: BlockFootprint,
}

impl Sizes {
    fn of<const D: usize, N: Network<D>>(network: &N, batch: usize, pass: &Pass) -> Option<Self> {
        let streams = |dims: [usize; D]| 2 * (dims.iter().product::<usize>() * size_of::<f32>()) as u64;
        let (mut dims, stem) = network.stem().footprint(batch, &pass.context(STEM))?;
        let first = streams(dims);
        let mut pieces = Vec::new();
        for (index, piece) in network.pieces().into_iter().enumerate() {
            let context = pass.context(FIRST_PIECE + index);
            let (is_block, size) = match piece {
                Piece::Block(block) => (true, block.footprint(dims, &context)?),
                Piece::Transition(transition) => {
                    let (next, size) = transition.footprint(dims, &context)?;
                    dims = next;
                    (false, BlockFootprint::of_transition(next, size))
                }
            };
            pieces.push(PieceSizes { is_block, streams: streams(dims), size });
        }
        let head = network.head().footprint(dims, &pass.context(FIRST_PIECE + pieces.len()))?;
        let recompute_transitions = pass.recomputes_transitions();
        Some(Self { streams: first, stem, pieces, head, recompute_transitions })
    }

    /// Both streams as they enter the piece at `index`.
    fn below(&self, index: usize) -> u64 {
        index.checked_sub(1).map_or(self.streams, |below| self.pieces[below].streams)
    }

    /// What `plan` will need.
    fn predict(&self, plan: Plan) -> Prediction {
        let kept = |index: usize| {
            if self.pieces[index].is_block { index >= plan.keep_from } else { !self.recompute_transitions }
        };
        let blocks = self.pieces.iter().filter(|piece| piece.is_block).count();
        let blocks_kept = (0..self.pieces.len()).filter(|&i| self.pieces[i].is_block && kept(i)).count();
        let meter = Meter::new();
        Walk { sizes: self, meter: &meter, overlap: plan.overlap }.run(kept);
        Prediction {
            activation_peak: meter.report().activation_peak,
            forward_evaluations: 2 * blocks - blocks_kept,
            blocks_kept,
        }
    }
}

/// Goes through forward and backward as the engine does, on bytes alone.
struct Walk<'s> {
    sizes: &'s Sizes,
    meter: &'s Meter,
    overlap: bool,
}

/// What is counted of a piece that was run: its saved tensors, and its input.
type Counted = (Option<Held>, Option<Held>);

impl Walk<'_> {
    fn run(&self, kept: impl Fn(usize) -> bool) {
        let Self { sizes, meter, overlap } = *self;
        let stem = meter.hold(Holder::Ends, sizes.stem.saved);
        let mut streams = meter.hold(Holder::Streams, sizes.streams);
        let mut rest: Vec<Counted> = Vec::new();
        for (index, piece) in sizes.pieces.iter().enumerate() {
            let _scratch = meter.hold(Holder::Scratch, piece.size.forward);
            let recomputes = !piece.is_block && !kept(index);
            let keeps_input = recomputes || kept(index) && self.needs_an_output(&rest);
            let (held, input) = if keeps_input { (None, Some(streams)) } else { (Some(streams), None) };
            let saved = kept(index).then(|| meter.hold(Holder::Blocks, piece.size.saved));
            drop(held);
            streams = meter.hold(Holder::Streams, piece.streams);
            rest.push((saved, input));
        }
        let keeps_top = self.needs_an_output(&rest);
        let mut output = keeps_top.then_some(streams);
        let head = meter.hold(Holder::Ends, sizes.head.saved);

        let scratch = meter.hold(Holder::Scratch, self.scratch(&[], &rest));
        let mut ready = self.recover(&mut rest, &mut output);
        drop((head, scratch));
        let mut gradients = meter.hold(Holder::StreamGradients, sizes.below(sizes.pieces.len()));
        while !ready.is_empty() {
            let _scratch = meter.hold(Holder::Scratch, self.scratch(&ready, &rest));
            let below = if overlap { self.recover(&mut rest, &mut output) } else { Vec::new() };
            let mut used = Vec::new();
            for (index, held) in ready {
                used.extend(overlap.then_some(held));
                drop(gradients);
                gradients = meter.hold(Holder::StreamGradients, sizes.below(index));
            }
            ready = if overlap { below } else { self.recover(&mut rest, &mut output) };
        }
        drop(stem);
    }

    /// As `Front::needs_an_output`.
    fn needs_an_output(&self, rest: &[Counted]) -> bool {
        let is_block = |index: usize| self.sizes.pieces[index].is_block;
        rest.last().is_some_and(|(saved, _)| saved.is_none() && is_block(rest.len() - 1))
    }

    /// As `Front::reach`.
    fn reach(&self, rest: &[Counted]) -> usize {
        let kept = rest.iter().rev().take_while(|(saved, _)| saved.is_some()).count();
        if kept < rest.len() && (self.overlap || kept == 0) { kept + 1 } else { kept }
    }

    /// As `Front::scratch`.
    fn scratch(&self, ready: &[(usize, Held)], rest: &[Counted]) -> u64 {
        let pieces = &self.sizes.pieces;
        let grads = ready.iter().map(|&(index, _)| pieces[index].size.grads);
        let recover = rest.iter().zip(pieces).rev().take(self.reach(rest));
        let recover = recover.filter(|((saved, _), _)| saved.is_none()).map(|(_, piece)| piece.size.recover);
        grads.chain(recover).max().unwrap_or(0)
    }

    /// As `Front::recover`.
    fn recover(&self, rest: &mut Vec<Counted>, output: &mut Option<Held>) -> Vec<(usize, Held)> {
        let mut ready = Vec::new();
        for _ in 0..self.reach(rest) {
            let Some((saved, input)) = rest.pop() else { break };
            let index = rest.len();
            if let Some(saved) = saved {
                ready.push((index, saved));
                *output = input;
                continue;
            }
            let piece = &self.sizes.pieces[index];
            if !piece.is_block {
                ready.push((index, self.meter.hold(Holder::Transitions, piece.size.saved)));
                *output = input.filter(|_| self.needs_an_output(rest));
                continue;
            }
            *output = None;
            ready.push((index, self.meter.hold(Holder::Blocks, piece.size.recovered)));
            *output = self.needs_an_output(rest).then(|| self.meter.hold(Holder::Streams, piece.streams));
        }
        ready
    }
}
