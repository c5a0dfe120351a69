//! One stage of a pipeline on one rank of an MPI job.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::path::Path;
use std::thread;

use reprop::{Activity, Span, Trace};
use reprop_pipeline::transport::Universe;
use reprop_pipeline::{Piped, Settings, Worker};

use crate::failure::Failure;
use crate::memory;

use super::super::common::Common;
use super::measure::measure;
use super::options::PipelineSettings;
use super::staged::Staged;
use super::{SILENCE, failure, finish, leave, make_job, ranks, run_number};

/// Made in the folder of a run by the first rank that fails.
const STOPPED: &str = "stopped";

/// A span as it travels: activity, place, begin, seconds, fused.
type SpanNumbers = (String, usize, f64, f64, bool);

/// Bytes of a message whose way is timed: streams of a batch are about as large.
const LATENCY_BYTES: usize = 1 << 20;

/// Trains the stage of this rank.
pub fn run<const D: usize, N: Piped<D> + 'static, S: Staged<D, N>>(
    mut training: S,
    mut settings: PipelineSettings,
    network: N,
) -> Result<(), Failure> {
    let Some(universe) = Universe::start() else {
        leave(&Failure::new("this MPI cannot be called from several threads: MPI_THREAD_MULTIPLE is needed"))
    };
    let (rank, size, stages) = (universe.rank(), universe.size(), settings.count);
    // Each rank hears what all say, so that all come to the same verdict and the first alone tells it.
    let runs = universe.gather(run_number(&training)?);
    let verdict = if let Some(other) = runs.iter().position(|run| *run != runs[0]) {
        Err(Failure::usage(format!(
            "rank {other} was started with another program or other settings than rank 0 (digests {:016x} and {:016x})",
            runs[other], runs[0]
        ))
        .hint("start all ranks with one program and the same options"))
    } else if size != stages * settings.replicas {
        let (replicas, needed) = (settings.replicas, stages * settings.replicas);
        let times = if replicas == 1 { String::new() } else { format!(" of {replicas} replicas") };
        Err(Failure::usage(format!("{stages} stages{times} cannot be shared out to {size} MPI ranks"))
            .hint(format!("add --stages {}, or start {needed} ranks", (size / replicas).max(1))))
    } else {
        Ok(())
    };
    verdict.unwrap_or_else(|failure| leave(&failure));
    let measured = measure_once(&training, &mut settings, &network, &universe);
    training.common_mut().settings.pipeline = Some(settings.clone());
    let prepared = if rank == 0 { measured.and_then(|()| training.prepare()) } else { measured };
    if rank == 0 {
        let _ = fs::remove_file(training.common().folder.join(STOPPED));
    }
    if universe.gather(u64::from(prepared.is_ok())).contains(&0) {
        leave(&prepared.err().unwrap_or_else(|| Failure::new("the first rank stopped")));
    }

    let workers = settings.of_workers(training.common().settings.steps, run_number(&training)?)?;
    let outcome = work(&training, &settings, &workers, network, &universe);
    match outcome {
        Ok(()) => Ok(()),
        Err(failure) => {
            if speaks(&training.common().folder) {
                failure.print();
            } else {
                thread::sleep(SILENCE);
            }
            universe.abort()
        }
    }
}

/// Lets the first rank measure while the others rest, and takes what it chose.
fn measure_once<const D: usize, N: Piped<D>, S: Staged<D, N>>(
    training: &S,
    settings: &mut PipelineSettings,
    network: &N,
    universe: &Universe,
) -> Result<(), Failure> {
    if !settings.measures() {
        return Ok(());
    }
    let latency = universe.latency(LATENCY_BYTES);
    let measured = match universe.rank() {
        0 => measure(training, settings, network, threads(training.common()), latency),
        _ => Ok(()),
    };
    let chosen = universe.share(&serde_json::to_vec(settings)?);
    *settings = serde_json::from_slice(&chosen)?;
    measured
}

/// Whether this rank is the first to fail. What breaks one stage often breaks its neighbours a moment later; the file system
/// that all ranks share tells who was first, and the others are silent.
fn speaks(folder: &Path) -> bool {
    let made = OpenOptions::new().write(true).create_new(true).open(folder.join(STOPPED));
    !matches!(made, Err(error) if error.kind() == ErrorKind::AlreadyExists)
}

/// Threads of a rank.
fn threads(common: &Common) -> usize {
    let local = std::env::var("OMPI_COMM_WORLD_LOCAL_SIZE").ok().and_then(|text| text.parse().ok());
    common.threads.div_ceil(local.or_else(ranks).unwrap_or(1)).max(1)
}

fn work<const D: usize, N: Piped<D>, S: Staged<D, N>>(
    training: &S,
    pipeline: &PipelineSettings,
    settings: &Settings,
    network: N,
    universe: &Universe,
) -> Result<(), Failure> {
    let rank = universe.rank();
    // Traces begin together, where all ranks have met.
    universe.gather(0);
    let job = make_job(training, pipeline, rank == 0)?;
    let links = universe.connect(settings);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads(training.common())).build()?;
    memory::reset_peak();
    let run = || Worker::new(network, rank, settings, &job, links)?.run();
    let outcome = pool.install(run).map_err(|error| failure(training.common(), error))?;
    let mine = job.traces.get(rank).map(Trace::spans).unwrap_or_default();
    let traces = if training.common().trace_file.is_some() { collect(universe, &mine)? } else { Vec::new() };
    if rank == 0 { finish(training, &job, &outcome, &traces) } else { Ok(()) }
}

/// The spans of all ranks, on the first.
fn collect(universe: &Universe, mine: &[Span]) -> Result<Vec<Vec<Span>>, Failure> {
    let numbers: Vec<SpanNumbers> = mine
        .iter()
        .map(|span| (span.activity.name().to_owned(), span.place, span.begin, span.seconds, span.fused))
        .collect();
    let read = |bytes: Vec<u8>| -> Result<Vec<Span>, Failure> {
        let numbers: Vec<SpanNumbers> = serde_json::from_slice(&bytes)?;
        let span = |(name, place, begin, seconds, fused): SpanNumbers| {
            let activity = Activity::ALL.into_iter().find(|activity| activity.name() == name)?;
            Some(Span { activity, place, worker: 0, begin, seconds, fused })
        };
        Ok(numbers.into_iter().filter_map(span).collect())
    };
    universe.collect(&serde_json::to_vec(&numbers)?).into_iter().map(read).collect()
}
