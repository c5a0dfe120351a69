//! Two files of results, run by run.

use std::collections::BTreeMap;

use crate::table::{aligned, piped};
use crate::{Error, Results, Run, Spread};

/// Fewer timed steps than these tell nothing about their spread.
const ENOUGH: usize = 3;
/// Fewer timed steps than these have no quartiles worth the name: all of them count.
const QUARTILES: usize = 5;

/// What became of a run's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The middle halves of both runs' times overlap (all of them, where they are fewer than five): what differs may be
    /// noise.
    Same,
    /// The second is faster by more than the spread.
    Faster,
    /// The second is slower by more than the spread.
    Slower,
    /// One of the two has fewer than three timed steps.
    Unclear,
}

impl Verdict {
    /// A word for people and programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Unclear => "unclear",
        }
    }
}

/// A run and its like in the other file.
#[derive(Clone, Debug)]
pub struct Pair {
    /// Of the first file.
    pub first: Run,
    /// Of the second file.
    pub second: Run,
}

impl Pair {
    /// Time of the second beside the first's: below 1, the second is faster.
    pub fn time_ratio(&self) -> f64 {
        self.second.median_seconds / self.first.median_seconds
    }

    /// Activation memory of the second beside the first's.
    pub fn memory_ratio(&self) -> f64 {
        self.second.activation_peak_bytes as f64 / self.first.activation_peak_bytes as f64
    }

    /// Whether the gradients are the same bits.
    pub fn same_gradients(&self) -> bool {
        self.first.gradient_digest == self.second.gradient_digest
    }

    /// What became of the time.
    pub fn verdict(&self) -> Verdict {
        if self.first.step_seconds.len().min(self.second.step_seconds.len()) < ENOUGH {
            return Verdict::Unclear;
        }
        match extent(&self.first).overlaps(&extent(&self.second)) {
            true => Verdict::Same,
            false if self.time_ratio() < 1.0 => Verdict::Faster,
            false => Verdict::Slower,
        }
    }
}

/// Where a run's times lie: the middle half of them, or all where they are few.
fn extent(run: &Run) -> Spread {
    let spread = run.spread();
    if run.step_seconds.len() >= QUARTILES {
        return spread;
    }
    let low = run.step_seconds.iter().copied().fold(f64::INFINITY, f64::min);
    let high = run.step_seconds.iter().copied().fold(0.0, f64::max);
    Spread { low, high, ..spread }
}

/// Two files of results.
///
/// ```
/// use reprop_report::{Comparison, Results, Run, Verdict};
///
/// let results = |times: &[f64]| {
///     let run = Run { strategy: "reprop".into(), batch: 2, ..Run::default() };
///     Results { runs: vec![run.timed(times.to_vec())], ..Results::default() }
/// };
/// let comparison = Comparison::new(&results(&[1.0, 1.1, 0.9]), &results(&[0.5, 0.6, 0.7])).unwrap();
/// assert_eq!(comparison.pairs[0].verdict(), Verdict::Faster);
/// ```
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Runs that are in both.
    pub pairs: Vec<Pair>,
    /// Names of runs that only the first has.
    pub only_first: Vec<String>,
    /// Names of runs that only the second has.
    pub only_second: Vec<String>,
}

const HEADINGS: [&str; 10] =
    ["model", "batch", "depth", "strategy", "threads", "first", "second", "time", "memory", "gradients"];

impl Comparison {
    /// Finds for each run its like.
    ///
    /// # Errors
    /// If nothing is in both.
    pub fn new(first: &Results, second: &Results) -> Result<Self, Error> {
        let mut rest: BTreeMap<_, &Run> = second.runs.iter().map(|run| (run.key(), run)).collect();
        let (mut pairs, mut only_first) = (Vec::new(), Vec::new());
        for run in &first.runs {
            match rest.remove(&run.key()) {
                Some(like) => pairs.push(Pair { first: run.clone(), second: like.clone() }),
                None => only_first.push(run.name()),
            }
        }
        if pairs.is_empty() {
            return Err(Error::NothingInCommon { first: first.runs.len(), second: second.runs.len() });
        }
        Ok(Self { pairs, only_first, only_second: rest.values().map(|run| run.name()).collect() })
    }

    fn rows(&self) -> Vec<[String; HEADINGS.len()]> {
        let row = |pair: &Pair| {
            let Pair { first, second } = pair;
            [
                first.model.clone(),
                first.batch.to_string(),
                first.depth.to_string(),
                first.way(),
                first.threads.to_string(),
                format!("{:.2} ms", 1e3 * first.median_seconds),
                format!("{:.2} ms", 1e3 * second.median_seconds),
                format!("{:.3} {}", pair.time_ratio(), pair.verdict().name()),
                format!("{:.3}", pair.memory_ratio()),
                if pair.same_gradients() { "equal" } else { "DIFFERENT" }.to_owned(),
            ]
        };
        self.pairs.iter().map(row).collect()
    }

    /// For a terminal.
    pub fn text(&self) -> String {
        let rows: Vec<_> = std::iter::once(HEADINGS.map(str::to_owned)).chain(self.rows()).collect();
        aligned(&rows)
    }

    /// For documents.
    pub fn markdown(&self) -> String {
        piped(&HEADINGS, &self.rows())
    }

    /// For programs.
    pub fn json(&self) -> serde_json::Value {
        let pair = |pair: &Pair| {
            let Run { model, batch, depth, strategy, threads, budget, .. } = &pair.first;
            serde_json::json!({
                "model": model,
                "batch": batch,
                "depth": depth,
                "strategy": strategy,
                "threads": threads,
                "budget": budget,
                "median_seconds": [pair.first.median_seconds, pair.second.median_seconds],
                "time_ratio": pair.time_ratio(),
                "memory_ratio": pair.memory_ratio(),
                "verdict": pair.verdict().name(),
                "same_gradients": pair.same_gradients(),
            })
        };
        serde_json::json!({
            "pairs": self.pairs.iter().map(pair).collect::<Vec<_>>(),
            "only_first": self.only_first,
            "only_second": self.only_second,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::run;

    fn results(runs: Vec<Run>) -> Results {
        Results { runs, ..Results::default() }
    }

    fn verdict(first: &[f64], second: &[f64]) -> Verdict {
        let pair = Pair { first: run("stored", 1, first), second: run("stored", 1, second) };
        pair.verdict()
    }

    #[test]
    fn only_a_difference_beyond_the_spread_counts() {
        assert_eq!(verdict(&[1.0, 1.1, 1.2], &[1.15, 1.2, 1.3]), Verdict::Same);
        assert_eq!(verdict(&[1.0, 1.1, 1.1, 1.2, 9.0], &[1.3, 1.4, 1.4, 1.5, 0.1]), Verdict::Slower);
        assert_eq!(verdict(&[1.0, 1.1, 1.2], &[1.5, 1.6, 1.7]), Verdict::Slower);
        assert_eq!(verdict(&[1.0, 1.1, 1.2], &[0.5, 0.6, 9.0]), Verdict::Same);
        assert_eq!(verdict(&[1.0, 1.1, 1.2], &[0.5, 0.6, 0.7]), Verdict::Faster);
        assert_eq!(verdict(&[1.0, 1.1], &[0.5, 0.6, 0.7]), Verdict::Unclear);
    }

    #[test]
    fn runs_are_compared_with_their_like_and_the_rest_is_named() {
        let first = results(vec![run("stored", 1, &[1.0; 3]), run("stored", 2, &[1.0; 3])]);
        let other = Run { gradient_digest: "f".repeat(32), ..run("stored", 2, &[2.0; 3]) };
        let second = results(vec![other, run("reprop", 2, &[1.0; 3])]);
        let comparison = Comparison::new(&first, &second).expect("one in common");
        assert_eq!(comparison.pairs.len(), 1);
        assert_eq!(comparison.pairs[0].time_ratio().to_bits(), 2.0_f64.to_bits());
        assert!(!comparison.pairs[0].same_gradients());
        assert_eq!(comparison.only_first, ["rev-vit-s, depth 12, batch 1, stored, 2 threads"]);
        assert_eq!(comparison.only_second, ["rev-vit-s, depth 12, batch 2, reprop, 2 threads"]);
        assert!(comparison.text().contains("2.000 slower  1.000   DIFFERENT"), "{}", comparison.text());
        assert_eq!(comparison.json()["pairs"][0]["verdict"], "slower");
    }

    #[test]
    fn files_without_a_common_run_are_an_error_with_both_numbers() {
        let error = Comparison::new(
            &results(vec![run("stored", 1, &[1.0])]),
            &results(vec![run("reprop", 1, &[1.0])]),
        );
        let sentence = error.expect_err("nothing in common").to_string();
        assert!(sentence.contains("(1 runs) has its like"), "{sentence}");
    }
}
