//! Actions as Python classes that `match` takes apart.

use pyo3::prelude::*;
use reprop_schedule::{Action, Slot};

/// A place for one snapshot: tier 0 is memory, tier 1 the disk.
#[pyclass(frozen, eq, hash, from_py_object, name = "Slot", module = "reprop")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PySlot {
    /// 0 for memory, 1 for disk.
    #[pyo3(get)]
    tier: usize,
    /// The number of the slot in its tier.
    #[pyo3(get)]
    index: usize,
}

#[pymethods]
impl PySlot {
    #[classattr]
    fn __match_args__() -> (&'static str, &'static str) {
        ("tier", "index")
    }

    #[new]
    fn new(tier: usize, index: usize) -> Self {
        Self { tier, index }
    }

    fn __repr__(&self) -> String {
        format!("Slot(tier={}, index={})", self.tier, self.index)
    }

    fn __str__(&self) -> String {
        Slot::from(*self).to_string()
    }
}

impl From<Slot> for PySlot {
    fn from(Slot { tier, index }: Slot) -> Self {
        Self { tier, index }
    }
}

impl From<PySlot> for Slot {
    fn from(PySlot { tier, index }: PySlot) -> Self {
        Self { tier, index }
    }
}

/// One instruction to whoever runs the chain. `str(action)` says it in words.
#[pyclass(frozen, eq, hash, name = "Action", module = "reprop")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum PyAction {
    /// Run steps `start .. stop`.
    Forward { start: usize, stop: usize },
    /// Save the working state.
    Save { step: usize, slot: PySlot },
    /// Make a snapshot the working state.
    Load { step: usize, slot: PySlot, keep: bool },
    /// Begin to copy a snapshot, beside the computation.
    Copy { step: usize, source: PySlot, target: PySlot, keep: bool },
    /// Forget a snapshot.
    Free { step: usize, slot: PySlot },
    /// Wait for the transfers of a slot.
    Wait { step: usize, slot: PySlot },
    /// Run a step and keep what its reversal needs.
    Record { step: usize, slot: PySlot },
    /// Run a step from the working state, and reverse it.
    Reverse { step: usize },
    /// Reverse a step that was recorded.
    ReverseRecorded { step: usize, slot: PySlot },
}

#[pymethods]
impl PyAction {
    fn __repr__(&self) -> String {
        match self {
            Self::Forward { start, stop } => format!("Forward(start={start}, stop={stop})"),
            Self::Save { step, slot } => format!("Save(step={step}, slot={})", slot.__repr__()),
            Self::Load { step, slot, keep } => {
                format!("Load(step={step}, slot={}, keep={})", slot.__repr__(), python(*keep))
            }
            Self::Copy { step, source, target, keep } => format!(
                "Copy(step={step}, source={}, target={}, keep={})",
                source.__repr__(),
                target.__repr__(),
                python(*keep)
            ),
            Self::Free { step, slot } => format!("Free(step={step}, slot={})", slot.__repr__()),
            Self::Wait { step, slot } => format!("Wait(step={step}, slot={})", slot.__repr__()),
            Self::Record { step, slot } => format!("Record(step={step}, slot={})", slot.__repr__()),
            Self::Reverse { step } => format!("Reverse(step={step})"),
            Self::ReverseRecorded { step, slot } => {
                format!("ReverseRecorded(step={step}, slot={})", slot.__repr__())
            }
        }
    }

    fn __str__(&self) -> String {
        Action::from(*self).to_string()
    }
}

fn python(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}

impl From<Action> for PyAction {
    fn from(action: Action) -> Self {
        match action {
            Action::Forward { from, to } => Self::Forward { start: from, stop: to },
            Action::Save { step, slot } => Self::Save { step, slot: slot.into() },
            Action::Load { step, slot, keep } => Self::Load { step, slot: slot.into(), keep },
            Action::Copy { step, from, to, keep } => {
                Self::Copy { step, source: from.into(), target: to.into(), keep }
            }
            Action::Free { step, slot } => Self::Free { step, slot: slot.into() },
            Action::Wait { step, slot } => Self::Wait { step, slot: slot.into() },
            Action::Record { step, slot } => Self::Record { step, slot: slot.into() },
            Action::Reverse { step } => Self::Reverse { step },
            Action::ReverseRecorded { step, slot } => Self::ReverseRecorded { step, slot: slot.into() },
        }
    }
}

impl From<PyAction> for Action {
    fn from(action: PyAction) -> Self {
        match action {
            PyAction::Forward { start, stop } => Self::Forward { from: start, to: stop },
            PyAction::Save { step, slot } => Self::Save { step, slot: slot.into() },
            PyAction::Load { step, slot, keep } => Self::Load { step, slot: slot.into(), keep },
            PyAction::Copy { step, source, target, keep } => {
                Self::Copy { step, from: source.into(), to: target.into(), keep }
            }
            PyAction::Free { step, slot } => Self::Free { step, slot: slot.into() },
            PyAction::Wait { step, slot } => Self::Wait { step, slot: slot.into() },
            PyAction::Record { step, slot } => Self::Record { step, slot: slot.into() },
            PyAction::Reverse { step } => Self::Reverse { step },
            PyAction::ReverseRecorded { step, slot } => Self::ReverseRecorded { step, slot: slot.into() },
        }
    }
}
