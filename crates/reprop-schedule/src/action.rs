//! What a schedule says, one self-contained sentence at a time.

use std::fmt;

/// A place that holds one snapshot: tier 0 is memory, tier 1 the first slower storage, and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Slot {
    /// Which storage: 0 is memory, higher is slower.
    pub tier: usize,
    /// Which place in that storage, counted from 0.
    pub index: usize,
}

impl Slot {
    /// The memory slot with this index.
    pub const fn memory(index: usize) -> Self {
        Self { tier: 0, index }
    }

    /// The slot with this index on the first slower tier.
    pub const fn disk(index: usize) -> Self {
        Self { tier: 1, index }
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tier {
            0 => write!(f, "memory {}", self.index),
            1 => write!(f, "disk {}", self.index),
            tier => write!(f, "tier {tier} slot {}", self.index),
        }
    }
}

/// One instruction to whoever runs the chain `x_{i+1} = f_i(x_i)`.
///
/// There is one *working state*, held outside all slots. A program that obeys the actions in order needs to
/// know nothing else about the schedule.
///
/// ```
/// use reprop_schedule::{Action, Slot};
/// let action = Action::Load { step: 4, slot: Slot::memory(1), keep: true };
/// assert_eq!(action.to_string(), "load x4 from memory 1, keep it");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case", tag = "action"))]
pub enum Action {
    /// Read as: the working state is `x_from`; run steps `from .. to` and let `x_to` be the working state.
    Forward {
        /// Where the working state is.
        from: usize,
        /// Where it will be.
        to: usize,
    },
    /// Read as: copy the working state `x_step` into the empty slot, and wait until it is there.
    Save {
        /// The state that is saved.
        step: usize,
        /// The empty slot that takes it.
        slot: Slot,
    },
    /// Read as: copy `x_step` from the slot into the working state; empty the slot unless `keep`.
    Load {
        /// The state that is loaded.
        step: usize,
        /// The slot that holds it.
        slot: Slot,
        /// Whether the slot goes on holding it.
        keep: bool,
    },
    /// Read as: start copying `x_step` between tiers in the background, and go on at once. The target counts
    /// as filled from now on, but whoever loads it waits for the copy to end; whoever empties or refills the
    /// source waits likewise.
    Copy {
        /// The state that is copied.
        step: usize,
        /// The slot that holds it.
        from: Slot,
        /// The empty slot that takes it.
        to: Slot,
        /// Whether the source goes on holding it after the copy.
        keep: bool,
    },
    /// Read as: forget what the slot holds.
    Free {
        /// The state that is forgotten.
        step: usize,
        /// The slot that held it.
        slot: Slot,
    },
    /// Read as: wait until the copies into and out of the slot have ended.
    Wait {
        /// The state that the slot holds.
        step: usize,
        /// The slot.
        slot: Slot,
    },
    /// Read as: the working state is `x_step`; run the step, put its saved tensors into the empty slot, and
    /// let `x_{step+1}` be the working state.
    Record {
        /// The step that is run.
        step: usize,
        /// The empty slot that takes its saved tensors.
        slot: Slot,
    },
    /// Read as: the working state is `x_step`; run the step once more keeping its saved tensors, and
    /// propagate the gradient through it. The working state is used up.
    Reverse {
        /// The step that is reversed.
        step: usize,
    },
    /// Read as: propagate the gradient through the step with the saved tensors in the slot, and empty it.
    ReverseRecorded {
        /// The step that is reversed.
        step: usize,
        /// The slot that holds its saved tensors.
        slot: Slot,
    },
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Forward { from, to } => write!(f, "forward x{from} to x{to}"),
            Self::Save { step, slot } => write!(f, "save x{step} in {slot}"),
            Self::Load { step, slot, keep } => {
                write!(f, "load x{step} from {slot}, {}", if keep { "keep it" } else { "free it" })
            }
            Self::Copy { step, from, to, keep } => {
                write!(f, "copy x{step} from {from} to {to}, {}", if keep { "keep it" } else { "free it" })
            }
            Self::Free { step, slot } => write!(f, "free x{step} in {slot}"),
            Self::Wait { step, slot } => write!(f, "wait for x{step} in {slot}"),
            Self::Record { step, slot } => write!(f, "record step {step} in {slot}"),
            Self::Reverse { step } => write!(f, "reverse step {step}"),
            Self::ReverseRecorded { step, slot } => write!(f, "reverse step {step} from {slot}"),
        }
    }
}
