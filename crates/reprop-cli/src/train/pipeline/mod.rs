//! `reprop train --method ...`: stages in one process, or on the ranks of an MPI job.

mod files;
mod job;
mod lines;
mod measure;
#[cfg(feature = "mpi")]
mod mpi;
mod options;
mod report;

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use reprop::{Span, Trace, named_parameters, parameter_digest};
use reprop_pipeline::{Error, Outcome, run_in_process};
use xxhash_rust::xxh3::xxh3_64;

use crate::failure::Failure;
use crate::images::ImageNetwork;
use crate::{memory, safetensors_file, trace_file};

use super::live::Live;
use super::metrics::MetricsFile;
use super::run::{Training, watch_interrupts};
use job::ImageJob;
use lines::Lines;
pub use options::{PipelineOptions, PipelineSettings};

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
pub fn run_number(settings: &super::settings::Settings) -> Result<u64, Failure> {
    let text = serde_json::to_string(settings)?;
    Ok(xxh3_64(format!("{} {text}", env!("CARGO_PKG_VERSION")).as_bytes()))
}

/// Trains in stages.
pub fn run<const D: usize, N: ImageNetwork<D>>(
    mut training: Training,
    mut settings: PipelineSettings,
    network: &N,
) -> Result<(), Failure> {
    let chosen = settings.cut(&training.settings.model()?, network.places());
    let checked = chosen.and_then(|()| settings.of_workers(training.settings.steps, 0));
    #[cfg(feature = "mpi")]
    if ranks().is_some() {
        // What is wrong for one rank is wrong for all.
        return match checked {
            Ok(_) => mpi::run(training, settings, network.clone()),
            Err(failure) => leave(&failure),
        };
    }
    checked?;
    let threads = training.threads.div_ceil(settings.count * settings.replicas).max(1);
    if settings.measures() {
        measure::measure(&training, &mut settings, network, threads, Duration::ZERO)?;
    }
    training.settings.pipeline = Some(settings.clone());
    let workers = settings.of_workers(training.settings.steps, run_number(&training.settings)?)?;
    training.prepare()?;
    let job = make_job(&training, &settings, true)?;
    memory::reset_peak();
    let outcome =
        run_in_process(network, &workers, &job, threads).map_err(|error| failure(&training, error))?;
    let traces: Vec<_> = job.traces.iter().map(Trace::spans).collect();
    finish(&training, &job, &outcome, &traces)
}

/// What a worker is called in a trace.
fn row_name(worker: usize, stages: usize, replicas: usize) -> String {
    let (replica, stage) = (worker / stages, worker % stages);
    if replicas == 1 { format!("stage {stage}") } else { format!("replica {replica}, stage {stage}") }
}

/// What the workers ask; only the first stage's process writes metrics.
fn make_job<'t>(
    training: &'t Training,
    settings: &PipelineSettings,
    first: bool,
) -> Result<ImageJob<'t>, Failure> {
    let steps = training.settings.steps;
    let done = files::position(&training.folder)?.map_or(0, |batch| batch as usize + 1);
    let open = || MetricsFile::open(&training.folder, done, training.tensorboard.as_deref());
    let lines = if first { Lines::new(open()?) } else { Lines::default() };
    let workers = settings.stages.len() * settings.replicas;
    Ok(ImageJob {
        interrupted: watch_interrupts()?,
        lines: Mutex::new(lines),
        live: if first { Live::new(steps, done) } else { Live::silent() },
        traces: training.trace.iter().flat_map(|_| (0..workers).map(|_| Trace::new())).collect(),
        ..quiet_job(training, settings)?
    })
}

/// What workers ask, with nothing written or shown.
fn quiet_job<'t>(training: &'t Training, settings: &PipelineSettings) -> Result<ImageJob<'t>, Failure> {
    Ok(ImageJob {
        training,
        numbers: training.settings.numbers()?,
        per_epoch: training.data.train.len().div_ceil(training.settings.batch),
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
fn finish<const D: usize, N: ImageNetwork<D>>(
    training: &Training,
    job: &ImageJob<'_>,
    outcome: &Outcome<N>,
    traces: &[Vec<Span>],
) -> Result<(), Failure> {
    job.live.finish();
    if let Some(path) = &training.trace_file {
        let stages = job.pipeline.stages.len();
        let rows: Vec<_> = traces
            .iter()
            .enumerate()
            .map(|(worker, spans)| (row_name(worker, stages, job.pipeline.replicas), spans.clone()))
            .collect();
        trace_file::write_rows(path, &rows)?;
    }
    let network = &outcome.network;
    safetensors_file::write(&training.folder.join("weights.safetensors"), &named_parameters(network))?;
    let score = outcome.score.unwrap_or_default();
    let steps = outcome.batches as usize;
    let last = super::report::Outcome {
        parameters_digest: parameter_digest(network),
        test_accuracy: Some(score.right as f64 / score.seen.max(1) as f64),
        peak_bytes: memory::peak(),
        stall_seconds: outcome.stages.iter().map(|stage| stage.waited_micros).max().unwrap_or(0) as f64
            * 1e-6,
        steps,
        interrupted: steps < training.settings.steps,
    };
    report::print(&last, &outcome.stages, training)
}

/// A pipeline's error as users see it.
fn failure(training: &Training, error: Error) -> Failure {
    match error {
        Error::Pass { error, stage, batch } => {
            let failure = training.stopped(error);
            failure.within(format!("stage {stage}, batch {batch}"))
        }
        Error::Stalled { .. } => Failure::from(error).hint("give stages more time with --patience"),
        error => Failure::from(error),
    }
}
