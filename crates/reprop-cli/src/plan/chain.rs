//! Plans of chains: everything stored, Revolve in memory, or states on disk in the background.

use std::path::Path;

use burn::tensor::Device;
use reprop::Kernels;
use reprop::chain::{Async, Checkpointed, Measured};
use reprop_data::Text;
use reprop_models::{CharRnnConfig, Sequences};
use reprop_schedule::{Actions, Channels, Costs, Interpreter, Method, Request, Simulator};
use reprop_store::DiskConfig;
use serde::Serialize;

use crate::bytes::human;
use crate::failure::Failure;

/// Steps of the probe, and its slots: few, so that it goes to disk.
const PROBE: (usize, usize) = (64, 2);

/// A chain to plan.
pub struct Chain<'c> {
    pub model: &'c str,
    pub config: CharRnnConfig,
    pub sequence: usize,
    pub batch: usize,
    pub budget: u64,
}

/// What `--format json` prints for a chain.
#[derive(Serialize)]
pub struct ChainReport {
    model: String,
    sequence: usize,
    batch: usize,
    budget_bytes: u64,
    /// The place of the candidate that is taken.
    chosen: usize,
    candidates: Vec<Row>,
}

/// One candidate.
#[derive(Serialize)]
struct Row {
    strategy: &'static str,
    /// States in memory; none where everything is stored.
    slots: Option<usize>,
    predicted_activation_bytes: u64,
    forward_evaluations: u64,
    predicted_seconds: f64,
    fits: bool,
    refused: Option<String>,
}

impl Chain<'_> {
    /// Measures steps and transfers, and plans.
    pub fn report(
        &self,
        text: &Text,
        kernels: Kernels,
        folder: &Path,
        seed: u64,
    ) -> Result<ChainReport, Failure> {
        let [state, tape] =
            [self.config.state_bytes(), self.config.tape_bytes()].map(|bytes| bytes * self.batch as u64);
        // The state at work, what one step saves, and one snapshot.
        let beside = state + tape;
        let least = beside + state;
        let Some(slots) =
            self.budget.checked_sub(beside).map(|room| (room / state) as usize).filter(|&n| n > 0)
        else {
            return Err(Failure::new(format!(
                "the budget of {} bytes is below the {least} bytes that one snapshot needs",
                self.budget
            ))
            .hint(format!("give --budget at least {least}, or make the batch smaller")));
        };
        let slots = slots.min(self.sequence);
        let costs = self.measure(text, kernels, folder, seed)?;
        let stored = state + self.sequence as u64 * tape;
        let within = beside + slots as u64 * state;
        let mut candidates = vec![
            self.row(Method::Stored, None, stored, &costs)?,
            self.row(Method::Revolve, Some(slots), within, &costs)?,
        ];
        // A chain too short to go to disk in the probe does not go there in training.
        if costs.tiers.len() > 1 {
            candidates.push(self.row(Method::Async, Some(slots), within, &costs)?);
        }
        let chosen = Self::choose(&mut candidates);
        let Self { model, sequence, batch, budget, .. } = *self;
        Ok(ChainReport { model: model.to_owned(), sequence, batch, budget_bytes: budget, chosen, candidates })
    }

    /// Times of steps and transfers, from a short chain that goes to disk.
    fn measure(&self, text: &Text, kernels: Kernels, folder: &Path, seed: u64) -> Result<Costs, Failure> {
        let (steps, slots) = PROBE;
        let network = self.config.init(seed, &Device::flex().autodiff());
        let sequences = Sequences::cut(text.split().train, steps.min(self.sequence), self.batch, 0)?;
        let folder = folder.join(format!("reprop-plan-{}", std::process::id()));
        // Gone with its folder when it is dropped.
        let store = DiskConfig::new(&folder).create()?;
        let mut plan = Async::new(slots).steps(sequences.steps());
        let mut measured = Measured::default();
        // The second pass finds memory and files warm, and its times come first.
        for _ in 0..2 {
            let how = Checkpointed::planner(&mut plan).store(&store);
            measured = network.step(&sequences, kernels, how)?.report.measured.or(measured);
        }
        let Measured { forward, backward, .. } = measured;
        match measured.costs() {
            Some(costs) => Ok(costs),
            None => Ok(Costs::new(forward.unwrap_or(0.0), backward.unwrap_or(0.0))?),
        }
    }

    fn row(&self, method: Method, slots: Option<usize>, bytes: u64, costs: &Costs) -> Result<Row, Failure> {
        let disk = costs.tier(1);
        let request = Request {
            slots,
            forward: costs.forward,
            backward: costs.backward,
            write: Some(disk.write),
            read: Some(disk.read),
            ..Request::new(method, self.sequence)
        };
        let (forward_evaluations, predicted_seconds) = if method == Method::Async {
            // Without the lower bound that a report looks for, which takes longer than the plan.
            replay(request.schedule()?, self.sequence, slots.unwrap_or(1), costs)?
        } else {
            let report = request.report()?;
            (u64::try_from(report.forward_evaluations)?, report.makespan)
        };
        let lacks = bytes.saturating_sub(self.budget);
        Ok(Row {
            strategy: method.name(),
            slots,
            predicted_activation_bytes: bytes,
            forward_evaluations,
            predicted_seconds,
            fits: lacks == 0,
            refused: (lacks > 0).then(|| format!("lacks {}", human(lacks))),
        })
    }

    /// Storing if it fits, else the fastest; says of the others why they are not taken.
    fn choose(candidates: &mut [Row]) -> usize {
        let order = |&a: &usize, &b: &usize| {
            candidates[a].predicted_seconds.total_cmp(&candidates[b].predicted_seconds)
        };
        let fitting = (0..candidates.len()).filter(|&index| candidates[index].fits);
        let chosen = if candidates[0].fits { 0 } else { fitting.min_by(order).unwrap_or(1) };
        for (index, row) in candidates.iter_mut().enumerate() {
            if index != chosen && row.refused.is_none() {
                let why = if chosen == 0 { "everything fits without it" } else { "slower" };
                row.refused = Some(why.to_owned());
            }
        }
        chosen
    }
}

/// Forward evaluations and time of a schedule.
fn replay(actions: Actions, steps: usize, slots: usize, costs: &Costs) -> Result<(u64, f64), Failure> {
    let mut interpreter = Interpreter::new(steps, &[slots, usize::MAX]);
    let mut simulator = Simulator::new(costs, Channels::Shared);
    for action in actions {
        interpreter.apply(&action)?;
        simulator.apply(&action);
    }
    let evaluations = u64::try_from(interpreter.finish()?.forward_evaluations())?;
    Ok((evaluations, simulator.finish().makespan))
}

impl ChainReport {
    /// The strategy that is taken, and its slots if it has any.
    pub fn taken(&self) -> (&'static str, Option<usize>) {
        let Row { strategy, slots, .. } = self.candidates[self.chosen];
        (strategy, slots)
    }

    /// Prints it for people.
    pub fn print(&self) {
        let Self { model, sequence, batch, budget_bytes, .. } = self;
        println!("{model}, {batch} sequences of {sequence} symbols, budget {}", human(*budget_bytes));
        println!("  {:<10} {:>8} {:>10} {:>12} {:>9}", "", "slots", "peak", "evaluations", "s/pass");
        for (index, row) in self.candidates.iter().enumerate() {
            println!(
                "{} {:<10} {:>8} {:>10} {:>12} {:>9.3}  {}",
                if index == self.chosen { "*" } else { " " },
                row.strategy,
                row.slots.map_or(String::new(), |slots| slots.to_string()),
                human(row.predicted_activation_bytes),
                row.forward_evaluations,
                row.predicted_seconds,
                row.refused.as_deref().unwrap_or("taken"),
            );
        }
        if let (strategy, Some(slots)) = self.taken() {
            println!(
                "\nreprop train --model {model} --sequence {sequence} --batch {batch} --strategy {strategy} --slots {slots}"
            );
        }
    }
}
