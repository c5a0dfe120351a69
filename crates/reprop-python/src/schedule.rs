//! A schedule by name: its actions, its counts, its picture.

use std::sync::{Mutex, OnceLock, PoisonError};

use pyo3::prelude::*;
use reprop_schedule::{Action, Actions, Async, Channels, Costs, Method, Report, Request, draw};

use crate::action::PyAction;
use crate::error::{ScheduleError, schedule as refused};

/// A snapshot schedule: iterate for its actions; as often as you like.
#[pyclass(frozen, module = "reprop")]
pub struct Schedule {
    request: Request,
    /// Counts of what has to be replayed to be counted are made when they are first asked for.
    report: OnceLock<Report>,
}

impl Schedule {
    fn report(&self, py: Python<'_>) -> PyResult<&Report> {
        if let Some(report) = self.report.get() {
            return Ok(report);
        }
        let report = py.detach(|| self.request.report()).map_err(refused)?;
        Ok(self.report.get_or_init(|| report))
    }
}

#[pymethods]
impl Schedule {
    #[new]
    #[pyo3(signature = (method, steps, slots=None, disk_slots=None, write=None, read=None, forward=1.0, backward=1.0,
        separate_channels=false))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments in Python")]
    fn new(
        method: &str,
        steps: usize,
        slots: Option<usize>,
        disk_slots: Option<usize>,
        write: Option<f64>,
        read: Option<f64>,
        forward: f64,
        backward: f64,
        separate_channels: bool,
    ) -> PyResult<Self> {
        let method: Method = method.parse().map_err(refused)?;
        let channels = if separate_channels { Channels::Separate } else { Channels::Shared };
        let request = Request { method, steps, slots, disk_slots, write, read, forward, backward, channels };
        Ok(Self { request, report: OnceLock::new() })
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<ActionIterator> {
        let actions = py.detach(|| self.request.schedule()).map_err(refused)?;
        Ok(ActionIterator(Mutex::new(actions)))
    }

    #[getter]
    fn method(&self) -> &'static str {
        self.request.method.name()
    }
    #[getter]
    fn steps(&self) -> usize {
        self.request.steps
    }
    #[getter]
    fn slots(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.report(py)?.slots)
    }
    #[getter]
    fn advances(&self, py: Python<'_>) -> PyResult<u128> {
        Ok(self.report(py)?.advances)
    }
    #[getter]
    fn forward_evaluations(&self, py: Python<'_>) -> PyResult<u128> {
        Ok(self.report(py)?.forward_evaluations)
    }
    #[getter]
    fn snapshots_written(&self, py: Python<'_>) -> PyResult<u128> {
        Ok(self.report(py)?.snapshots_written)
    }
    #[getter]
    fn disk_writes(&self, py: Python<'_>) -> PyResult<u128> {
        Ok(self.report(py)?.disk_writes)
    }
    #[getter]
    fn disk_reads(&self, py: Python<'_>) -> PyResult<u128> {
        Ok(self.report(py)?.disk_reads)
    }
    #[getter]
    fn makespan(&self, py: Python<'_>) -> PyResult<f64> {
        Ok(self.report(py)?.makespan)
    }
    #[getter]
    fn lower_bound(&self, py: Python<'_>) -> PyResult<f64> {
        Ok(self.report(py)?.lower_bound)
    }
    #[getter]
    fn peak_slots(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.report(py)?.peak_slots)
    }

    #[pyo3(signature = (kind="svg", columns=100))]
    fn draw(&self, py: Python<'_>, kind: &str, columns: usize) -> PyResult<String> {
        let picture = py.detach(|| self.request.picture()).map_err(refused)?;
        drawn(&picture, kind, columns)
    }

    fn _repr_svg_(&self, py: Python<'_>) -> Option<String> {
        // What is too long for a picture shows its text instead.
        self.draw(py, "svg", 0).ok()
    }

    fn __repr__(&self) -> String {
        let Request { method, steps, slots, .. } = &self.request;
        let slots = slots.map_or_else(String::new, |slots| format!(", slots={slots}"));
        format!("Schedule({:?}, steps={steps}{slots})", method.name())
    }

    fn __str__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.report(py)?.to_string())
    }
}

/// A picture in one of its two kinds.
pub fn drawn(picture: &draw::Picture, kind: &str, columns: usize) -> PyResult<String> {
    match kind {
        "svg" => Ok(draw::svg(picture)),
        "text" => Ok(draw::text(picture, columns)),
        other => Err(ScheduleError::new_err(format!("unknown kind `{other}`: choose svg or text"))),
    }
}

/// The actions of a schedule or a plan, one after the other.
#[pyclass(frozen, module = "reprop")]
pub struct ActionIterator(Mutex<Actions>);

impl ActionIterator {
    /// The actions of a list.
    pub fn of(actions: Vec<Action>) -> Self {
        Self(Mutex::new(Box::new(actions.into_iter())))
    }
}

#[pymethods]
impl ActionIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self) -> Option<PyAction> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next().map(PyAction::from)
    }
}

/// The actions of an asynchronous schedule that is made at once, without a search.
///
/// # Errors
/// `ScheduleError`.
#[pyfunction]
#[pyo3(signature = (steps, slots, write, read, forward, backward))]
pub fn quick_async(
    py: Python<'_>,
    steps: usize,
    slots: usize,
    write: f64,
    read: f64,
    forward: f64,
    backward: f64,
) -> PyResult<ActionIterator> {
    let costs = Costs::new(forward, backward).and_then(|costs| costs.disk(write, read)).map_err(refused)?;
    let plan = py.detach(|| Async::quick(steps, slots, &costs, Channels::Shared)).map_err(refused)?;
    Ok(ActionIterator(Mutex::new(Box::new(plan))))
}
