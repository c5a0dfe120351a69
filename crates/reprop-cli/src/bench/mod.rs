//! `reprop bench`: throughput and memory of strategies, in turn, so that drift of the machine hits all alike.

mod compare;
mod export;
mod measure;
mod options;
mod subject;
mod sweep;

use indicatif::{ProgressBar, ProgressStyle};
use reprop::Trace;
use reprop_report::{Format as Written, Machine, Results};

use crate::device;
use crate::failure::Failure;
use crate::options::{Format, Global};
use crate::trace_file;

use export::Output;
use measure::Measurement;
pub use options::BenchOptions;
use options::{BenchCommand, ReportOptions, SweepOptions};

/// Measures, or reads what was measured.
pub fn run(global: &Global, options: &BenchOptions) -> Result<(), Failure> {
    match &options.command {
        Some(BenchCommand::Compare(options)) => compare::run(global.format, options),
        Some(BenchCommand::Report(options)) => report(global.format, options),
        None => sweep(global, &options.sweep),
    }
}

/// Measures every combination.
fn sweep(global: &Global, options: &SweepOptions) -> Result<(), Failure> {
    let device = device::by_name(&global.device)?;
    let output = Output::new(&options.output)?;
    let cases = sweep::cases(global, options)?;
    let rounds = options.warmup + options.steps;
    let steps = rounds * cases.iter().map(|case| case.configurations.len()).sum::<usize>();
    let bar = ProgressBar::new(steps as u64);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} steps, {eta} left, {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));

    let trace = options.trace.is_some().then(Trace::new);
    let measurement = Measurement {
        warmup: options.warmup,
        steps: options.steps,
        numbers: options.numbers,
        seed: global.seed,
        device: &device,
        pools: measure::pools(&options.threads)?,
        bar: &bar,
        trace: trace.as_ref(),
        output: &output,
    };
    let mut results = Results { machine: Machine::look(), ..Results::default() };
    let together = if options.one_at_a_time { 1 } else { cases.len() };
    for cases in cases.chunks(together) {
        measurement.add(cases, &mut results)?;
    }
    bar.finish_and_clear();
    if let (Some(path), Some(trace)) = (&options.trace, &trace) {
        trace_file::write(path, trace)?;
    }
    print(global.format, &results);
    Ok(())
}

/// Writes what was measured in other formats.
fn report(format: Format, options: &ReportOptions) -> Result<(), Failure> {
    let output = Output::new(&options.output)?;
    let results = export::read(&options.results, Results::parse)?;
    output.write(&results)?;
    if options.output.export.is_empty() {
        print(format, &results);
    }
    Ok(())
}

fn print(format: Format, results: &Results) {
    match format {
        Format::Json => println!("{}", Written::Json.render(results, None)),
        Format::Text => print!("{}", Written::Text.render(results, None)),
    }
}
