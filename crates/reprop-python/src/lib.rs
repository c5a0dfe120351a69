//! The compiled part of the Python package `reprop`: schedules, plans and the store. What runs a user's steps is Python,
//! in `python/reprop`.

mod action;
mod error;
mod plan;
mod schedule;
mod store;

use pyo3::prelude::*;

/// Everything that `reprop._reprop` exports.
#[pymodule]
mod _reprop {
    #[pymodule_export]
    use crate::action::{PyAction, PySlot};
    #[pymodule_export]
    use crate::error::{CorruptError, ScheduleError, StoreError, StoreFullError};
    #[pymodule_export]
    use crate::plan::Plan;
    #[pymodule_export]
    use crate::schedule::{ActionIterator, Schedule, quick_async};
    #[pymodule_export]
    use crate::store::Store;
}
