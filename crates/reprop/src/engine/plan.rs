//! What a strategy will need, told before it runs, and the layout that it comes down to.

use crate::planner::{Plan, modes};
use crate::strategy::Layout;
use crate::{Costs, Mode, Network, Pass, Piece, Result, Strategy};

use super::Sizes;

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

/// The layout of a strategy for this network and batch.
pub(super) fn choose<const D: usize, N: Network<D>>(
    network: &N,
    batch: usize,
    pass: &Pass,
    strategy: Strategy,
) -> Result<Layout> {
    let is_block: Vec<bool> = network.pieces().iter().map(|piece| matches!(piece, Piece::Block(_))).collect();
    let mode = match strategy {
        Strategy::Stored => return Ok(Layout::STORED),
        Strategy::Reprop => return Ok(Layout::recover_all(is_block.len(), false)),
        Strategy::PaReprop => return Ok(Layout::recover_all(is_block.len(), true)),
        Strategy::Planned(mode) => mode,
        Strategy::Auto { budget } => automatic(network, batch, pass, budget)?,
    };
    Ok(Layout::of(mode, &is_block))
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
        return Ok(Mode { blocks_kept: 0, overlap: false, recompute_transitions: false });
    };
    // The first of the modes keeps everything: no other is looked at where that fits, at each step anew.
    let stored = modes(&sizes)[0];
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
