//! What a run prints when it ends.

use std::path::Path;

use reprop::{Pass, Strategy};
use serde::Serialize;

use crate::bytes::human;
use crate::failure::Failure;
use crate::images::ImageNetwork;
use crate::options::Format;

use super::settings::Settings;

/// The last line on stdout.
#[derive(Serialize)]
pub struct Outcome {
    pub parameters_digest: String,
    /// None if the run was interrupted inside a pass.
    pub test_accuracy: Option<f64>,
    pub peak_bytes: u64,
    pub stall_seconds: f64,
    pub steps: usize,
    pub interrupted: bool,
}

impl Outcome {
    /// The first line for people.
    pub fn headline(&self, steps: &str) -> String {
        match self.test_accuracy {
            Some(accuracy) => format!("test accuracy {:.2} % after {} {steps}", 100.0 * accuracy, self.steps),
            None => format!("stopped inside the pass of step {}", self.steps),
        }
    }
}

/// Activation memory of this run against storing.
pub struct Report {
    rows: Vec<(String, u64)>,
}

impl Report {
    /// What this run measured, and what the strategies would need.
    pub fn new<const D: usize, N: ImageNetwork<D>>(
        network: &N,
        settings: &Settings,
        pass: &Pass,
        measured: u64,
    ) -> Result<Self, Failure> {
        let mut rows = vec![(format!("this run ({}, measured)", settings.strategy), measured)];
        for strategy in [Strategy::Stored, Strategy::PaReprop, Strategy::Reprop] {
            if let Some(prediction) = network.predicted(settings.batch, pass, strategy)? {
                rows.push((format!("{strategy} (predicted)"), prediction.activation_peak));
            }
        }
        Ok(Self { rows })
    }

    /// Prints the table for people, and the last line for scripts.
    pub fn print(&self, outcome: &Outcome, folder: &Path, format: Format) -> Result<(), Failure> {
        if format == Format::Text {
            println!("{}\n", outcome.headline("steps"));
            println!("{:<30} {:>12}", "peak activation memory", "");
            for (name, bytes) in &self.rows {
                let stored =
                    self.rows.iter().find(|(name, _)| name.starts_with("stored")).map_or(0, |row| row.1);
                println!("{name:<30} {:>12} {:>6.1} %", human(*bytes), 100.0 * *bytes as f64 / stored as f64);
            }
            println!();
        }
        eprintln!("record, metrics and weights.safetensors are in {}", folder.display());
        if outcome.interrupted {
            eprintln!("interrupted; go on with `reprop train --resume {}`", folder.display());
        }
        println!("{}", serde_json::to_string(outcome)?);
        Ok(())
    }
}
