//! `metrics.jsonl`: one line a step.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::whole_file::write_whole;

use super::tensorboard::EventFile;

/// What is known after a step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Metrics {
    pub step: usize,
    pub epoch: usize,
    pub loss: f32,
    pub accuracy: f64,
    pub samples_per_second: f64,
    pub activation_peak_bytes: u64,
    /// On the test set, after the last step of an epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_accuracy: Option<f64>,
    /// The same, in runs on text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_loss: Option<f64>,
    /// Cosine of each stage's gradient and the true one, in pipelines that are asked to compare them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alignment: Option<Vec<f64>>,
}

/// Appends to the file of a run.
pub struct MetricsFile {
    lines: BufWriter<File>,
    /// The same for TensorBoard, where asked for.
    events: Option<EventFile>,
}

impl MetricsFile {
    /// Opens the file, keeping the lines of the first `steps` steps: a run that was killed has written lines that its
    /// record does not cover, and will write them again.
    ///
    /// With a folder for TensorBoard, a new file of events goes there.
    pub fn open(run: &Path, steps: usize, tensorboard: Option<&Path>) -> Result<Self, Failure> {
        let path = run.join("metrics.jsonl");
        let kept: String = match fs::read_to_string(&path) {
            Ok(text) => text
                .lines()
                .filter(|line| {
                    serde_json::from_str::<Metrics>(line).is_ok_and(|metrics| metrics.step < steps)
                })
                .flat_map(|line| [line, "\n"])
                .collect(),
            Err(_) => String::new(),
        };
        write_whole(&path, kept.as_bytes())?;
        let file = OpenOptions::new().append(true).open(&path);
        let lines = BufWriter::new(file.with_context(|| format!("cannot open {}", path.display()))?);
        Ok(Self { lines, events: tensorboard.map(EventFile::create).transpose()? })
    }

    /// Writes one line.
    pub fn write(&mut self, metrics: &Metrics) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.lines, metrics)?;
        self.lines.write_all(b"\n")?;
        self.lines.flush()?;
        if let Some(events) = &mut self.events {
            let mut values = vec![
                ("loss", f64::from(metrics.loss)),
                ("accuracy", metrics.accuracy),
                ("samples_per_second", metrics.samples_per_second),
                ("activation_peak_bytes", metrics.activation_peak_bytes as f64),
            ];
            values.extend(metrics.test_accuracy.map(|accuracy| ("test_accuracy", accuracy)));
            values.extend(metrics.test_loss.map(|loss| ("test_loss", loss)));
            events.scalars(metrics.step as u64, &values)?;
        }
        Ok(())
    }
}
