//! What each place of a network costs, measured.

use std::time::Instant;

use reprop::{Entry, Gradients, Keep, Meter, Stage};

use crate::{Error, Job, Piped, Result, part};

/// Rounds that are measured, after one that is not: it makes buffers and the optimizer's state.
const ROUNDS: u64 = 3;

/// Seconds that a place takes for one batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlaceTimes {
    /// Its forward.
    pub forward: f64,
    /// Its recovery, its gradients and the update of its parameters.
    pub backward: f64,
}

impl PlaceTimes {
    const UNKNOWN: Self = Self { forward: f64::INFINITY, backward: f64::INFINITY };

    /// Both together.
    pub fn seconds(self) -> f64 {
        self.forward + self.backward
    }
}

/// Times of every place of `network`, in the pool of the caller: the job's first batches go through the network, each place
/// as a stage of its own. The least of several rounds counts, since whatever else the machine does only adds. Nothing that
/// is computed is kept.
///
/// # Errors
///
/// A pass that fails.
pub fn probe<const D: usize, N: Piped<D>, J: Job<D, N>>(network: &N, job: &J) -> Result<Vec<PlaceTimes>> {
    let last = network.places() - 1;
    let mut times = vec![PlaceTimes::UNKNOWN; last + 1];
    let mut optimizer = job.optimizer();
    for round in 0..=ROUNDS {
        let failed = |error| Error::Pass { stage: 0, batch: round, error };
        let pass = job.pass(0, round).meter(Meter::new());
        let (input, target) = job.batch(round);
        let mut entry = Some(Entry::Input(input));
        let mut trails = Vec::new();
        let mut found = vec![PlaceTimes::UNKNOWN; last + 1];
        for (place, time) in found.iter_mut().enumerate() {
            let stage = Stage::new(network, place..place + 1).map_err(failed)?;
            let Some(given) = entry.take() else { break };
            let start = Instant::now();
            trails.push(if place == last {
                stage.finish(given, target.clone(), pass.clone(), Keep::Inputs, false).map_err(failed)?.2
            } else {
                let (streams, trail) =
                    stage.record(given, pass.clone(), Keep::Inputs, false).map_err(failed)?;
                entry = Some(Entry::Streams(streams));
                trail
            });
            time.forward = start.elapsed().as_secs_f64();
        }
        let mut descent = None;
        for (place, trail) in trails.into_iter().enumerate().rev() {
            let stage = Stage::new(network, place..place + 1).map_err(failed)?;
            let hand_down =
                place > 0 && Stage::new(network, place - 1..place).map_err(failed)?.needs_streams();
            let mut gradients = Gradients::new(&Meter::new());
            let start = Instant::now();
            descent = stage.backward(trail, descent, hand_down, &mut gradients);
            let network = gradients.take_statistics().apply(network.clone());
            part::step(&mut optimizer, job.rate(round), network, gradients.into_params());
            found[place].backward = start.elapsed().as_secs_f64();
        }
        if round > 0 {
            for (time, found) in times.iter_mut().zip(found) {
                time.forward = time.forward.min(found.forward);
                time.backward = time.backward.min(found.backward);
            }
        }
    }
    Ok(times)
}
