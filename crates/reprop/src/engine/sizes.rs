//! What every part of a network will hold, and the most that lives at once.

use crate::strategy::Layout;
use crate::{
    BlockFootprint, Error, Footprint, Head, Meter, Mode, Network, Pass, Piece, Prediction, Result, Stem,
};

use super::segments::{Segments, visits};
use super::walk::Walk;
use super::{FIRST_PIECE, STEM};

/// The bytes of every part.
#[derive(Debug)]
pub(crate) struct Sizes {
    /// Both streams as they leave the stem.
    pub(super) streams: u64,
    pub(super) stem: Footprint,
    /// What is kept of what the stem saved, beside all of it for a moment, if that is not the same.
    pub(super) stem_kept: Option<u64>,
    pub(super) pieces: Vec<PieceSizes>,
    pub(super) head: Footprint,
    /// Whether the pass recomputes transitions whatever the mode.
    pub recompute_transitions: bool,
    /// Whether the pass has a disk for streams.
    pub spills: bool,
}

#[derive(Debug)]
pub(super) struct PieceSizes {
    pub is_block: bool,
    /// How much work it is beside others: what linear maps and convolutions of its input take.
    work: f64,
    /// Both streams as they leave the piece.
    pub streams: u64,
    pub size: BlockFootprint,
    /// The same where it keeps what it saved.
    pub kept: BlockFootprint,
    /// The same where that is no more than a recovery would.
    pub kept_lean: BlockFootprint,
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
            let (is_block, size, lean) = match piece {
                Piece::Block(block) => {
                    let told = |context| block.footprint(dims, &context).ok_or_else(unknown(place));
                    (true, told(context)?, told(context.recovering())?)
                }
                Piece::Transition(transition) => {
                    let (next, size) = transition.footprint(dims, &context).ok_or_else(unknown(place))?;
                    dims = next;
                    let size = BlockFootprint::of_transition(next, size);
                    (false, size, size)
                }
            };
            let keeping = |size: BlockFootprint| if pass.stores() { size.stored() } else { size };
            let (kept, kept_lean) = (keeping(size), keeping(lean));
            pieces.push(PieceSizes { is_block, work, streams: streams(dims), size, kept, kept_lean });
        }
        let place = FIRST_PIECE + pieces.len();
        let head = network.head().footprint(dims, &pass.context(place)).ok_or_else(unknown(place))?;
        let recompute_transitions = pass.recomputes_transitions();
        let spills = pass.spilling().is_some();
        let stem_kept = pass.stores().then_some(stem.saved - stem.spared);
        Ok(Self { streams: first, stem, stem_kept, pieces, head, recompute_transitions, spills })
    }

    /// Both streams as they enter the piece at `index`.
    pub(super) fn below(&self, index: usize) -> u64 {
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

    /// `mode` as `Reprop` or `PaReprop` runs it: in the memory of one block's saved tensors, or two with overlap.
    pub fn usual(&self, mode: Mode) -> Mode {
        // One block that is recovered sub-block by sub-block needs less than one that is kept. With overlap two are there
        // whole.
        self.keeping_within(mode, usize::from(!mode.overlap))
    }

    /// `mode` with as many of the last blocks kept as need no more memory than so many do: saved tensors of the last blocks
    /// are gone before the peak is reached.
    pub fn keeping_within(&self, mode: Mode, blocks_kept: usize) -> Mode {
        let keeping = |blocks_kept: usize| Mode { blocks_kept, ..mode };
        let peak = |blocks_kept: usize| self.predict(keeping(blocks_kept)).activation_peak;
        // `free` is free and `more` is not: halving the gap between them takes few predictions, however deep the network.
        // One block is recovered in any case: to keep all is to store.
        let blocks = self.pieces.iter().filter(|piece| piece.is_block).count().max(1);
        let blocks_kept = blocks_kept.min(blocks - 1);
        let allowed = peak(blocks_kept);
        let (mut free, mut more) = (blocks_kept, blocks);
        while more - free > 1 {
            let middle = usize::midpoint(free, more);
            if peak(middle) <= allowed { free = middle } else { more = middle }
        }
        keeping(free)
    }

    /// What `layout` will need.
    pub(super) fn predict_layout(&self, layout: Layout) -> Prediction {
        let kept = |index: usize| {
            let is_block = self.pieces[index].is_block;
            layout.keeps(index, is_block) && (is_block || !self.recompute_transitions)
        };
        let blocks = self.pieces.iter().filter(|piece| piece.is_block).count();
        let blocks_kept = (0..self.pieces.len()).filter(|&i| self.pieces[i].is_block && kept(i)).count();
        let meter = Meter::new();
        let walk =
            Walk { sizes: self, meter: &meter, overlap: layout.overlap, saves_lean: layout.saves_lean() };
        let forwards = if layout.takes_snapshots() {
            let is_block = self.is_block();
            walk.segment_by_segment(&Segments::of(&is_block), layout.inputs);
            let visits = visits(&is_block, layout.inputs).pieces;
            visits.iter().zip(&is_block).filter(|(_, is_block)| **is_block).map(|(visits, _)| visits).sum()
        } else {
            walk.at_once(kept);
            blocks
        };
        Prediction {
            activation_peak: meter.report().activation_peak,
            forward_evaluations: forwards + blocks - blocks_kept,
            blocks_kept,
        }
    }
}
