//! Cutting a network into stages of nearly equal cost.

use std::ops::Range;

use reprop::Trace;

use crate::{Error, Result};

/// Cuts places of these costs into `stages` runs so that the most expensive run is as cheap as can be.
///
/// ```
/// use reprop_pipeline::split;
///
/// assert_eq!(split(&[0.1, 1.0, 1.0, 1.0, 1.0, 0.1], 2)?, [0..3, 3..6]);
/// # Ok::<(), reprop_pipeline::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Stages`] if there are more stages than places, or none.
pub fn split(costs: &[f64], stages: usize) -> Result<Vec<Range<usize>>> {
    let places = costs.len();
    if stages == 0 || stages > places {
        return Err(Error::Stages { stages, places });
    }
    let sum = |range: Range<usize>| costs[range].iter().sum::<f64>();
    // most[k][end]: the cheapest most expensive of k + 1 runs over ..end, and where the last of them begins.
    let mut most = vec![(0..=places).map(|end| (sum(0..end), 0)).collect::<Vec<_>>()];
    for count in 1..stages {
        let below = &most[count - 1];
        let row = (0..=places)
            .map(|end| {
                let cuts = (count..end).map(|cut| (below[cut].0.max(sum(cut..end)), cut));
                cuts.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((f64::INFINITY, end))
            })
            .collect();
        most.push(row);
    }
    let mut end = places;
    let mut runs: Vec<Range<usize>> = Vec::new();
    for row in most.iter().rev() {
        let start = row[end].1;
        runs.push(start..end);
        end = start;
    }
    runs.reverse();
    Ok(runs)
}

/// Seconds that each of `places` places took in a trace.
pub fn measured_costs(trace: &Trace, places: usize) -> Vec<f64> {
    let mut costs = vec![0.0; places];
    for span in trace.spans() {
        if let Some(cost) = costs.get_mut(span.place) {
            *cost += span.seconds;
        }
    }
    costs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every way to cut, tried.
    fn best(costs: &[f64], stages: usize) -> f64 {
        if stages == 1 {
            return costs.iter().sum();
        }
        (1..=costs.len() - (stages - 1))
            .map(|cut| costs[..cut].iter().sum::<f64>().max(best(&costs[cut..], stages - 1)))
            .fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn no_cut_is_better_than_the_one_found() {
        for seed in 0..40_u64 {
            let places = 2 + (seed % 7) as usize;
            let costs: Vec<f64> =
                (0..places as u64).map(|place| ((seed * 31 + place * 17) % 13) as f64).collect();
            for stages in 1..=places {
                let runs = split(&costs, stages).unwrap();
                assert_eq!((runs.len(), runs[0].start, runs[stages - 1].end), (stages, 0, places));
                assert!(runs.windows(2).all(|pair| pair[0].end == pair[1].start));
                assert!(runs.iter().all(|run| !run.is_empty()), "{costs:?} {runs:?}");
                let most = runs.iter().map(|run| costs[run.clone()].iter().sum::<f64>()).fold(0.0, f64::max);
                assert!((most - best(&costs, stages)).abs() < 1e-9, "{costs:?}: {runs:?}");
            }
        }
    }

    #[test]
    fn more_stages_than_places_are_refused() {
        assert_eq!(split(&[1.0; 3], 4), Err(Error::Stages { stages: 4, places: 3 }));
        assert_eq!(split(&[1.0; 3], 0), Err(Error::Stages { stages: 0, places: 3 }));
    }
}
