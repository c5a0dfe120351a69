//! The rungs of the ladder between storing everything and recovering everything.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::engine::Sizes;

/// How a pass uses memory: everything between store-all and one-block-at-a-time.
///
/// ```
/// use reprop::{Inputs, Mode};
///
/// let mode = Mode { blocks_kept: 3, overlap: true, ..Mode::default() };
/// assert_eq!(mode.to_string(), "pareprop, last 3 blocks kept");
/// let mode = Mode { recompute_transitions: true, inputs: Inputs::Few { snapshots: 2 }, ..Mode::default() };
/// assert_eq!(mode.to_string(), "reprop, transitions recomputed from 2 snapshots");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mode {
    /// How many of the last blocks keep what they saved; those below are recovered. More than there are means all. In a
    /// network without reversible blocks, how many of the last transitions do, where the others are recomputed.
    pub blocks_kept: usize,
    /// Whether gradients of one block are computed beside the recovery of the next.
    pub overlap: bool,
    /// Whether transitions keep their inputs alone and are run again.
    pub recompute_transitions: bool,
    /// Where those inputs wait. Unless they are all kept, transitions are run again whatever the other fields say, no
    /// block keeps what it saved, and the stem is run again too.
    #[serde(default)]
    pub inputs: Inputs,
}

/// Where the inputs of transitions that are run again wait for the backward pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Inputs {
    /// In memory.
    #[default]
    Kept,
    /// At most so many in memory. The others are computed anew from the nearest one below, or from the network's input,
    /// in the order of [`Revolve`](reprop_schedule::Revolve), which does so least often.
    Few {
        /// How many; none leaves the network's input alone.
        snapshots: usize,
    },
    /// On a disk, written in the background and read ahead of their turn: see [`Pass::spill`](crate::Pass::spill).
    Spilled,
}

impl fmt::Display for Inputs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept => Ok(()),
            Self::Few { snapshots: 0 } => formatter.write_str(" from the network's input"),
            Self::Few { snapshots: 1 } => formatter.write_str(" from 1 snapshot"),
            Self::Few { snapshots } => write!(formatter, " from {snapshots} snapshots"),
            Self::Spilled => formatter.write_str(" from disk"),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&match self.blocks_kept {
            0 if self.inputs == Inputs::Kept => self.saying(", no block kept"),
            0 => self.saying(""),
            1 => self.saying(", last block kept"),
            blocks => self.saying(&format!(", last {blocks} blocks kept")),
        })
    }
}

/// Two numbers of snapshots that are tried differ by one, or by this part of the larger.
const FINENESS: usize = 16;

impl Mode {
    /// Its name, with this said of the blocks that it keeps.
    pub(super) fn saying(&self, blocks_kept: &str) -> String {
        let how = if self.overlap { "pareprop" } else { "reprop" };
        let inputs = &self.inputs;
        let rest = if self.recompute_transitions {
            format!(", transitions recomputed{inputs}")
        } else {
            String::new()
        };
        format!("{how}{blocks_kept}{rest}")
    }

    /// Whether it keeps no more than any of `modes` that are alike in all else.
    pub(crate) fn keeps_least_of(self, modes: &[Self]) -> bool {
        let alike = |other: &&Self| Self { blocks_kept: self.blocks_kept, ..**other } == self;
        modes.iter().filter(alike).all(|other| other.blocks_kept >= self.blocks_kept)
    }
}

/// What `Reprop` and an overlapping `PaReprop` run as, with transitions kept and recomputed.
pub(crate) fn usual(sizes: &Sizes) -> Vec<Mode> {
    let modes = [false, true].into_iter().flat_map(|overlap| {
        [false, true].map(|recompute_transitions| Mode { overlap, recompute_transitions, ..Mode::default() })
    });
    modes.map(|mode| sizes.usual(mode)).collect()
}

/// Blocks and transitions.
fn counts(sizes: &Sizes) -> (usize, usize) {
    let is_block = sizes.is_block();
    let blocks = is_block.iter().filter(|&&is_block| is_block).count();
    (blocks, is_block.len() - blocks)
}

/// The mode that keeps everything that the pass lets it keep.
pub(crate) fn stored(sizes: &Sizes) -> Mode {
    let (blocks_kept, transitions) = counts(sizes);
    let recompute_transitions = transitions > 0 && sizes.recompute_transitions;
    Mode { blocks_kept, recompute_transitions, ..Mode::default() }
}

/// `mode` with the blocks kept that need no more memory than none.
fn keeping_free(sizes: &Sizes, mode: Mode) -> Mode {
    sizes.keeping_within(mode, sizes.predict(mode).activation_peak)
}

/// Every mode that a network of these sizes can run in, but for those that recover what costs no memory to keep. The first
/// is [`stored`].
pub(crate) fn modes(sizes: &Sizes) -> Vec<Mode> {
    let (blocks, transitions) = counts(sizes);
    let recomputes: &[bool] = match (transitions > 0, sizes.recompute_transitions) {
        (true, false) => &[false, true],
        (true, true) => &[true],
        (false, _) => &[false],
    };
    let mut modes = Vec::new();
    // On one thread nothing runs beside anything.
    let may_overlap = rayon::current_num_threads() > 1;
    for &recompute_transitions in recomputes {
        let bare = |overlap| Mode { overlap, recompute_transitions, ..Mode::default() };
        let [free, free_beside] = [false, true].map(|overlap| keeping_free(sizes, bare(overlap)).blocks_kept);
        for blocks_kept in (0..=blocks).rev() {
            if blocks_kept >= free {
                modes.push(Mode { blocks_kept, ..bare(false) });
            }
            // Where all is kept there is nothing to run.
            let is_run = blocks_kept < blocks || recompute_transitions;
            if may_overlap && is_run && blocks_kept >= free_beside {
                modes.push(Mode { blocks_kept, ..bare(true) });
            }
        }
    }
    let mut push = |mode: Mode, beside: bool| {
        modes.push(mode);
        if beside && may_overlap {
            modes.push(Mode { overlap: true, ..mode });
        }
    };
    if blocks == 0 && !sizes.recompute_transitions {
        // To keep all of them is to store.
        for blocks_kept in (1..transitions).rev() {
            push(Mode { blocks_kept, recompute_transitions: true, ..Mode::default() }, true);
        }
    }
    // The input of the last transition is at work when the backward pass begins: it takes no snapshot. Of many numbers of
    // snapshots some will do.
    let fewer = |&snapshots: &usize| snapshots.checked_sub(1 + snapshots / FINENESS);
    let few = std::iter::successors(transitions.checked_sub(1), fewer);
    let few = few.map(|snapshots| Inputs::Few { snapshots });
    let spilled = (sizes.spills && transitions > 0).then_some(Inputs::Spilled);
    for inputs in spilled.into_iter().chain(few) {
        // One transition after the other leaves nothing to run beside it.
        push(Mode { recompute_transitions: true, inputs, ..Mode::default() }, blocks > 0);
    }
    modes
}
