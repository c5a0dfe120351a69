//! Strategies: how the backward pass gets the activations it needs.

use std::fmt;
use std::str::FromStr;

use crate::{Inputs, Mode};

/// How the backward pass gets its activations. All give the same gradients, bit for bit.
///
/// | strategy | memory | time, in forwards | choose it |
/// |---|---|---|---|
/// | `Stored` | grows with depth | 3 | when everything fits |
/// | `Reprop` | one block | up to 4 | when memory is all that counts |
/// | `PaReprop` | two blocks | 3 to 4 | when it does not fit: the default |
/// | `Auto` | the budget given | the least that fits | to let the numbers decide |
/// | `Planned` | as its plan says | as its plan says | where a [`Plan`](crate::Plan) was made from measured costs |
///
/// `Reprop` and `PaReprop` recover as few blocks as the memory of one or two blocks allows: the saved tensors of the last
/// blocks are used first in the backward pass, so that those are kept which are gone before the peak is reached. That is
/// the last block alone where all are alike, as in a network that [cannot tell its bytes](crate::Network::predicted), and more where the
/// first stage is the largest. A [`Plan`](crate::Plan) under a smaller budget keeps none: a block is then
/// [reversed](crate::Block::reverse) sub-block by sub-block, in less memory than its saved tensors would take. A coupling's attention on fused
/// kernels is then recovered and differentiated in one: its probabilities are neither saved nor computed twice.
///
/// Where every block [keeps all threads busy by itself](crate::Residual::shared_work), as large ones do on fused kernels, overlap would
/// hide nothing, and its second block would push the first out of the caches. `PaReprop` then recovers as `Reprop` does, and its memory holds
/// more of the last blocks instead; with more threads than the blocks fill it overlaps. A [`Mode`] of your own overlaps in any case.
///
/// ```
/// use reprop::Strategy;
///
/// assert_eq!("pareprop".parse(), Ok(Strategy::PaReprop));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Keep what every block saved. Fastest, where it fits.
    Stored,
    /// Throw activations away; in the backward pass recover each block's from its outputs, then compute its
    /// gradients. What can be kept in the same memory is kept.
    Reprop,
    /// As `Reprop`, with the gradients of one block computed beside the recovery of the block below, wherever threads are idle
    /// otherwise.
    #[default]
    PaReprop,
    /// The fastest [`Mode`] that fits a budget, by [predicted costs](crate::Costs::predicted): everything is kept if it
    /// fits, else the saved tensors of as many of the last blocks as fit, and the rest is recovered; or [few
    /// inputs](crate::Inputs) of what lies between stages, if they do not fit either. A network that cannot tell its bytes gets the leanest mode. To decide by costs that were measured, make a
    /// [`Plan`](crate::Plan) and run its [strategy](crate::Plan::strategy).
    Auto {
        /// Bytes of activations that may live at once.
        budget: u64,
    },
    /// What a plan came to.
    Planned(Mode),
}

impl fmt::Display for Strategy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Stored => "stored",
            Self::Reprop => "reprop",
            Self::PaReprop => "pareprop",
            Self::Auto { .. } | Self::Planned(_) => "auto",
        })
    }
}

/// A name that is not a strategy's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no strategy called `{0}`: choose stored, reprop or pareprop, or give a budget for auto")]
pub struct UnknownStrategy(String);

impl FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(name: &str) -> Result<Self, UnknownStrategy> {
        match name {
            "stored" => Ok(Self::Stored),
            "reprop" => Ok(Self::Reprop),
            "pareprop" => Ok(Self::PaReprop),
            _ => Err(UnknownStrategy(name.to_owned())),
        }
    }
}

/// What a strategy comes to for one network: the engine knows nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Blocks from here on keep what they saved; those below are recovered.
    pub keep_from: usize,
    /// Whether gradients of one block are computed beside the recovery of the next.
    pub overlap: bool,
    /// Transitions below this keep their inputs and are run again, instead of keeping what they saved.
    pub rerun_below: usize,
    /// Where those inputs are.
    pub inputs: Inputs,
}

impl Layout {
    /// Everything is kept.
    pub const STORED: Self = Self { keep_from: 0, overlap: false, rerun_below: 0, inputs: Inputs::Kept };

    /// Whether blocks that are kept save no more than a recovery would. Where some are recovered anyway, a budget holds
    /// more blocks so, which gains more than their gradients lose.
    pub fn saves_lean(&self) -> bool {
        self.keep_from > 0
    }

    /// The layout that recovers everything.
    pub fn recover_all(pieces: usize, overlap: bool) -> Self {
        Self { keep_from: pieces, overlap, ..Self::STORED }
    }

    /// Whether a piece keeps what it saved, in a pass that does not recompute transitions by itself.
    pub fn keeps(&self, index: usize, is_block: bool) -> bool {
        index >= if is_block { self.keep_from } else { self.rerun_below }
    }

    /// The layout that recovers blocks and runs everything else again.
    pub fn rerun(pieces: usize, overlap: bool) -> Self {
        Self { rerun_below: pieces, ..Self::recover_all(pieces, overlap) }
    }

    /// Whether the network is run segment by segment, from few of the transitions' inputs.
    pub fn takes_snapshots(&self) -> bool {
        self.inputs != Inputs::Kept
    }

    /// Of a mode, for a network whose pieces are blocks or not.
    pub fn of(mode: Mode, is_block: &[bool]) -> Self {
        if mode.inputs != Inputs::Kept && is_block.contains(&false) {
            return Self { inputs: mode.inputs, ..Self::rerun(is_block.len(), mode.overlap) };
        }
        let blocks: Vec<usize> = (0..is_block.len()).filter(|&index| is_block[index]).collect();
        let keep_from = match blocks.len().checked_sub(mode.blocks_kept) {
            None | Some(0) => 0,
            Some(recovered) => blocks.get(recovered).copied().unwrap_or(is_block.len()),
        };
        let rerun_below = match mode.recompute_transitions {
            false => 0,
            // Where nothing is reversible, transitions are what there is to keep.
            true if blocks.is_empty() => is_block.len().saturating_sub(mode.blocks_kept),
            true => is_block.len(),
        };
        // Where nothing is recovered, nothing runs beside anything.
        let overlap = mode.overlap && (keep_from > 0 || rerun_below > 0);
        Self { keep_from, overlap, rerun_below, inputs: Inputs::Kept }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_keeps_its_last_blocks_and_keeping_all_is_storing() {
        // A transition stands between the first block and the last two.
        let is_block = [true, false, true, true];
        let layout = |blocks_kept, overlap, recompute_transitions| {
            Layout::of(Mode { blocks_kept, overlap, recompute_transitions, ..Mode::default() }, &is_block)
        };
        let keep_from = [0, 1, 2, 3, 9].map(|kept| layout(kept, false, false).keep_from);
        assert_eq!(keep_from, [4, 3, 2, 0, 0]);
        assert_eq!(layout(0, true, false), Layout::recover_all(4, true));
        assert_eq!(layout(0, true, true), Layout::rerun(4, true));
        // With nothing to recover nothing runs beside anything.
        assert_eq!(layout(3, true, false), Layout::STORED);
        assert!(layout(3, true, true).overlap);
    }

    #[test]
    fn where_nothing_is_reversible_the_last_transitions_are_kept() {
        let plain = |blocks_kept, recompute_transitions| {
            Layout::of(Mode { blocks_kept, recompute_transitions, ..Mode::default() }, &[false; 4])
        };
        assert_eq!([0, 1, 4, 9].map(|kept| plain(kept, true).rerun_below), [4, 3, 0, 0]);
        assert_eq!(plain(1, false), Layout::STORED);
        let keeps: Vec<bool> = (0..4).map(|index| plain(3, true).keeps(index, false)).collect();
        assert_eq!(keeps, [false, true, true, true]);
    }
}
