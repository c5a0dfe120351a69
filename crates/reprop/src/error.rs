//! What can go wrong, with the numbers in it.

use thiserror::Error;

use crate::{Precision, Storage};

/// Why a pass through a network could not be honoured.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Error {
    /// A stream left the range in which its fixed-point arithmetic is exact.
    #[error(
        "the residual streams reached magnitude {reached:e}, but {fraction_bits} fraction bits are exact only below {limit}: \
         use fewer fraction bits, a smaller learning rate, or `Arithmetic::Float`"
    )]
    RangeOverflow {
        /// The largest magnitude met (infinite or not a number where a sub-block gave such a value).
        reached: f32,
        /// Magnitudes below this are exact.
        limit: f32,
        /// The fraction bits of the grid.
        fraction_bits: u32,
    },
    /// The loss is infinite or not a number.
    #[error("the loss is {loss} at step {step}: its gradients would destroy the parameters")]
    LossNotFinite {
        /// The loss.
        loss: f32,
        /// The step of the pass.
        step: u64,
    },
    /// An input whose shape does not fit the network.
    #[error("{what}: expected {expected}, found {found}")]
    Shape {
        /// Which input.
        what: &'static str,
        /// What fits.
        expected: String,
        /// What was given.
        found: String,
    },
    /// A label that is no class.
    #[error("label {label} is not one of the {classes} classes, which are numbered from 0")]
    Label {
        /// The label.
        label: i64,
        /// The number of classes.
        classes: usize,
    },
    /// No parameter of the network requires gradients.
    #[error(
        "none of the network's parameters requires gradients: initialise it on `device.autodiff()`, or unfreeze some of them"
    )]
    NothingToTrain,
    /// A budget below what the leanest strategy needs.
    #[error(
        "the budget of {budget} bytes is below the {least} bytes that the leanest strategy needs: raise it, or make the \
         batch smaller"
    )]
    BudgetTooSmall {
        /// The bytes given.
        budget: u64,
        /// The bytes needed at least.
        least: u64,
    },
    /// A part that does not tell the bytes it will need, so that no plan can be made.
    #[error(
        "the part in place {place} does not tell the bytes it needs (its `footprint` is `None`): give it a footprint, or \
         choose a strategy by hand"
    )]
    BytesUnknown {
        /// Its place: 0 is the stem, then come the pieces, then the head.
        place: usize,
    },
    /// Costs of another network.
    #[error("costs of {found} pieces cannot plan a network of {expected}")]
    CostsOfAnother {
        /// Pieces of the network.
        expected: usize,
        /// Pieces that the costs are of.
        found: usize,
    },
    /// A stage of places that the network does not have.
    #[error("a stage of places {start} to {end} cannot be cut from a network of {places} places")]
    Places {
        /// Where the stage would begin.
        start: usize,
        /// Where it would end, exclusive.
        end: usize,
        /// How many the network has.
        places: usize,
    },
    /// Inputs that are not those that a stage keeps.
    #[error(
        "a stage with {expected} transitions was given {found} kept inputs{}",
        if *stem { ", and it needs the network's input too" } else { "" }
    )]
    TrailInputs {
        /// Transitions of the stage.
        expected: usize,
        /// Inputs found.
        found: usize,
        /// Whether the stage begins with the stem.
        stem: bool,
    },
    /// That device has no such floats to keep saved tensors in.
    #[error("{device} has no {storage}: keep saved tensors in another format; f32 goes everywhere")]
    Storage {
        /// What was asked for.
        storage: Storage,
        /// The device.
        device: String,
    },
    /// F and G cannot compute in that precision on that device.
    #[error("{device} does not compute in {precision:?}: choose another precision; f32 goes everywhere")]
    Precision {
        /// What was asked for.
        precision: Precision,
        /// The device.
        device: String,
    },
    /// A mode that spills, in a pass that has no disk to spill to.
    #[error("the mode writes streams to a disk, and the pass has none: give it one with `Pass::spill`")]
    NoSpill,
    /// Streams that left memory for a disk could not be written or read.
    #[error("streams on their way to disk and back: {reason}")]
    Spill {
        /// What the store says.
        reason: String,
    },
    /// A parameter that a file of weights does not have.
    #[error("the weights have no `{name}`")]
    MissingParameter {
        /// The parameter.
        name: String,
    },
    /// A parameter of another shape.
    #[error("`{name}` has the shape {expected:?}, but {found:?} in the weights")]
    ParameterShape {
        /// The parameter.
        name: String,
        /// The network's.
        expected: Vec<usize>,
        /// The weights'.
        found: Vec<usize>,
    },
    /// Weights that the network has no parameter for.
    #[error("the network has no parameter `{name}`, which the weights have")]
    StrangeParameter {
        /// The tensor.
        name: String,
    },
}

impl Error {
    /// Of what a store says.
    #[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
    pub(crate) fn spill(said: impl ToString) -> Self {
        Self::Spill { reason: said.to_string() }
    }
}

/// The result of a pass.
pub type Result<T, E = Error> = std::result::Result<T, E>;
