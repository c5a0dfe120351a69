//! `reprop train --method ...`: stages in one process, or on the ranks of an MPI job.

mod files;
mod images;
mod job;
mod lines;
mod measure;
#[cfg(feature = "mpi")]
mod mpi;
mod options;
mod report;
mod staged;
mod text;

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use burn::module::Module;
use reprop::{Span, Trace, named_parameters, parameter_digest};
use reprop_pipeline::{Error, Outcome, Piped, run_in_process};
use xxhash_rust::xxh3::xxh3_64;

use crate::failure::Failure;
use crate::{memory, safetensors_file, trace_file};

use super::common::{Common, watch_interrupts};
use super::live::Live;
use super::metrics::MetricsFile;
use job::StagedJob;
use lines::Lines;
pub use options::{PipelineOptions, PipelineSettings};
use staged::{Run, Staged};

/// How long ranks that have nothing to say wait before they end, so that the one that speaks is heard.
const SILENCE: Duration = Duration::from_secs(1);

/// Ranks of the MPI job that started this program, if one did, by the variables that Open MPI, MPICH and Slurm's PMI set.
pub fn ranks() -> Option<usize> {
    let variable = |name| std::env::var(name).ok().and_then(|text: String| text.parse().ok());
    ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"].into_iter().find_map(variable)
}

/// The number of this rank.
fn rank() -> usize {
    let variable = |name| std::env::var(name).ok().and_then(|text: String| text.parse().ok());
    ["OMPI_COMM_WORLD_RANK", "PMI_RANK"].into_iter().find_map(variable).unwrap_or(0)
}

/// Ends a rank for a reason that all ranks meet alike: the first tells it, the others follow in silence. They end at once,
/// and not by way of MPI, which would wait for all of them.
fn leave(failure: &Failure) -> ! {
    if rank() == 0 {
        failure.print();
    } else {
        thread::sleep(SILENCE);
    }
    std::process::exit(failure.code())
}

/// Ends the program if it was started by `mpirun` but cannot be a rank.
pub fn check_launch(method: bool) {
    let Some(ranks) = ranks() else { return };
    if !cfg!(feature = "mpi") {
        leave(
            &Failure::usage(format!("started on {ranks} MPI ranks, but this program was built without MPI"))
                .hint("build it with `cargo build --release -p reprop-cli --features mpi`"),
        );
    }
    if !method {
        leave(
            &Failure::usage(format!("{ranks} MPI ranks have nothing to share without a method"))
                .hint("add --method petra"),
        );
    }
}

/// Marks the messages of a run, and tells ranks with other settings or programs apart.
fn run_number(run: &impl Run) -> Result<u64, Failure> {
    let text = run.definition()?;
    Ok(xxh3_64(format!("{} {text}", env!("CARGO_PKG_VERSION")).as_bytes()))
}

/// Trains in stages.
pub fn run<const D: usize, N: Piped<D> + 'static, S: Staged<D, N>>(
    mut training: S,
    mut settings: PipelineSettings,
    network: &N,
) -> Result<(), Failure> {
    let chosen = settings.cut(training.costs()?, network.places());
    let checked = chosen.and_then(|()| settings.of_workers(training.common().settings.steps, 0));
    #[cfg(feature = "mpi")]
    if ranks().is_some() {
        // What is wrong for one rank is wrong for all.
        return match checked {
            Ok(_) => mpi::run(training, settings, network.clone()),
            Err(failure) => leave(&failure),
        };
    }
    checked?;
    let threads = training.common().threads.div_ceil(settings.count * settings.replicas).max(1);
    if settings.measures() {
        measure::measure(&training, &mut settings, network, threads, Duration::ZERO)?;
    }
    training.common_mut().settings.pipeline = Some(settings.clone());
    let workers = settings.of_workers(training.common().settings.steps, run_number(&training)?)?;
    training.prepare()?;
    let job = make_job(&training, &settings, true)?;
    memory::reset_peak();
    let outcome = run_in_process(network, &workers, &job, threads)
        .map_err(|error| failure(training.common(), error))?;
    let traces: Vec<_> = job.traces.iter().map(Trace::spans).collect();
    finish(&training, &job, &outcome, &traces)
}

/// What a worker is called in a trace.
fn row_name(worker: usize, stages: usize, replicas: usize) -> String {
    let (replica, stage) = (worker / stages, worker % stages);
    if replicas == 1 { format!("stage {stage}") } else { format!("replica {replica}, stage {stage}") }
}

/// What the workers ask; only the first stage's process writes metrics.
fn make_job<'t, S: Run>(
    training: &'t S,
    settings: &PipelineSettings,
    first: bool,
) -> Result<StagedJob<'t, S>, Failure> {
    let common = training.common();
    let steps = common.settings.steps;
    let done = files::position(&common.folder)?.map_or(0, |batch| batch as usize + 1);
    let open = || MetricsFile::open(&common.folder, done, common.tensorboard.as_deref());
    let lines = if first { Lines::new(open()?) } else { Lines::default() };
    let workers = settings.stages.len() * settings.replicas;
    Ok(StagedJob {
        interrupted: watch_interrupts()?,
        lines: Mutex::new(lines),
        live: if first { Live::new(steps, done) } else { Live::silent() },
        traces: common.trace_file.iter().flat_map(|_| (0..workers).map(|_| Trace::new())).collect(),
        ..quiet_job(training, settings)?
    })
}

/// What workers ask, with nothing written or shown.
fn quiet_job<'t, S: Run>(training: &'t S, settings: &PipelineSettings) -> Result<StagedJob<'t, S>, Failure> {
    Ok(StagedJob {
        training,
        numbers: training.common().settings.numbers()?,
        per_epoch: training.samples().div_ceil(training.common().settings.batch),
        interrupted: Arc::default(),
        lines: Mutex::default(),
        pipeline: settings.clone(),
        live: Live::silent(),
        clock: Mutex::new(Instant::now()),
        traces: Vec::new(),
        activation_peak: Mutex::new(0),
    })
}

/// Writes and prints what is known at the end, in the first stage's process.
fn finish<N: Module, S: Run>(
    training: &S,
    job: &StagedJob<'_, S>,
    outcome: &Outcome<N>,
    traces: &[Vec<Span>],
) -> Result<(), Failure> {
    let common = training.common();
    job.live.finish();
    if let Some(path) = &common.trace_file {
        let stages = job.pipeline.stages.len();
        let rows: Vec<_> = traces
            .iter()
            .enumerate()
            .map(|(worker, spans)| (row_name(worker, stages, job.pipeline.replicas), spans.clone()))
            .collect();
        trace_file::write_rows(path, &rows)?;
    }
    let network = &outcome.network;
    safetensors_file::write(&common.folder.join("weights.safetensors"), &named_parameters(network))?;
    let score = outcome.score.unwrap_or_default();
    let steps = outcome.batches as usize;
    let last = super::report::Outcome {
        parameters_digest: parameter_digest(network),
        test_accuracy: Some(score.right as f64 / score.seen.max(1) as f64),
        peak_bytes: memory::peak(),
        stall_seconds: outcome.stages.iter().map(|stage| stage.waited_micros).max().unwrap_or(0) as f64
            * 1e-6,
        steps,
        interrupted: steps < common.settings.steps,
    };
    report::print(&last, &outcome.stages, common)
}

/// A pipeline's error as users see it.
fn failure(common: &Common, error: Error) -> Failure {
    match error {
        Error::Pass { error, stage, batch } => {
            let failure = common.stopped(error);
            failure.within(format!("stage {stage}, batch {batch}"))
        }
        Error::Stalled { .. } => Failure::from(error).hint("give stages more time with --patience"),
        error => Failure::from(error),
    }
}
