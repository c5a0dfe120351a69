//! A race of the modes that a plan might take.
//!
//! A sum over parts tells nearly what a mode takes, but not how a machine's caches and threads like it. So those that
//! promise most run beside those that the probe ran, all in the same rounds, and count from then on with the times that
//! this shows. Many are nearly equal, and of such the one that was lucky would win. So what the rounds leave in doubt counts
//! against all of them but one: recovery with the least kept, beside gradients where there is room for that.

use crate::engine::Sizes;
use crate::{Costs, Mode, Plan, Result, Tried};

use super::rounds::{median, race, ratio, ratio_at_most};

/// Seconds of a race.
const SECONDS: f64 = 16.0;
/// Modes that run beside those of the probe.
const PROMISING: usize = 3;

/// Lets modes race for the plan under `budget`. `run` takes a step, and tells its seconds.
pub(super) fn settle(
    costs: &mut Costs,
    sizes: &Sizes,
    batch: usize,
    budget: u64,
    mut run: impl FnMut(Mode) -> Result<f64>,
) -> Result<()> {
    let plan = Plan::new(sizes, batch, budget, costs)?;
    let mut modes: Vec<Mode> = costs.tried.iter().map(|tried| tried.mode).collect();
    if plan.keeps_all() || modes.is_empty() {
        return Ok(());
    }
    let mut others: Vec<_> = plan
        .candidates
        .iter()
        .filter(|candidate| {
            candidate.prediction.activation_peak <= budget && !modes.contains(&candidate.mode)
        })
        .collect();
    others.sort_by(|a, b| a.time.total_cmp(&b.time));
    modes.extend(others.iter().take(PROMISING).map(|candidate| candidate.mode));

    let mut before = costs.tried[0].seconds;
    loop {
        let (times, fastest) = race(&modes, &mut run, |mode| plan.handicap(mode), SECONDS)?;
        let tried = tried(&modes, &times, fastest);
        let seconds = median(times[fastest].clone()) * ratio(&times[0], &times[fastest]);
        // The machine may have become faster or slower since the probe.
        costs.scale(seconds / before);
        costs.tried = tried;
        before = seconds;
        // Where all that ran disappoints, a mode that promised less before may be next: it has to run too.
        let chosen = Plan::new(sizes, batch, budget, costs)?.chosen().mode;
        if modes.contains(&chosen) {
            return Ok(());
        }
        modes.push(chosen);
    }
}

/// What each of `modes` takes, with doubts.
fn tried(modes: &[Mode], times: &[Vec<f64>], fastest: usize) -> Vec<Tried> {
    let best = median(times[fastest].clone());
    let seconds: Vec<f64> = times.iter().map(|times_of| best * ratio(times_of, &times[fastest])).collect();
    // Of equals the first, which the probe ran.
    let is_bare = |mode: Mode| mode.blocks_kept == modes[0].blocks_kept && mode.inputs == modes[0].inputs;
    let bare = (0..modes.len()).rev().filter(|&index| is_bare(modes[index]));
    let usual = bare.max_by_key(|&index| modes[index].overlap);
    (0..modes.len())
        .map(|index| {
            let doubted = |usual: usize| seconds[usual] * ratio_at_most(&times[index], &times[usual]);
            let seconds = usual.filter(|&usual| usual != index).map_or(seconds[index], doubted);
            Tried { mode: modes[index], seconds }
        })
        .collect()
}
