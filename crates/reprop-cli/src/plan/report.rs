//! A plan as it is printed.

use reprop::{Candidate, Inputs, Plan, Refusal};
use serde::Serialize;

use super::resolve::Source;
use crate::bytes::human;

/// What `--format json` prints.
#[derive(Serialize)]
pub struct Report {
    model: String,
    batch: usize,
    budget_bytes: u64,
    threads: usize,
    /// `measured`, `cached` or `predicted`.
    costs: Source,
    /// The place of the candidate that is taken.
    chosen: usize,
    /// The largest batch that fits the budget, where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    largest_batch: Option<usize>,
    candidates: Vec<Row>,
}

/// One candidate.
#[derive(Serialize)]
struct Row {
    name: String,
    blocks_kept: usize,
    overlap: bool,
    recompute_transitions: bool,
    /// Where inputs of transitions wait that are recomputed: `kept`, `snapshots` or `disk`.
    inputs: &'static str,
    /// How many of them are in memory, if that is not all.
    snapshots: Option<usize>,
    predicted_activation_bytes: u64,
    forward_evaluations: usize,
    /// Of a step, forward and backward; none where costs are predicted.
    predicted_seconds: Option<f64>,
    samples_per_second: Option<f64>,
    /// In forwards of the network; none where costs are measured.
    predicted_forwards: Option<f64>,
    fits: bool,
    /// Why it is not taken.
    refused: Option<String>,
}

impl Report {
    pub fn new(model: &str, plan: &Plan, costs: Source, largest_batch: Option<usize>) -> Self {
        let chosen = plan.candidates.iter().position(|candidate| candidate.refused.is_none());
        Self {
            model: model.to_owned(),
            batch: plan.batch,
            budget_bytes: plan.budget,
            threads: rayon::current_num_threads(),
            costs,
            chosen: chosen.unwrap_or(0),
            largest_batch,
            candidates: plan.candidates.iter().map(|candidate| Row::new(plan, candidate)).collect(),
        }
    }

    /// Prints it for people: of each family of candidates the one that keeps least and the one that keeps most, or all.
    pub fn print(&self, all: bool) {
        if let Some(batch) = self.largest_batch {
            println!("the largest batch that fits {} is {batch}\n", human(self.budget_bytes));
        }
        let costs = match self.costs {
            Source::Measured => "costs measured now",
            Source::Cached => "costs measured before",
            Source::Predicted => "costs predicted",
        };
        println!(
            "{}, batch {}, {} threads, budget {}; {costs}",
            self.model,
            self.batch,
            self.threads,
            human(self.budget_bytes)
        );
        let [time, rate] = match self.costs {
            Source::Predicted => ["forwards", ""],
            _ => ["s/step", "samples/s"],
        };
        println!("  {:<58} {:>10} {time:>9} {rate:>10}", "", "peak");
        for (index, row) in self.candidates.iter().enumerate() {
            if all || index == self.chosen || self.stands_out(index) {
                row.print(index == self.chosen);
            }
        }
    }

    /// Whether a candidate is what a strategy runs as, or keeps the least or the most that fits in its family.
    fn stands_out(&self, index: usize) -> bool {
        let row = &self.candidates[index];
        let family = |row: &Row| (row.overlap, row.recompute_transitions, row.inputs);
        let keeps = |row: &Row| row.blocks_kept + row.snapshots.unwrap_or(0);
        let alike = || self.candidates.iter().filter(|other| family(other) == family(row));
        let most = alike().filter(|other| other.fits).map(keeps).max();
        let is_strategy = ["reprop", "pareprop"].contains(&row.name.as_str());
        index == 0 || is_strategy || Some(keeps(row)) == most || Some(keeps(row)) == alike().map(keeps).min()
    }
}

impl Row {
    fn new(plan: &Plan, candidate: &Candidate) -> Self {
        let Candidate { mode, prediction, time, refused } = *candidate;
        let seconds = plan.measured.then_some(time);
        Self {
            name: plan.name(candidate),
            blocks_kept: mode.blocks_kept,
            overlap: mode.overlap,
            recompute_transitions: mode.recompute_transitions,
            inputs: match mode.inputs {
                Inputs::Kept => "kept",
                Inputs::Few { .. } => "snapshots",
                Inputs::Spilled => "disk",
            },
            snapshots: match mode.inputs {
                Inputs::Few { snapshots } => Some(snapshots),
                Inputs::Kept | Inputs::Spilled => None,
            },
            predicted_activation_bytes: prediction.activation_peak,
            forward_evaluations: prediction.forward_evaluations,
            predicted_seconds: seconds,
            samples_per_second: seconds.map(|seconds| plan.batch as f64 / seconds),
            predicted_forwards: (!plan.measured).then_some(time),
            fits: !matches!(refused, Some(Refusal::OverBudget { .. })),
            refused: refused.map(|refused| match refused {
                Refusal::OverBudget { lacks } => format!("lacks {}", human(lacks)),
                other => other.to_string(),
            }),
        }
    }

    fn print(&self, chosen: bool) {
        let mark = if chosen { "*" } else { " " };
        let time = self.predicted_seconds.or(self.predicted_forwards).unwrap_or(0.0);
        let rate = self.samples_per_second.map_or(String::new(), |rate| format!("{rate:.1}"));
        let why = self.refused.as_deref().unwrap_or("taken");
        println!(
            "{mark} {:<58} {:>10} {time:>9.3} {rate:>10}  {why}",
            self.name,
            human(self.predicted_activation_bytes)
        );
    }
}
