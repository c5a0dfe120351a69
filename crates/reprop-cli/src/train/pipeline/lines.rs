//! Lines of metrics that wait for what is known of their batch only later: a test, or a comparison of gradients.
//!
//! Lines are written in the order of batches, so that those behind a line that waits wait too. A record is valid only when the
//! lines of its batches are written: a resumed run does not write them again.

use std::collections::VecDeque;

use crate::failure::Failure;

use super::super::metrics::{Metrics, MetricsFile};

struct Line {
    metrics: Metrics,
    tested: bool,
    aligned: bool,
}

/// The lines of a run, some of them not yet written.
#[derive(Default)]
pub struct Lines {
    file: Option<MetricsFile>,
    waiting: VecDeque<Line>,
    /// The batch of a record that waits.
    record: Option<u64>,
}

impl Lines {
    pub fn new(file: MetricsFile) -> Self {
        Self { file: Some(file), ..Self::default() }
    }

    /// A line, and whether it still misses a test or a comparison.
    pub fn push(&mut self, metrics: Metrics, test: bool, alignment: bool) -> Result<(), Failure> {
        self.waiting.push_back(Line { metrics, tested: !test, aligned: !alignment });
        self.write()
    }

    /// The result of the first test that a line waits for. A test that nobody waits for is that of an interrupted run.
    pub fn tested(&mut self, accuracy: f64) -> Result<(), Failure> {
        if let Some(line) = self.waiting.iter_mut().find(|line| !line.tested) {
            line.metrics.test_accuracy = Some(accuracy);
            line.tested = true;
        }
        self.write()
    }

    /// A comparison of the gradients of a batch.
    pub fn aligned(&mut self, batch: u64, cosines: &[f64]) -> Result<(), Failure> {
        if let Some(line) = self.waiting.iter_mut().find(|line| line.metrics.step as u64 == batch) {
            line.metrics.alignment = Some(cosines.to_vec());
            line.aligned = true;
        }
        self.write()
    }

    /// Notes a record that all stages have saved.
    pub fn record(&mut self, batch: u64) {
        self.record = Some(batch);
    }

    /// The record whose lines are all written, once.
    pub fn take_record(&mut self) -> Option<u64> {
        let first = self.waiting.front().map_or(u64::MAX, |line| line.metrics.step as u64);
        self.record.take_if(|batch| *batch < first)
    }

    fn write(&mut self) -> Result<(), Failure> {
        while self.waiting.front().is_some_and(|line| line.tested && line.aligned) {
            if let (Some(line), Some(file)) = (self.waiting.pop_front(), &mut self.file) {
                file.write(&line.metrics)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(step: usize) -> Metrics {
        let text = format!(
            "{{\"step\":{step},\"epoch\":0,\"loss\":1.0,\"accuracy\":0.5,\"samples_per_second\":1.0,\
             \"activation_peak_bytes\":1}}"
        );
        serde_json::from_str(&text).expect("a line")
    }

    #[test]
    fn lines_keep_their_order_and_a_record_waits_for_its_lines() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut lines = Lines::new(MetricsFile::open(folder.path(), 0, None).expect("a file"));
        let written = || {
            let text = std::fs::read_to_string(folder.path().join("metrics.jsonl")).expect("lines");
            text.lines().map(|line| serde_json::from_str(line).expect("a line")).collect::<Vec<Metrics>>()
        };
        for (step, test, alignment) in
            [(0, false, false), (1, true, true), (2, false, false), (3, true, false)]
        {
            lines.push(metrics(step), test, alignment).expect("it is written");
        }
        assert_eq!(written().len(), 1);
        lines.record(1);
        assert_eq!(lines.take_record(), None);
        lines.tested(0.25).expect("it is written");
        assert_eq!((written().len(), lines.take_record()), (1, None));
        lines.aligned(1, &[0.5, 1.0]).expect("it is written");
        assert_eq!((written().len(), lines.take_record(), lines.take_record()), (3, Some(1), None));
        lines.tested(0.75).expect("it is written");
        let found = written();
        assert_eq!((found[1].test_accuracy, found[3].test_accuracy), (Some(0.25), Some(0.75)));
        assert_eq!(found[1].alignment.as_deref(), Some(&[0.5, 1.0][..]));
    }
}
