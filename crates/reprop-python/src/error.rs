//! Rust's errors as Python's exceptions, with the same sentences.

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;

create_exception!(reprop, ScheduleError, PyValueError, "A schedule or plan that cannot be made.");
create_exception!(reprop, StoreError, PyException, "A snapshot that could not be stored or fetched.");
create_exception!(reprop, CorruptError, StoreError, "A snapshot that is not what was written.");
create_exception!(reprop, StoreFullError, StoreError, "No room for a snapshot.");

/// The library speaks of the program's options; Python has arguments.
pub fn schedule(error: reprop_schedule::Error) -> PyErr {
    let mut message = error.to_string();
    for (option, argument) in [("--disk-slots", "disk_slots="), ("--slots", "slots="), ("--write", "write=")]
    {
        message = message.replace(option, argument);
    }
    ScheduleError::new_err(message)
}

/// The class tells what a program can do about it.
pub fn store(error: reprop_store::Error) -> PyErr {
    let message = error.to_string();
    if error.is_full() {
        return StoreFullError::new_err(message);
    }
    match error {
        reprop_store::Error::Corrupt { .. } => CorruptError::new_err(message),
        _ => StoreError::new_err(message),
    }
}
