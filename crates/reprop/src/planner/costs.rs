//! What the parts of a network cost: measured by a probe, or predicted from their shapes.

use serde::{Deserialize, Serialize};

use crate::engine::{Sizes, Visits, visits};
use crate::strategy::Layout;
use crate::{Mode, Network, Pass, Result};

/// The times of one part of a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlaceCosts {
    /// Of its forward, with nothing kept.
    pub forward: f64,
    /// Of its forward with everything kept, and by how much its gradients take longer then: what was kept has left the
    /// cache by the time it is used.
    pub saving: f64,
    /// Of getting back what its gradients need.
    pub recover: f64,
    /// Of its gradients.
    pub grads: f64,
}

/// What every part of a network costs for one batch size on one machine.
///
/// ```
/// use burn::tensor::Device;
/// use reprop::{Costs, Network, Pass};
/// use reprop_models::RevVitConfig;
///
/// let network = RevVitConfig::digits().init(42, &Device::flex().autodiff());
/// let pass = Pass::training(42);
/// let costs = Costs::predicted(&network, 8, &pass)?;
/// let plan = network.plan(8, &pass, 2 << 20, &costs)?;
/// assert!(plan.chosen().prediction.activation_peak <= 2 << 20);
/// # Ok::<(), reprop::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// Whether they are seconds that were measured. Predicted ones are in forwards of the whole network.
    pub measured: bool,
    /// Of the stem: its forward and its gradients.
    pub stem: PlaceCosts,
    /// Of blocks and transitions.
    pub pieces: Vec<PlaceCosts>,
    /// Of the head: its forward and its gradients.
    pub head: PlaceCosts,
    /// What a step takes beside its parts.
    pub rest: f64,
    /// The part of a recovery that takes no time where it runs beside gradients; below 0 where overlap loses. `None` if
    /// the budget left no room to measure it.
    pub hidden: Option<f64>,
    /// Modes that were run themselves, and what a step in them took.
    pub tried: Vec<Tried>,
}

/// What a step takes in a mode, by the clock.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// The mode.
    pub mode: Mode,
    /// The seconds of a step.
    pub seconds: f64,
}

/// A block's gradients, in forwards: two products for each of its forward.
const GRADS: f64 = 2.0;

/// How much of a recovery overlap is expected to hide: nothing where fused kernels keep all threads busy by themselves,
/// else about half, since Burn's operations leave threads idle between and within them.
const HIDDEN: f64 = 0.5;

impl Costs {
    /// Costs from shapes alone, in forwards of the whole network.
    ///
    /// # Errors
    ///
    /// A part that cannot tell its bytes.
    pub fn predicted<const D: usize, N: Network<D>>(network: &N, batch: usize, pass: &Pass) -> Result<Self> {
        Ok(Self::of_sizes(&Sizes::of(network, batch, pass)?, pass))
    }

    pub(crate) fn of_sizes(sizes: &Sizes, pass: &Pass) -> Self {
        let all: f64 = sizes.work().sum();
        let pieces = sizes.work().map(|work| {
            let forward = if all > 0.0 { work / all } else { 0.0 };
            PlaceCosts { forward, saving: forward, recover: forward, grads: GRADS * forward }
        });
        Self {
            measured: false,
            stem: PlaceCosts::default(),
            pieces: pieces.collect(),
            head: PlaceCosts::default(),
            rest: 0.0,
            hidden: Some(if pass.may_fuse() { 0.0 } else { HIDDEN }),
            tried: Vec::new(),
        }
    }

    /// What they are on a machine that takes `times` as long.
    pub(crate) fn scale(&mut self, times: f64) {
        let ends = [&mut self.stem, &mut self.head];
        let places = self.pieces.iter_mut().chain(ends);
        let costs = places
            .flat_map(|place| [&mut place.forward, &mut place.saving, &mut place.recover, &mut place.grads]);
        let tried = self.tried.iter_mut().map(|tried| &mut tried.seconds);
        costs.chain(tried).chain([&mut self.rest]).for_each(|cost| *cost *= times);
    }

    /// What a step in `mode` took, if it was tried.
    pub(crate) fn tried_seconds(&self, mode: Mode) -> Option<f64> {
        self.tried.iter().find(|tried| tried.mode == mode).map(|tried| tried.seconds)
    }

    /// The time of a step in `mode`, from what its parts cost. `is_block` tells which pieces are blocks; `recomputes`, whether the pass recomputes
    /// transitions whatever the mode.
    pub(crate) fn step(&self, mode: Mode, is_block: &[bool], recomputes: bool) -> f64 {
        let layout = Layout::of(mode, is_block);
        let hidden = if layout.overlap { self.hidden.unwrap_or(0.0) } else { 0.0 };
        let ends = [self.stem, self.head].map(|end| end.forward + end.grads);
        let Visits { stem, pieces: forwards } = if layout.takes_snapshots() {
            visits(is_block, layout.inputs)
        } else {
            Visits { stem: 1, pieces: vec![1; is_block.len()] }
        };
        let stem = (stem - 1) as f64 * self.stem.forward;
        let pieces = self.pieces.iter().zip(is_block).zip(forwards).enumerate();
        let pieces = pieces.map(|(index, ((costs, &is_block), forwards))| {
            let kept = layout.keeps(index, is_block) && (is_block || !recomputes);
            let again = forwards as f64 * costs.forward + (1.0 - hidden) * costs.recover;
            costs.grads + if kept { costs.saving } else { again }
        });
        self.rest + stem + ends.iter().sum::<f64>() + pieces.sum::<f64>()
    }
}
