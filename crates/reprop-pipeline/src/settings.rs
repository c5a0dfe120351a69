//! What defines a pipeline, the same for all of its stages.

use std::ops::Range;
use std::time::Duration;

use reprop::Network;

use crate::{Error, Method, Queue, Result};

/// PETRA's depth.
const DEPTH: f64 = 2.0;
/// How long a neighbour may do nothing.
const PATIENCE: Duration = Duration::from_mins(5);

/// What defines a pipeline.
///
/// ```
/// use reprop_pipeline::{Method, Settings, split};
///
/// let stages = split(&[0.1, 1.0, 1.0, 0.2], 2)?;
/// let settings = Settings { accumulate: 4, ..Settings::new(Method::Petra, stages, 100) };
/// assert_eq!((settings.warm_up(0), settings.warm_up(1)), (2, 0));
/// # Ok::<(), reprop_pipeline::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How stages share the work.
    pub method: Method,
    /// The places of each stage.
    pub stages: Vec<Range<usize>>,
    /// Batches in all.
    pub batches: u64,
    /// Backwards an update.
    pub accumulate: u64,
    /// The `c` of the warm-up `c (J - j)`.
    pub depth: f64,
    /// How long a stage waits for a neighbour before it gives up.
    pub patience: Duration,
    /// Marks the messages of this run.
    pub run: u64,
    /// How inputs wait for their backward in parts that are not reversible.
    pub queue: Queue,
    /// Pipelines side by side, each with batches of its own; the gradients of a stage are summed over them.
    pub replicas: usize,
    /// Compare gradients with the true ones every so many updates; 0 never does.
    pub alignment: u64,
}

impl Settings {
    /// PETRA's depth, an update after every backward, and five minutes of patience.
    pub fn new(method: Method, stages: Vec<Range<usize>>, batches: u64) -> Self {
        Self {
            method,
            stages,
            batches,
            accumulate: 1,
            depth: DEPTH,
            patience: PATIENCE,
            run: 0,
            queue: Queue::F32,
            replicas: 1,
            alignment: 0,
        }
    }

    /// Forwards that a stage does before its first backward.
    pub fn warm_up(&self, stage: usize) -> u64 {
        self.method.warm_up(stage, self.stages.len(), self.depth)
    }

    /// Workers of all stages and replicas.
    pub fn workers(&self) -> usize {
        self.stages.len() * self.replicas
    }

    /// Whether the gradients of a batch are compared with the true ones: those of the last batch of an update.
    pub(crate) fn aligns(&self, batch: u64) -> bool {
        self.alignment > 0 && (batch + 1).is_multiple_of(self.alignment * self.accumulate)
    }

    /// An error unless the stages are all the places of `network`, in order, and part nothing that is shared.
    pub(crate) fn check<const D: usize, N: Network<D>>(&self, network: &N) -> Result<()> {
        let (places, last) = (network.places(), self.stages.len().saturating_sub(1));
        if let Some(name) = network.shared_by_ends().filter(|_| last > 0) {
            return Err(Error::Tied { name: name.to_owned(), first: 0, second: last });
        }
        let ends = self
            .stages
            .iter()
            .try_fold(0, |end, stage| (stage.start == end && !stage.is_empty()).then_some(stage.end));
        if ends == Some(places) && self.accumulate > 0 && self.replicas > 0 {
            Ok(())
        } else {
            Err(Error::Stages { stages: self.stages.len(), places })
        }
    }
}

/// The depth at which stages of these times keep each other busy: `c = 1 + 2 L / (F + B)`, with `latency` the time of a
/// message one way, and `forward` and `backward` those of a stage. At least 1, at most PETRA's 2 unless the link is so
/// slow that more is needed.
pub fn needed_depth(latency: Duration, forward: Duration, backward: Duration) -> f64 {
    let work = (forward + backward).as_secs_f64();
    if work > 0.0 { 1.0 + 2.0 * latency.as_secs_f64() / work } else { DEPTH }
}
