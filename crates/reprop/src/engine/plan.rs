//! What a strategy will need, told before it runs, and the layout that it comes down to.

use crate::planner::{Plan, stored};
use crate::strategy::Layout;
use crate::{Costs, Mode, Network, Pass, Piece, Result, Strategy};

use super::Sizes;
use super::sizes::last_of;

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

/// The layout of a strategy for this network, unless it depends on the batch.
pub(super) fn settled<const D: usize, N: Network<D>>(network: &N, strategy: Strategy) -> Option<Layout> {
    match strategy {
        Strategy::Stored => Some(Layout::STORED),
        Strategy::Planned(mode) => Some(Layout::of(mode, &are_blocks(&network.pieces()))),
        Strategy::Reprop | Strategy::PaReprop | Strategy::Auto { .. } => None,
    }
}

/// The layout of a strategy for this network and batch.
pub(super) fn choose<const D: usize, N: Network<D>>(
    network: &N,
    batch: usize,
    pass: &Pass,
    strategy: Strategy,
) -> Result<Layout> {
    let mode = match strategy {
        Strategy::Stored => return Ok(Layout::STORED),
        Strategy::Reprop => recovering(network, batch, pass, false),
        Strategy::PaReprop => recovering(network, batch, pass, true),
        Strategy::Auto { budget } => automatic(network, batch, pass, budget)?,
        Strategy::Planned(mode) => mode,
    };
    Ok(Layout::of(mode, &are_blocks(&network.pieces())))
}

/// The mode of `Reprop` and `PaReprop`. Of a network that cannot tell its bytes the last block is kept: its saved tensors are used before
/// any other block's are there.
fn recovering<const D: usize, N: Network<D>>(network: &N, batch: usize, pass: &Pass, overlap: bool) -> Mode {
    let Ok(sizes) = Sizes::of(network, batch, pass) else {
        let blocks = are_blocks(&network.pieces()).into_iter().filter(|&is_block| is_block).count();
        return Mode { blocks_kept: last_of(blocks), overlap, ..Mode::default() };
    };
    sizes.recovering(overlap)
}

/// Which of the pieces are blocks.
pub(super) fn are_blocks<const D: usize>(pieces: &[Piece<'_, D>]) -> Vec<bool> {
    pieces.iter().map(|piece| matches!(piece, Piece::Block(_))).collect()
}

/// The mode that predicted costs choose for a budget.
fn automatic<const D: usize, N: Network<D>>(
    network: &N,
    batch: usize,
    pass: &Pass,
    budget: u64,
) -> Result<Mode> {
    // A network that cannot tell its bytes gets the leanest mode.
    let Ok(sizes) = Sizes::of(network, batch, pass) else {
        return Ok(Mode::default());
    };
    // No other mode is looked at where everything fits, at each step anew.
    let stored = stored(&sizes);
    if sizes.predict(stored).activation_peak <= budget {
        return Ok(stored);
    }
    let plan = Plan::new(&sizes, batch, budget, &Costs::of_sizes(&sizes, pass))?;
    Ok(plan.chosen().mode)
}

/// What `strategy` will need.
pub(crate) fn predicted<const D: usize, N: Network<D>>(
    network: &N,
    batch: usize,
    pass: &Pass,
    strategy: Strategy,
) -> Result<Option<Prediction>> {
    let layout = choose(network, batch, pass, strategy)?;
    Ok(Sizes::of(network, batch, pass).ok().map(|sizes| sizes.predict_layout(layout)))
}
