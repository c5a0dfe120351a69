//! What a forward pass kept for its backward.

use std::ops::Range;

use crate::network::{Input, Network};
use crate::{AnySaved, Head, Kept, Pass, Piece, Saved, Stem, Streams};

use super::{FIRST_PIECE, Scratch};

/// What the forward of a run of parts kept for its backward. It borrows nothing, so that parameters may change before
/// the backward runs: what is recovered or rerun then, is so with those of that day.
pub struct Trail<const D: usize, N: Network<D>> {
    pub(super) pass: Pass,
    pub(super) overlap: bool,
    /// What is kept of the stem, if the run begins with it.
    pub(super) stem: Option<StemTrail<D, N>>,
    pub(super) pieces: Vec<Recorded<D>>,
    /// What the last piece gave, if it must be recovered from it.
    pub(super) top: Option<Kept<Streams<D>>>,
    /// What the head saved, if the run ends with it.
    pub(super) head: Option<Kept<<N::Head as Head<D>>::Saved>>,
}

/// What the forward kept of the stem.
pub(super) enum StemTrail<const D: usize, N: Network<D>> {
    Saved(Kept<<N::Stem as Stem<D>>::Saved>),
    /// It is run again from its input.
    Rerun(Input<D, N>),
}

/// A piece and what the forward kept of it.
pub(super) struct Recorded<const D: usize> {
    pub index: usize,
    pub way: Way,
    /// What it was given, if it is rerun, or the piece below recovered, from it.
    pub input: Option<Kept<Streams<D>>>,
    pub scratch: Scratch,
}

/// How the backward gets what a piece's gradients need.
pub(super) enum Way {
    /// It was kept.
    Saved(Kept<AnySaved>),
    /// From the piece's output.
    Recover,
    /// From its input, by running it again.
    Rerun,
}

/// What a forward would have kept of the pieces in `range`, from the inputs of those that are rerun. `dims` is the shape of the
/// streams that leave the last of them, where it is known: temporaries of blocks are counted by it.
pub(super) fn recorded<const D: usize>(
    pieces: &[Piece<'_, D>],
    range: Range<usize>,
    inputs: impl IntoIterator<Item = Kept<Streams<D>>>,
    dims: Option<[usize; D]>,
    pass: &Pass,
) -> Vec<Recorded<D>> {
    let mut inputs = inputs.into_iter();
    range
        .map(|index| {
            let context = pass.context(FIRST_PIECE + index);
            let scratch = |dims| Scratch::of(pieces[index], dims, &context);
            match pieces[index] {
                Piece::Block(_) => {
                    let scratch = dims.map(scratch).unwrap_or_default();
                    Recorded { index, way: Way::Recover, input: None, scratch }
                }
                Piece::Transition(_) => {
                    let input = inputs.next();
                    let scratch = input.as_ref().map(|input| scratch(input.value().dims()));
                    Recorded { index, way: Way::Rerun, input, scratch: scratch.unwrap_or_default() }
                }
            }
        })
        .collect()
}

impl<const D: usize> Recorded<D> {
    /// Whether nothing is to be computed before its gradients.
    pub fn is_saved(&self) -> bool {
        matches!(self.way, Way::Saved(_))
    }

    /// Temporaries of getting back what its gradients need.
    pub fn recovering(&self) -> u64 {
        match self.way {
            Way::Saved(_) => 0,
            Way::Recover | Way::Rerun => self.scratch.recover,
        }
    }
}

impl<const D: usize, N: Network<D>> Trail<D, N> {
    /// Bytes of the streams that are kept: inputs of parts that are rerun.
    pub fn stream_bytes(&self) -> u64 {
        self.inputs().map(Saved::bytes).sum()
    }

    /// The kept inputs of pieces that are rerun, in the order of the pieces.
    pub fn inputs(&self) -> impl Iterator<Item = &Streams<D>> {
        self.pieces.iter().filter_map(|recorded| recorded.input.as_ref().map(Kept::value))
    }
}
