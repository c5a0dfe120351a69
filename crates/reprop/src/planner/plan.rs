//! The plan: every mode with what it needs, and the one to take.

use std::fmt;

use crate::engine::Sizes;
use crate::{Costs, Error, Inputs, Mode, Prediction, Result, Strategy};

use super::{modes, usual};

/// Every mode of a network for one batch size, and the fastest of them that fits a budget.
///
/// ```
/// use burn::tensor::{Device, Int, Tensor};
/// use reprop::{Network, Pass};
/// use reprop_models::RevVitConfig;
///
/// let network = RevVitConfig::digits().init(42, &Device::flex().autodiff());
/// let images = Tensor::<4>::ones([8, 1, 8, 8], &Device::flex());
/// let labels = Tensor::<1, Int>::zeros([8], &Device::flex());
/// let (pass, budget) = (Pass::training(42), 2 << 20);
///
/// let costs = network.measure(images.clone(), labels.clone(), &pass, budget)?;
/// let plan = network.plan(8, &pass, budget, &costs)?;
/// let step = network.step(images, labels, pass, plan.strategy())?;
/// assert!(step.memory.activation_peak <= budget);
/// # Ok::<(), reprop::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Samples of the batch.
    pub batch: usize,
    /// Bytes of activations that may live at once.
    pub budget: u64,
    /// Whether times are seconds that were measured; predicted ones are in forwards of the whole network.
    pub measured: bool,
    /// Every mode, from the one that keeps most.
    pub candidates: Vec<Candidate>,
    chosen: usize,
    /// What `Reprop` and an overlapping `PaReprop` run as.
    usual: Vec<Mode>,
}

/// A mode, and what it will need.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The mode.
    pub mode: Mode,
    /// The bytes and evaluations of a step.
    pub prediction: Prediction,
    /// The time of a step, forward and backward: in seconds where costs were measured, else in forwards of the network.
    pub time: f64,
    /// Why it was not taken.
    pub refused: Option<Refusal>,
}

/// Why a candidate was not taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Refusal {
    /// It needs this many bytes more than there are.
    OverBudget {
        /// The bytes that it lacks.
        lacks: u64,
    },
    /// Everything fits, so that there is nothing to save.
    NoNeed,
    /// Another takes less time.
    Slower {
        /// The time that it takes more.
        by: f64,
    },
    /// It may be faster, but not surely, or not by enough for the memory that it takes.
    Doubtful,
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OverBudget { lacks } => write!(formatter, "lacks {lacks} bytes"),
            Self::NoNeed => formatter.write_str("everything fits without it"),
            Self::Slower { .. } => formatter.write_str("slower"),
            Self::Doubtful => formatter.write_str("not clearly faster"),
        }
    }
}

impl Plan {
    pub(crate) fn new(sizes: &Sizes, batch: usize, budget: u64, costs: &Costs) -> Result<Self> {
        let is_block = sizes.is_block();
        if costs.pieces.len() != is_block.len() {
            return Err(Error::CostsOfAnother { expected: is_block.len(), found: costs.pieces.len() });
        }
        let usual = usual(sizes);
        let mut candidates: Vec<Candidate> = modes(sizes)
            .into_iter()
            .map(|mode| Candidate {
                mode,
                prediction: sizes.predict(mode),
                time: costs
                    .tried_seconds(mode)
                    .unwrap_or_else(|| costs.step(mode, &is_block, sizes.recompute_transitions)),
                refused: None,
            })
            .collect();
        let chosen = choose(&candidates, budget, |mode| match costs.tried_seconds(mode) {
            None if !costs.tried.is_empty() => UNTRIED,
            Some(_) => handicap(mode, &usual),
            None if mode.inputs != Inputs::Kept => handicap(mode, &usual),
            None => 1.0,
        })?;
        let least = candidates[chosen].time;
        for (index, candidate) in candidates.iter_mut().enumerate() {
            let peak = candidate.prediction.activation_peak;
            candidate.refused = match peak.checked_sub(budget) {
                Some(lacks) if lacks > 0 => Some(Refusal::OverBudget { lacks }),
                _ if index == chosen => None,
                _ if chosen == 0 => Some(Refusal::NoNeed),
                _ if candidate.time < least => Some(Refusal::Doubtful),
                _ => Some(Refusal::Slower { by: candidate.time - least }),
            };
        }
        Ok(Self { batch, budget, measured: costs.measured, candidates, chosen, usual })
    }

    /// Whether there is memory for everything.
    pub(crate) fn keeps_all(&self) -> bool {
        self.chosen == 0
    }

    /// How many times faster a candidate has to be for what it takes.
    pub(super) fn handicap(&self, mode: Mode) -> f64 {
        handicap(mode, &self.usual)
    }

    /// The candidate to take.
    pub fn chosen(&self) -> &Candidate {
        &self.candidates[self.chosen]
    }

    /// A candidate's name for people.
    pub fn name(&self, candidate: &Candidate) -> String {
        let Mode { blocks_kept, overlap, recompute_transitions, inputs } = candidate.mode;
        if blocks_kept < self.candidates[0].mode.blocks_kept {
            let is_usual = self.usual.contains(&candidate.mode);
            return if is_usual { candidate.mode.saying("") } else { candidate.mode.to_string() };
        }
        let how = if overlap { " beside gradients" } else { "" };
        if blocks_kept > self.candidates[0].mode.blocks_kept {
            // Nothing is reversible.
            let transitions = if blocks_kept == 1 { "transition" } else { "transitions" };
            format!("last {blocks_kept} {transitions} kept, rest recomputed{how}")
        } else if inputs != Inputs::Kept {
            format!("transitions recomputed{inputs}{how}")
        } else if recompute_transitions {
            format!("stored, transitions recomputed{how}")
        } else {
            "stored".to_owned()
        }
    }

    /// The strategy to run. Where everything fits that is [`Strategy::Stored`], at no cost beside it.
    pub fn strategy(&self) -> Strategy {
        let mode = self.chosen().mode;
        if self.keeps_all() && !mode.recompute_transitions {
            Strategy::Stored
        } else {
            Strategy::Planned(mode)
        }
    }
}

/// How many times faster than those that were run a mode has to promise to be that was not: sums over parts are as wrong.
const UNTRIED: f64 = 1.1;

/// How many times faster a mode has to be for what it takes: blocks that are kept beyond the `usual` must be worth their
/// memory, and inputs that are not all kept the work or the disk that they take.
fn handicap(mode: Mode, usual: &[Mode]) -> f64 {
    if mode.inputs != Inputs::Kept || !mode.keeps_least_of(usual) { 1.01 } else { 1.0 }
}

/// The candidate that keeps everything, if it fits: it does the least work, whatever noise there is in the costs. Else the
/// fastest that fits, by times that `doubt` lengthens, and of equals the one that needs least.
fn choose(candidates: &[Candidate], budget: u64, doubt: impl Fn(Mode) -> f64) -> Result<usize> {
    let peak = |index: usize| candidates[index].prediction.activation_peak;
    let fits = |index: &usize| peak(*index) <= budget;
    if fits(&0) {
        return Ok(0);
    }
    let time = |index: usize| candidates[index].time * doubt(candidates[index].mode);
    let order = |&a: &usize, &b: &usize| time(a).total_cmp(&time(b)).then(peak(a).cmp(&peak(b)));
    (0..candidates.len()).filter(fits).min_by(order).ok_or_else(|| Error::BudgetTooSmall {
        budget,
        least: (0..candidates.len()).map(peak).min().unwrap_or(0),
    })
}
