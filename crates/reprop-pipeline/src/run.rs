//! All stages in one process, each on a thread of its own.

use std::thread;

use crate::transport::{credits, replicated};
use crate::{Error, Job, Outcome, Piped, Result, Settings, Worker};

/// Trains `network` with one thread, or `threads` of them, for each stage of each replica.
///
/// A stage that fails makes the others stop: they find its end of their link gone. The error is that of the stage that
/// failed first in the row, not what its neighbours say of it.
///
/// # Errors
///
/// What went wrong, with its stage and batch.
pub fn run_in_process<const D: usize, N: Piped<D>, J: Job<D, N>>(
    network: &N,
    settings: &Settings,
    job: &J,
    threads: usize,
) -> Result<Outcome<N>> {
    settings.check(network)?;
    let ends =
        replicated(settings.replicas, settings.stages.len(), credits(settings.depth), settings.patience);
    let mut results: Vec<Result<Outcome<N>>> = thread::scope(|scope| {
        let stages: Vec<_> = ends
            .into_iter()
            .enumerate()
            .map(|(index, end)| {
                let network = network.clone();
                scope.spawn(move || {
                    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
                    let pool =
                        pool.map_err(|error| Error::Job { stage: index, message: error.to_string() })?;
                    pool.install(|| Worker::new(network, index, settings, job, end)?.run())
                })
            })
            .collect();
        let join = |(stage, handle): (usize, thread::ScopedJoinHandle<'_, _>)| {
            handle.join().unwrap_or(Err(Error::Panicked { stage: stage % settings.stages.len() }))
        };
        stages.into_iter().enumerate().map(join).collect()
    });
    let cause = results.iter().filter_map(|result| result.as_ref().err()).min_by_key(|error| error.is_echo());
    match cause {
        Some(error) => Err(error.clone()),
        None => results.swap_remove(0),
    }
}
