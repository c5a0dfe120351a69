//! What every part of a network will hold, and the most that lives at once.

use crate::strategy::Layout;
use crate::{
    BlockFootprint, Error, Footprint, Head, Meter, Mode, Network, Pass, Piece, Prediction, Result, Stem,
};

use super::segments::{Segments, visits};
use super::walk::Walk;
use super::{FIRST_PIECE, STEM};

/// Multiply-adds for each thread in a sub-block's largest product, from which on its phases keep all threads busy: with less, threads
/// wait for each other at the ends of phases for a part of the time that another block could fill; with more, it is better to keep a
/// block more than to run two at once, which both want the caches (`bench/PROFILE.md`, overlap on full threads).
const ENOUGH: usize = 1 << 20;

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
    /// The least work of its sub-blocks that threads share.
    shared_work: usize,
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

/// How many of so many blocks are kept for nothing: the last one, if there are more.
pub(super) fn last_of(blocks: usize) -> usize {
    blocks.saturating_sub(1).min(1)
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
            let (is_block, shared_work, size, lean) = match piece {
                Piece::Block(block) => {
                    let shared = block.shared_work(dims, &context);
                    let told = |context| block.footprint(dims, &context).ok_or_else(unknown(place));
                    (true, shared, told(context)?, told(context.recovering())?)
                }
                Piece::Transition(transition) => {
                    let (next, size) = transition.footprint(dims, &context).ok_or_else(unknown(place))?;
                    dims = next;
                    let size = BlockFootprint::of_transition(next, size);
                    (false, 0, size, size)
                }
            };
            let keeping = |size: BlockFootprint| if pass.stores() { size.stored() } else { size };
            let (kept, kept_lean) = (keeping(size), keeping(lean));
            let streams = streams(dims);
            pieces.push(PieceSizes { is_block, shared_work, work, streams, size, kept, kept_lean });
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

    /// The mode of `Reprop`, or with `overlap` that of `PaReprop`. Where all blocks keep all threads busy by themselves, nothing can be
    /// hidden, and the memory that overlap would take goes to blocks that are kept.
    pub fn recovering(&self, overlap: bool) -> Mode {
        let reprop = self.usual(Mode::default());
        if !overlap {
            return reprop;
        }
        let beside = Mode { overlap: true, ..Mode::default() };
        let least = self.pieces.iter().filter(|piece| piece.is_block).map(|piece| piece.shared_work).min();
        if least.is_none_or(|least| least < ENOUGH * rayon::current_num_threads()) {
            return self.usual(beside);
        }
        let keeping = self.keeping_within(Mode::default(), self.predict(beside).activation_peak);
        Mode { blocks_kept: keeping.blocks_kept.max(reprop.blocks_kept), ..keeping }
    }

    /// `mode` as `Reprop` or an overlapping `PaReprop` runs it: in the memory of one block's saved tensors, or two with overlap.
    pub fn usual(&self, mode: Mode) -> Mode {
        let none = Mode { blocks_kept: 0, ..mode };
        // Sub-block by sub-block a block takes less than whole.
        let whole = || {
            let layout = Layout::of(none, &self.is_block());
            self.peak(&Walk { reverses: false, ..self.walk(layout, &Meter::new()) }, layout)
        };
        let one = Mode { blocks_kept: last_of(self.blocks()), ..mode };
        let bytes = if mode.overlap {
            self.predict(none).activation_peak
        } else {
            self.predict(one).activation_peak.max(whole())
        };
        self.keeping_within(mode, bytes)
    }

    /// `mode` with as many of the last blocks kept as so many bytes allow: their saved tensors are gone before the peak of a
    /// network is reached whose first blocks are as large. None, if nothing fits.
    pub fn keeping_within(&self, mode: Mode, bytes: u64) -> Mode {
        let keeping = |blocks_kept: usize| Mode { blocks_kept, ..mode };
        // `fits` fits and `more` does not: halving the gap between them takes few predictions, however deep the network.
        // One block is recovered in any case: to keep all is to store.
        let (mut fits, mut more) = (0, self.blocks().max(1));
        while more - fits > 1 {
            let middle = usize::midpoint(fits, more);
            if self.predict(keeping(middle)).activation_peak <= bytes { fits = middle } else { more = middle }
        }
        keeping(fits)
    }

    /// How many of the pieces are blocks.
    fn blocks(&self) -> usize {
        self.pieces.iter().filter(|piece| piece.is_block).count()
    }

    /// Whether a piece keeps what it saved.
    fn keeps(&self, layout: Layout, index: usize) -> bool {
        let is_block = self.pieces[index].is_block;
        layout.keeps(index, is_block) && (is_block || !self.recompute_transitions)
    }

    /// The way of the engine in `layout`.
    fn walk<'s>(&'s self, layout: Layout, meter: &'s Meter) -> Walk<'s> {
        let (overlap, saves_lean) = (layout.overlap, layout.saves_lean());
        Walk { sizes: self, meter, overlap, reverses: !overlap, saves_lean }
    }

    /// The most bytes that live at once on a walk.
    fn peak(&self, walk: &Walk<'_>, layout: Layout) -> u64 {
        if layout.takes_snapshots() {
            walk.segment_by_segment(&Segments::of(&self.is_block()), layout.inputs);
        } else {
            walk.at_once(|index| self.keeps(layout, index));
        }
        walk.meter.report().activation_peak
    }

    /// What `layout` will need.
    pub(super) fn predict_layout(&self, layout: Layout) -> Prediction {
        let blocks = self.blocks();
        let kept = |&index: &usize| self.pieces[index].is_block && self.keeps(layout, index);
        let blocks_kept = (0..self.pieces.len()).filter(kept).count();
        let forwards = if layout.takes_snapshots() {
            let is_block = self.is_block();
            let visits = visits(&is_block, layout.inputs).pieces;
            visits.iter().zip(&is_block).filter(|(_, is_block)| **is_block).map(|(visits, _)| visits).sum()
        } else {
            blocks
        };
        Prediction {
            activation_peak: self.peak(&self.walk(layout, &Meter::new()), layout),
            forward_evaluations: forwards + blocks - blocks_kept,
            blocks_kept,
        }
    }
}
