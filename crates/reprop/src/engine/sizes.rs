//! A pass on bytes alone: what every part will hold, and the most that lives at once.

use crate::strategy::Layout;
use crate::{
    BlockFootprint, Error, Footprint, Head, Held, Holder, Meter, Mode, Network, Pass, Piece, Prediction,
    Result, Stem,
};

use super::{FIRST_PIECE, STEM};

/// The bytes of every part.
#[derive(Debug)]
pub(crate) struct Sizes {
    /// Both streams as they leave the stem.
    streams: u64,
    stem: Footprint,
    pieces: Vec<PieceSizes>,
    head: Footprint,
    /// Whether the pass recomputes transitions whatever the mode.
    pub recompute_transitions: bool,
}

#[derive(Debug)]
struct PieceSizes {
    is_block: bool,
    /// How much work it is beside others: what linear maps and convolutions of its input take.
    work: f64,
    /// Both streams as they leave the piece.
    streams: u64,
    size: BlockFootprint,
}

impl Sizes {
    /// For a batch of `batch` samples.
    ///
    /// # Errors
    ///
    /// [`Error::BytesUnknown`] names the first part that cannot tell its own.
    pub fn of<const D: usize, N: Network<D>>(network: &N, batch: usize, pass: &Pass) -> Result<Self> {
        let unknown = |place: usize| move || Error::BytesUnknown { place };
        let streams = |dims: [usize; D]| 2 * (dims.iter().product::<usize>() * size_of::<f32>()) as u64;
        let (mut dims, stem) =
            network.stem().footprint(batch, &pass.context(STEM)).ok_or_else(unknown(STEM))?;
        let first = streams(dims);
        let mut pieces = Vec::new();
        for (index, piece) in network.pieces().into_iter().enumerate() {
            let place = FIRST_PIECE + index;
            let context = pass.context(place);
            let work = dims.iter().product::<usize>() as f64 * dims[D - 1] as f64;
            let (is_block, size) = match piece {
                Piece::Block(block) => (true, block.footprint(dims, &context).ok_or_else(unknown(place))?),
                Piece::Transition(transition) => {
                    let (next, size) = transition.footprint(dims, &context).ok_or_else(unknown(place))?;
                    dims = next;
                    (false, BlockFootprint::of_transition(next, size))
                }
            };
            pieces.push(PieceSizes { is_block, work, streams: streams(dims), size });
        }
        let place = FIRST_PIECE + pieces.len();
        let head = network.head().footprint(dims, &pass.context(place)).ok_or_else(unknown(place))?;
        let recompute_transitions = pass.recomputes_transitions();
        Ok(Self { streams: first, stem, pieces, head, recompute_transitions })
    }

    /// Both streams as they enter the piece at `index`.
    fn below(&self, index: usize) -> u64 {
        index.checked_sub(1).map_or(self.streams, |below| self.pieces[below].streams)
    }

    /// Which of the pieces are blocks.
    pub fn is_block(&self) -> Vec<bool> {
        self.pieces.iter().map(|piece| piece.is_block).collect()
    }

    /// How much work each piece is beside the others.
    pub fn work(&self) -> impl Iterator<Item = f64> {
        self.pieces.iter().map(|piece| piece.work)
    }

    /// What `mode` will need.
    pub fn predict(&self, mode: Mode) -> Prediction {
        self.predict_layout(Layout::of(mode, &self.is_block()))
    }

    /// What `layout` will need.
    pub(super) fn predict_layout(&self, layout: Layout) -> Prediction {
        let recomputes = self.recompute_transitions || layout.rerun;
        let kept = |index: usize| {
            if self.pieces[index].is_block { index >= layout.keep_from } else { !recomputes }
        };
        let blocks = self.pieces.iter().filter(|piece| piece.is_block).count();
        let blocks_kept = (0..self.pieces.len()).filter(|&i| self.pieces[i].is_block && kept(i)).count();
        let meter = Meter::new();
        Walk { sizes: self, meter: &meter, overlap: layout.overlap }.run(kept);
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
            let below = if overlap {
                // Either half may be ahead of the other, so that the largest gradients of the one count throughout the
                // other.
                let largest = ready.iter().map(|&(index, _)| sizes.below(index)).max().unwrap_or(0);
                let _more = meter.hold(Holder::StreamGradients, largest.saturating_sub(gradients.bytes()));
                self.recover(&mut rest, &mut output)
            } else {
                Vec::new()
            };
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
