//! What a run over a chain prints.

use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};
use reprop::chain::{ChainReport, Progress};

use crate::bytes::human;
use crate::failure::Failure;
use crate::options::Format;

use super::report::Outcome;

/// A bar over the way forward and the way back of each pass.
pub struct Sweeps {
    bar: ProgressBar,
    sequence: usize,
}

impl Sweeps {
    pub fn new(sequence: usize) -> Self {
        let bar = ProgressBar::new(2 * sequence as u64);
        let style = ProgressStyle::with_template("{bar:30} {msg}, {elapsed}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar, sequence }
    }

    /// Where the pass is.
    pub fn at(&self, progress: Progress) {
        let back = progress.front.map_or(0, |front| self.sequence - front);
        self.bar.set_position((progress.forward + back) as u64);
    }

    pub fn say(&self, message: String) {
        self.bar.set_message(message);
    }

    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// The table for people, and the last line for scripts.
pub fn print(
    outcome: &Outcome,
    last: Option<&ChainReport>,
    stored: u64,
    folder: &Path,
    format: Format,
) -> Result<(), Failure> {
    if format == Format::Text {
        println!("{}", outcome.headline("steps"));
        if let Some(report) = last {
            table(report, stored);
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

/// The last pass: what it did against what it must.
fn table(report: &ChainReport, stored: u64) {
    let row = |name: &str, value: String| println!("{name:<28} {value:>24}");
    println!("\nthe last pass over {} steps", report.steps);
    row("forward evaluations", format!("{}", report.forward_evaluations));
    row("snapshots in memory", format!("{} in {}", human(report.peak_bytes), report.peak_slots));
    row("everything in memory", human(stored));
    row("written, read", format!("{}, {}", human(report.bytes_written), human(report.bytes_read)));
    row("compression", format!("{:.2}x", report.compression));
    row("seconds", format!("{:.3}", report.seconds));
    row("of them stalled", format!("{:.3}", report.stall_seconds));
    row("predicted", format!("{:.3}", report.predicted_seconds));
    // The bound is a search: quick for chains of this length.
    if report.steps <= 1000
        && let Ok(bound) = report.lower_bound()
    {
        row("lower bound", format!("{bound:.3}"));
    }
}
