//! What the report says in words.

use crate::{Results, Run, human};

pub const THROUGHPUT: &str = "Samples a second against the batch, one chart a network. Bars at a point reach over the middle \
    half of its steps. Higher is better.";
pub const MEMORY: &str = "The most bytes of activations that lived at once. Points were measured, dashed lines foretold. \
    Stored activations grow with depth; recomputed ones do not.";
pub const LADDER: &str = "One step's time against the memory it needs: further left is smaller, further down is faster. The \
    line joins what no other point beats at both.";
pub const TIMELINE: &str = "What each worker did in one step. Where rows share time, the recovery of one block runs beside the \
    gradients of the next.";
pub const PEERS: &str = "Steps of both sides in turn, round by round, on this machine. A ratio above 1 means that reprop is \
    faster.";
pub const RUNS: &str = "Equal digests mean that all gradients are the same bits. The spread is the distance of the quartiles \
    beside the median.";

/// What was measured, in a sentence.
pub fn summary(results: &Results) -> String {
    let fewest = results.runs.iter().map(|run| run.step_seconds.len()).min().unwrap_or(0);
    let most = results.runs.iter().map(|run| run.step_seconds.len()).max().unwrap_or(0);
    let steps = if fewest == most { most.to_string() } else { format!("{fewest} to {most}") };
    format!(
        "{} runs of {steps} timed steps, in turn, on {} ({} cores, {}).",
        results.runs.len(),
        results.machine.processor,
        results.machine.cores,
        human(results.machine.memory_bytes)
    )
}

/// One number to look at first.
pub struct Card {
    pub title: String,
    pub number: String,
    pub rest: String,
}

/// At most so many networks are told about at the top.
const CARDS: usize = 3;

/// Memory and throughput of the best recomputing run beside storing, at the largest configuration of each network.
pub fn cards(results: &Results) -> Vec<Card> {
    let size = |run: &&Run| (run.depth, run.batch, run.threads);
    let mut cards = Vec::new();
    for model in super::figures::models(results).into_iter().take(CARDS) {
        let stored =
            results.runs.iter().filter(|run| run.model == model && run.strategy == "stored").max_by_key(size);
        let Some(stored) = stored else { continue };
        let alike = |run: &&Run| {
            (&run.model, run.depth, run.batch, run.threads, run.image)
                == (&stored.model, stored.depth, stored.batch, stored.threads, stored.image)
        };
        let recomputed = results
            .runs
            .iter()
            .filter(alike)
            .filter(|run| run.strategy == "reprop" || run.strategy == "pareprop")
            .max_by(|a, b| a.samples_per_second.total_cmp(&b.samples_per_second));
        let Some(run) = recomputed else { continue };
        let share = |part: f64, whole: f64| format!("{:.0} %", 100.0 * part / whole);
        cards.push(Card {
            title: format!("{model}, depth {}, batch {}", stored.depth, stored.batch),
            number: share(run.activation_peak_bytes as f64, stored.activation_peak_bytes as f64),
            rest: format!(
                "of the stored activations, at {} of its throughput ({})",
                share(run.samples_per_second, stored.samples_per_second),
                run.strategy
            ),
        });
    }
    cards
}
