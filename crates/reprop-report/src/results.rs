//! What `reprop bench` measures, as it is kept in files.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{Error, Machine, Spread, Timeline, human};

/// Everything that was measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Results {
    /// What it was measured on.
    pub machine: Machine,
    /// One for each configuration.
    pub runs: Vec<Run>,
    /// One step each, watched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timelines: Vec<Timeline>,
}

/// One configuration: a network at a batch size under a strategy, on so many threads.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// The network.
    pub model: String,
    /// Samples a step.
    pub batch: usize,
    /// Blocks and transitions.
    pub depth: usize,
    /// How the backward pass gets its activations.
    pub strategy: String,
    /// Threads to compute with.
    pub threads: usize,
    /// Side of the images in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<usize>,
    /// Bytes of activations that may live at once, for `auto`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<u64>,
    /// Every timed step, in order.
    pub step_seconds: Vec<f64>,
    /// The middle of them.
    pub median_seconds: f64,
    /// Samples in a second at the median.
    pub samples_per_second: f64,
    /// The most bytes that the process held for this run.
    pub peak_bytes: u64,
    /// The most bytes of activations that lived at once.
    pub activation_peak_bytes: u64,
    /// What was foretold, where the network can tell.
    pub predicted_activation_bytes: Option<u64>,
    /// What the device's allocator took for the first step and its optimizer, on devices other than the CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_reserved_bytes: Option<u64>,
    /// Loss of the first step.
    pub loss: f32,
    /// A hash over the bits of all gradients of the first step.
    pub gradient_digest: String,
}

impl Run {
    /// This run with these times.
    #[must_use]
    pub fn timed(mut self, step_seconds: Vec<f64>) -> Self {
        self.median_seconds = Spread::of(&step_seconds).map_or(0.0, |spread| spread.median);
        self.samples_per_second =
            if self.median_seconds > 0.0 { self.batch as f64 / self.median_seconds } else { 0.0 };
        self.step_seconds = step_seconds;
        self
    }

    /// The strategy with its budget, as tables name it.
    pub fn way(&self) -> String {
        match self.budget {
            Some(budget) => format!("{} {}", self.strategy, human(budget)),
            None => self.strategy.clone(),
        }
    }

    /// The configuration in words.
    pub fn name(&self) -> String {
        format!(
            "{}, depth {}, batch {}, {}, {} threads",
            self.model,
            self.depth,
            self.batch,
            self.way(),
            self.threads
        )
    }

    /// Median and quartiles of a step.
    pub fn spread(&self) -> Spread {
        let all = self.median_seconds;
        Spread::of(&self.step_seconds).unwrap_or(Spread { low: all, median: all, high: all })
    }

    /// What makes two runs alike.
    pub(crate) fn key(&self) -> impl Ord + Clone + use<> {
        let Self { model, batch, depth, strategy, threads, image, budget, .. } = self;
        (model.clone(), *image, *depth, *batch, *threads, strategy.clone(), *budget)
    }

    fn check(&self) -> Result<(), Error> {
        let impossible = |what: String| Err(Error::Impossible { run: self.name(), what });
        match self.step_seconds.iter().find(|seconds| !(seconds.is_finite() && **seconds > 0.0)) {
            Some(seconds) => return impossible(format!("a step of {seconds} seconds")),
            None if self.step_seconds.is_empty() => return impossible("no timed step".to_owned()),
            None => {}
        }
        if self.gradient_digest.is_empty() {
            return impossible("no gradient digest".to_owned());
        }
        // Written with its times; a file that was changed by hand does not agree with itself.
        let median = self.spread().median;
        if (self.median_seconds - median).abs() > 1e-9 * median {
            return impossible(format!(
                "a median of {} seconds where its steps have {median}",
                self.median_seconds
            ));
        }
        Ok(())
    }
}

impl Results {
    /// Results from a file's text.
    ///
    /// # Errors
    /// If the text is something else, or its numbers cannot be.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let results: Self = serde_json::from_str(text).map_err(Error::NotResults)?;
        if results.runs.is_empty() {
            return Err(Error::Empty);
        }
        let mut seen = BTreeSet::new();
        for run in &results.runs {
            run.check()?;
            if !seen.insert(run.key()) {
                return Err(Error::Twice(run.name()));
            }
        }
        Ok(results)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A run with these times.
    pub fn run(strategy: &str, batch: usize, step_seconds: &[f64]) -> Run {
        Run {
            model: "rev-vit-s".to_owned(),
            batch,
            depth: 12,
            strategy: strategy.to_owned(),
            threads: 2,
            activation_peak_bytes: 1 << 20,
            predicted_activation_bytes: Some(1 << 20),
            loss: 2.5,
            gradient_digest: "0123456789abcdef0123456789abcdef".to_owned(),
            ..Run::default()
        }
        .timed(step_seconds.to_vec())
    }

    fn text(runs: Vec<Run>) -> String {
        serde_json::to_string(&Results { runs, ..Results::default() }).expect("plain data")
    }

    #[test]
    fn results_come_back_as_they_were_written() {
        let written = text(vec![run("stored", 2, &[0.25, 0.5]), run("reprop", 2, &[0.5])]);
        let read = Results::parse(&written).expect("results");
        assert_eq!(serde_json::to_string(&read).expect("plain data"), written);
    }

    #[test]
    fn files_that_are_no_results_say_so() {
        for (file, sentence) in [
            ("not JSON".to_owned(), "holds no results"),
            ("{\"runs\": []}".to_owned(), "missing field `machine`"),
            (text(vec![]), "no runs"),
            (text(vec![run("stored", 2, &[])]), "no timed step"),
            (text(vec![run("stored", 2, &[-1.0])]), "a step of -1 seconds"),
            (text(vec![run("stored", 2, &[1.0]), run("stored", 2, &[2.0])]), "twice"),
            (text(vec![Run { median_seconds: 3.0, ..run("stored", 2, &[1.0]) }]), "a median of 3"),
            (text(vec![run("stored", 2, &[1.0])])[..100].to_owned(), "EOF"),
        ] {
            let error = Results::parse(&file).expect_err(sentence).to_string();
            assert!(error.contains(sentence), "{error}");
        }
    }
}
