//! What a run shows while it trains: three lines on a terminal, a plain line now and then elsewhere.

use std::collections::VecDeque;
use std::io::IsTerminal as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use reprop::{Holder, MemoryReport};

use crate::bytes::human;

use super::metrics::Metrics;

/// How often a plain line is written.
const OFTEN: Duration = Duration::from_secs(10);
/// Losses that are drawn.
const DRAWN: usize = 24;
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The lines of a run.
pub struct Live {
    bar: ProgressBar,
    progress: ProgressBar,
    memory: ProgressBar,
    how: How,
    state: Mutex<State>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Terminal,
    Plain,
    Silent,
}

struct State {
    losses: VecDeque<f32>,
    said: Instant,
}

impl Live {
    /// Lines for a run of `steps` steps that begins at `first`.
    pub fn new(steps: usize, first: usize) -> Self {
        let how = if std::io::stderr().is_terminal() { How::Terminal } else { How::Plain };
        Self::with(how, steps, first)
    }

    /// Nothing, for processes that have nothing to show.
    pub fn silent() -> Self {
        Self::with(How::Silent, 0, 0)
    }

    fn with(how: How, steps: usize, first: usize) -> Self {
        let hidden = ProgressBar::hidden;
        let (bar, progress, memory) = if how == How::Terminal {
            let lines = MultiProgress::new();
            let bar = lines.add(ProgressBar::new(steps as u64).with_position(first as u64));
            let (progress, memory) =
                (lines.add(ProgressBar::no_length()), lines.add(ProgressBar::no_length()));
            style(&bar, "{bar:30} {pos}/{len} steps, {elapsed} of {duration}");
            style(&progress, "{wide_msg}");
            style(&memory, "{wide_msg}");
            (bar, progress, memory)
        } else {
            (hidden(), hidden(), hidden())
        };
        bar.set_length(steps as u64);
        Self {
            bar,
            progress,
            memory,
            how,
            state: Mutex::new(State { losses: VecDeque::new(), said: Instant::now() }),
        }
    }

    /// Shows a step, with what held its memory where that is known.
    pub fn step(&self, line: &Metrics, report: Option<&MemoryReport>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.losses.push_back(line.loss);
        if state.losses.len() > DRAWN {
            state.losses.pop_front();
        }
        let done = line.step + 1;
        match self.how {
            How::Silent => {}
            How::Terminal => {
                self.bar.set_position(done as u64);
                self.progress.set_message(format!("{}  {}", sparkline(&state.losses), words(line)));
                self.memory.set_message(memory(line, report));
            }
            How::Plain => {
                let last = self.bar.length() == Some(done as u64);
                if last || state.said.elapsed() > OFTEN {
                    state.said = Instant::now();
                    let steps = self.bar.length().unwrap_or_default();
                    eprintln!("step {done}/{steps}: {}; {}", words(line), memory(line, report));
                }
            }
        }
    }

    /// Takes the lines away.
    pub fn finish(&self) {
        for bar in [&self.bar, &self.progress, &self.memory] {
            bar.finish_and_clear();
        }
    }
}

fn style(bar: &ProgressBar, template: &str) {
    let style = ProgressStyle::with_template(template);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
}

fn words(line: &Metrics) -> String {
    format!(
        "loss {:.4}, accuracy {:5.1} %, {:.1} samples/s",
        line.loss,
        100.0 * line.accuracy,
        line.samples_per_second
    )
}

/// Bytes at the activations' peak, the largest holder first.
fn memory(line: &Metrics, report: Option<&MemoryReport>) -> String {
    let whole = format!("activations {}", human(line.activation_peak_bytes));
    let Some(report) = report else { return whole };
    let mut holders: Vec<(u64, Holder)> = Holder::ALL
        .into_iter()
        .filter(|holder| *holder != Holder::Parameters)
        .map(|holder| (report.at_peak(holder), holder))
        .filter(|(bytes, _)| *bytes > 0)
        .collect();
    holders.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    let parts: Vec<String> =
        holders.iter().map(|(bytes, holder)| format!("{} {}", holder.name(), human(*bytes))).collect();
    format!("{whole}: {}", parts.join(", "))
}

/// Numbers as a row of bars, the lowest as the lowest bar.
fn sparkline(values: &VecDeque<f32>) -> String {
    let low = values.iter().copied().fold(f32::INFINITY, f32::min);
    let high = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let height = |value: &f32| {
        let part = if high > low { (value - low) / (high - low) } else { 0.0 };
        HEIGHTS[(part * (HEIGHTS.len() - 1) as f32).round() as usize]
    };
    values.iter().map(height).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use reprop::Meter;

    fn line() -> Metrics {
        Metrics {
            step: 4,
            epoch: 0,
            loss: 0.5,
            accuracy: 0.25,
            samples_per_second: 12.0,
            activation_peak_bytes: 3 << 10,
            test_accuracy: None,
            test_loss: None,
            alignment: None,
        }
    }

    #[test]
    fn memory_is_shown_by_holder_the_largest_first() {
        let meter = Meter::new();
        let _held = (meter.hold(Holder::Streams, 1 << 10), meter.hold(Holder::Blocks, 2 << 10));
        let shown = memory(&line(), Some(&meter.report()));
        assert_eq!(shown, "activations 3.0 KiB: blocks' saved tensors 2.0 KiB, streams 1.0 KiB");
        assert_eq!(memory(&line(), None), "activations 3.0 KiB");
    }

    #[test]
    fn losses_are_drawn_between_the_lowest_and_the_highest() {
        assert_eq!(sparkline(&VecDeque::from([0.0, 3.5, 7.0])), "▁▅█");
        assert_eq!(sparkline(&VecDeque::from([2.0, 2.0])), "▁▁");
        assert_eq!(sparkline(&VecDeque::new()), "");
    }
}
