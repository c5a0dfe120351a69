//! One stage of a pipeline on one rank of an MPI job.

use reprop_pipeline::transport::{Universe, credits};
use reprop_pipeline::{Settings, Worker};

use crate::failure::Failure;
use crate::images::ImageNetwork;
use crate::memory;

use super::super::run::Training;
use super::{failure, finish, leave, make_job, ranks};

/// Trains the stage of this rank.
pub fn run<const D: usize, N: ImageNetwork<D>>(
    training: &Training,
    settings: &Settings,
    network: N,
) -> Result<(), Failure> {
    let Some(universe) = Universe::start() else {
        leave(&Failure::new("this MPI cannot be called from several threads: MPI_THREAD_MULTIPLE is needed"))
    };
    let (rank, size, stages) = (universe.rank(), universe.size(), settings.stages.len());
    // Each rank hears what all say, so that all come to the same verdict and the first alone tells it.
    let runs = universe.gather(settings.run);
    let verdict = if let Some(other) = runs.iter().position(|run| *run != runs[0]) {
        Err(Failure::usage(format!(
            "rank {other} was started with another program or other settings than rank 0 (digests {:016x} and {:016x})",
            runs[other], runs[0]
        ))
        .hint("start all ranks with one program and the same options"))
    } else if size != stages {
        Err(Failure::usage(format!("{stages} stages cannot be shared out to {size} MPI ranks"))
            .hint(format!("add --stages {size}, or start {stages} ranks")))
    } else {
        Ok(())
    };
    verdict.unwrap_or_else(|failure| leave(&failure));
    let prepared = if rank == 0 { training.prepare() } else { Ok(()) };
    if universe.gather(u64::from(prepared.is_ok())).contains(&0) {
        leave(&prepared.err().unwrap_or_else(|| Failure::new("the first rank stopped")));
    }

    let outcome = work(training, settings, network, &universe);
    match outcome {
        Ok(()) => Ok(()),
        Err(failure) => {
            failure.print();
            universe.abort()
        }
    }
}

fn work<const D: usize, N: ImageNetwork<D>>(
    training: &Training,
    settings: &Settings,
    network: N,
    universe: &Universe,
) -> Result<(), Failure> {
    let rank = universe.rank();
    let job = make_job(training, settings.stages.len(), rank == 0)?;
    let links = universe.connect(credits(settings.depth), settings.patience);
    let local = std::env::var("OMPI_COMM_WORLD_LOCAL_SIZE").ok().and_then(|text| text.parse().ok());
    let threads = training.threads.div_ceil(local.or_else(ranks).unwrap_or(1)).max(1);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    memory::reset_peak();
    let run = || Worker::new(network, rank, settings, &job, links)?.run();
    let outcome = pool.install(run).map_err(|error| failure(training, error))?;
    if rank == 0 { finish(training, &job, &outcome) } else { Ok(()) }
}
