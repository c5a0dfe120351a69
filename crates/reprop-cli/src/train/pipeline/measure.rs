//! Stages of equal times, and the warm-up that links need: measured once, before a run begins.

use std::time::Duration;

use reprop_pipeline::{Piped, PlaceTimes, needed_depth, probe};

use crate::failure::Failure;

use super::options::{PipelineSettings, Split};
use super::staged::Staged;
use super::{failure, quiet_job};

/// Depths are rounded to tenths: times are not known better.
const DEPTHS_PER_UNIT: f64 = 10.0;

/// Times every place with as many threads as a stage has, and chooses what was left to be measured; `latency` is that of a
/// message from one stage to the next.
pub fn measure<const D: usize, N: Piped<D>, S: Staged<D, N>>(
    training: &S,
    settings: &mut PipelineSettings,
    network: &N,
    threads: usize,
    latency: Duration,
) -> Result<(), Failure> {
    let job = quiet_job(training, settings)?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let times = pool.install(|| probe(network, &job)).map_err(|error| failure(training.common(), error))?;
    if settings.split == Split::Measured && settings.stages.is_empty() {
        let costs: Vec<f64> = times.iter().copied().map(PlaceTimes::seconds).collect();
        settings.balance(&costs)?;
    }
    if settings.warm_up == 0.0 {
        let sum = |part: fn(&PlaceTimes) -> f64| {
            let of_stage =
                |stage: &std::ops::Range<usize>| times[stage.clone()].iter().map(part).sum::<f64>();
            Duration::from_secs_f64(settings.stages.iter().map(of_stage).fold(0.0, f64::max))
        };
        let depth = needed_depth(latency, sum(|time| time.forward), sum(|time| time.backward));
        settings.warm_up = (depth * DEPTHS_PER_UNIT).round() / DEPTHS_PER_UNIT;
    }
    let milliseconds: Vec<String> = settings
        .stages
        .iter()
        .map(|stage| {
            let sum: f64 = times[stage.clone()].iter().copied().map(PlaceTimes::seconds).sum();
            format!("{}..{} {:.1} ms", stage.start, stage.end, 1e3 * sum)
        })
        .collect();
    eprintln!("measured: stages {}; warm-up {}", milliseconds.join(", "), settings.warm_up);
    Ok(())
}
