//! Plans for chains whose steps differ, under a budget of bytes.

use pyo3::prelude::*;
use reprop_schedule::draw::Picture;
use reprop_schedule::{Action, Budgeted, Chain, Channels, Offloaded, Run, Step, Transfer, simulate};

use crate::error::{ScheduleError, schedule as refused};
use crate::schedule::{ActionIterator, drawn};

/// The fastest plan for a chain of unequal steps in a number of bytes.
#[pyclass(frozen, module = "reprop")]
pub struct Plan {
    chain: Chain,
    budget: u64,
    actions: Vec<Action>,
    run: Run,
}

impl Plan {
    fn find(steps: Vec<Step>, budget: u64, offload: bool) -> Result<Self, reprop_schedule::Error> {
        let chain = Chain::new(steps)?;
        let actions: Vec<_> = if offload {
            Offloaded::new(&chain, budget, Channels::Shared)?.collect()
        } else {
            Budgeted::new(&chain, budget)?.collect()
        };
        let run = simulate(actions.iter().copied(), &chain, Channels::Shared);
        Ok(Self { chain, budget, actions, run })
    }
}

#[pymethods]
impl Plan {
    /// `steps` holds (forward, backward, state bytes, tape bytes), `transfers` (write, read) for each.
    #[new]
    #[pyo3(signature = (steps, budget, transfers=None))]
    fn new(
        py: Python<'_>,
        steps: Vec<(f64, f64, u64, u64)>,
        budget: u64,
        transfers: Option<Vec<(f64, f64)>>,
    ) -> PyResult<Self> {
        if let Some(transfers) = transfers.as_ref().filter(|transfers| transfers.len() != steps.len()) {
            let message = format!("{} transfers are given for {} steps", transfers.len(), steps.len());
            return Err(ScheduleError::new_err(message));
        }
        let offload = transfers.is_some();
        let transfers = transfers.unwrap_or_else(|| vec![(0.0, 0.0); steps.len()]);
        let steps = steps.into_iter().zip(transfers).map(|(step, (write, read))| {
            let (forward, backward, state_bytes, tape_bytes) = step;
            Step { forward, backward, state_bytes, tape_bytes, transfer: Transfer { write, read } }
        });
        let steps = steps.collect();
        py.detach(|| Self::find(steps, budget, offload)).map_err(refused)
    }

    fn __iter__(&self) -> ActionIterator {
        ActionIterator::of(self.actions.clone())
    }

    fn __len__(&self) -> usize {
        self.actions.len()
    }

    #[getter]
    fn steps(&self) -> usize {
        self.chain.steps().len()
    }
    #[getter]
    fn budget(&self) -> u64 {
        self.budget
    }
    #[getter]
    fn makespan(&self) -> f64 {
        self.run.makespan
    }
    #[getter]
    fn peak_bytes(&self) -> u64 {
        self.run.peak_bytes.first().copied().unwrap_or_default()
    }
    #[getter]
    fn forward_evaluations(&self) -> usize {
        let evaluations = self.actions.iter().map(|action| match action {
            Action::Forward { from, to } => to - from,
            Action::Record { .. } | Action::Reverse { .. } => 1,
            _ => 0,
        });
        evaluations.sum()
    }

    #[pyo3(signature = (kind="svg", columns=100))]
    fn draw(&self, kind: &str, columns: usize) -> PyResult<String> {
        let title = format!("{} steps in {} bytes", self.steps(), self.budget);
        let actions = self.actions.iter().copied();
        let picture =
            Picture::new(title, self.steps(), actions, &self.chain, Channels::Shared).map_err(refused)?;
        drawn(&picture, kind, columns)
    }

    fn _repr_svg_(&self) -> Option<String> {
        self.draw("svg", 0).ok()
    }

    fn __repr__(&self) -> String {
        format!("Plan(steps={}, budget={}, makespan={})", self.steps(), self.budget, self.run.makespan)
    }
}
