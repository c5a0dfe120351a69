//! `reprop bench`: throughput and memory of strategies, interleaved so that drift of the machine hits all alike.

mod export;
mod machine;
mod measure;
mod picture;

use burn::tensor::Device;
use indicatif::{ProgressBar, ProgressStyle};
use reprop::Trace;
use serde::Serialize;

use crate::device;
use crate::failure::Failure;
use crate::options::{self, BenchOptions, Format, Global};
use crate::sample::with_sample;
use crate::trace_file;

use machine::Machine;
use measure::{Case, Measurement};

/// Everything that was measured.
#[derive(Serialize)]
pub struct Results {
    pub machine: Machine,
    pub runs: Vec<Run>,
}

/// One strategy on one network at one batch size.
#[derive(Clone, Serialize)]
pub struct Run {
    pub model: String,
    pub batch: usize,
    pub depth: usize,
    pub strategy: String,
    pub threads: usize,
    pub step_seconds: Vec<f64>,
    pub median_seconds: f64,
    pub samples_per_second: f64,
    pub peak_bytes: u64,
    pub activation_peak_bytes: u64,
    pub predicted_activation_bytes: Option<u64>,
    pub loss: f32,
    pub gradient_digest: String,
}

/// Measures every combination, and writes the results after each.
pub fn run(global: &Global, options: &BenchOptions) -> Result<(), Failure> {
    let device = device::by_name(&global.device)?;
    if let Some(path) = &options.export {
        export::check(path)?;
    }
    let cases = cases(global, options)?;
    let rounds =
        (options.warmup + options.steps) * cases.iter().map(|case| case.strategies.len()).sum::<usize>();
    let bar = ProgressBar::new(rounds as u64);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} steps, {eta} left, {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));

    let mut results = Results { machine: Machine::look(), runs: Vec::new() };
    let trace = options.trace.is_some().then(Trace::new);
    for case in cases {
        results.runs.extend(measure(case, global.seed, &device, &bar, trace.clone())?);
        if let Some(path) = &options.export {
            export::write(path, &results)?;
        }
    }
    bar.finish_and_clear();
    if let (Some(path), Some(trace)) = (&options.trace, &trace) {
        trace_file::write(path, trace)?;
    }
    match global.format {
        Format::Json => println!("{}", serde_json::to_string_pretty(&results)?),
        Format::Text => print!("{}", export::text(&results)),
    }
    Ok(())
}

/// Every network, depth and batch size, each with all strategies.
fn cases(global: &Global, options: &BenchOptions) -> Result<Vec<Case>, Failure> {
    let strategies = options
        .strategy
        .iter()
        .map(|name| options::strategy(name, options.budget))
        .collect::<Result<Vec<_>, _>>()?;
    let depths: Vec<Option<usize>> =
        if options.depth.is_empty() { vec![None] } else { options.depth.iter().copied().map(Some).collect() };
    let mut cases = Vec::new();
    for name in &options.model {
        for &depth in &depths {
            let model = options.changes.apply_any(name, depth)?;
            for &batch in &options.batch {
                cases.push(Case {
                    name: name.clone(),
                    model: model.clone(),
                    batch,
                    strategies: strategies.clone(),
                    numbers: options.numbers,
                    warmup: options.warmup,
                    steps: options.steps,
                    threads: global.threads.unwrap_or_else(rayon::current_num_threads),
                });
            }
        }
    }
    Ok(cases)
}

fn measure(
    case: Case,
    seed: u64,
    device: &Device,
    bar: &ProgressBar,
    trace: Option<Trace>,
) -> Result<Vec<Run>, Failure> {
    let (model, batch) = (case.model.clone(), case.batch);
    bar.set_message(format!("{}, batch {batch}", case.name));
    with_sample(&model, batch, seed, device, Measurement { case, seed, bar: bar.clone(), trace })
}
