//! The rungs of the ladder between storing everything and recovering everything.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::engine::Sizes;

/// How a pass uses memory: everything between store-all and one-block-at-a-time.
///
/// ```
/// use reprop::Mode;
///
/// let mode = Mode { blocks_kept: 3, overlap: true, recompute_transitions: false };
/// assert_eq!(mode.to_string(), "pareprop, last 3 blocks kept");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mode {
    /// How many of the last blocks keep what they saved; those below are recovered. More than there are means all.
    pub blocks_kept: usize,
    /// Whether gradients of one block are computed beside the recovery of the next.
    pub overlap: bool,
    /// Whether transitions keep their inputs alone and are run again.
    pub recompute_transitions: bool,
}

impl fmt::Display for Mode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { blocks_kept, overlap, recompute_transitions } = *self;
        formatter.write_str(if overlap { "pareprop" } else { "reprop" })?;
        match blocks_kept {
            0 => {}
            1 => formatter.write_str(", last block kept")?,
            _ => write!(formatter, ", last {blocks_kept} blocks kept")?,
        }
        formatter.write_str(if recompute_transitions { ", transitions recomputed" } else { "" })
    }
}

/// Every mode that a network of these sizes can run in. The first keeps everything that the pass lets it keep.
pub(crate) fn modes(sizes: &Sizes) -> Vec<Mode> {
    let is_block = sizes.is_block();
    let blocks = is_block.iter().filter(|&&is_block| is_block).count();
    let transitions = blocks < is_block.len();
    let recomputes: &[bool] = match (transitions, sizes.recompute_transitions) {
        (true, false) => &[false, true],
        (true, true) => &[true],
        (false, _) => &[false],
    };
    let mut modes = Vec::new();
    for &recompute_transitions in recomputes {
        for blocks_kept in (0..=blocks).rev() {
            modes.push(Mode { blocks_kept, overlap: false, recompute_transitions });
            // On one thread nothing runs beside anything, and where all is kept there is nothing to run.
            let beside = blocks_kept < blocks || recompute_transitions;
            if beside && rayon::current_num_threads() > 1 {
                modes.push(Mode { blocks_kept, overlap: true, recompute_transitions });
            }
        }
    }
    modes
}
