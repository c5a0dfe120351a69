//! One step, watched: which worker did what, and when.

use serde::{Deserialize, Serialize};

/// What ran in one step of a configuration.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Timeline {
    /// The network.
    pub model: String,
    /// Samples a step.
    pub batch: usize,
    /// Blocks and transitions.
    pub depth: usize,
    /// How the backward pass gets its activations.
    pub strategy: String,
    /// Threads to compute with.
    pub threads: usize,
    /// Everything that ran.
    pub spans: Vec<TimelineSpan>,
}

/// One thing that ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TimelineSpan {
    /// `forward`, `recover` or `grads`.
    pub activity: String,
    /// The place in the network: 0 the stem, then the pieces, then the head.
    pub place: usize,
    /// The worker it began on.
    pub worker: usize,
    /// Seconds from the step's begin.
    pub begin: f64,
    /// How long it took.
    pub seconds: f64,
}

impl TimelineSpan {
    /// When it ended.
    pub fn end(&self) -> f64 {
        self.begin + self.seconds
    }
}

impl Timeline {
    /// Seconds from begin to end.
    pub fn seconds(&self) -> f64 {
        self.spans.iter().map(TimelineSpan::end).fold(0.0, f64::max)
    }

    /// Seconds that all spans of an activity took together.
    pub fn busy(&self, activity: &str) -> f64 {
        self.spans
            .iter()
            .filter(|span| span.activity == activity)
            .map(|span| span.seconds)
            .fold(0.0, |all, one| all + one)
    }

    /// Seconds in which something was recovered beside gradients.
    pub fn overlap(&self) -> f64 {
        let of = |activity: &'static str| self.spans.iter().filter(move |span| span.activity == activity);
        of("recover")
            .flat_map(|recover| of("grads").map(move |grads| (recover, grads)))
            .map(|(recover, grads)| recover.end().min(grads.end()) - recover.begin.max(grads.begin))
            .filter(|shared| *shared > 0.0)
            .fold(0.0, |all, one| all + one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overlap_is_the_time_that_both_halves_share() {
        let span = |activity: &str, worker, begin, seconds| TimelineSpan {
            activity: activity.to_owned(),
            place: 1,
            worker,
            begin,
            seconds,
        };
        let spans = vec![
            span("forward", 0, 0.0, 1.0),
            span("grads", 0, 1.0, 2.0),
            span("recover", 1, 2.0, 2.0),
            span("grads", 0, 3.5, 1.0),
        ];
        let timeline = Timeline { spans, ..Timeline::default() };
        // An empty sum of floats is -0.0, which tables would show.
        assert!(timeline.busy("nothing").is_sign_positive());
        assert_eq!((timeline.seconds(), timeline.busy("grads"), timeline.overlap()), (4.5, 3.0, 1.5));
    }
}
