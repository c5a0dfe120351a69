//! Trying the modes that plans would take.
//!
//! A sum over parts tells nearly what a mode takes, but not how a machine's caches and threads like it. So the mode that a
//! plan would take is run beside the fastest one that was tried before, and counts from then on with the time that this
//! shows; until the plan takes a mode that was tried.

use std::time::Instant;

use crate::engine::Sizes;
use crate::{Costs, Mode, Plan, Result, Tried};

use super::rounds::{in_turn, ratio};

/// Seconds after which no further mode is tried.
const SECONDS: f64 = 10.0;

/// Tries modes until a plan for `budget` takes one that was tried. `run` takes a step, and tells its seconds.
pub(super) fn settle(
    costs: &mut Costs,
    sizes: &Sizes,
    batch: usize,
    budget: u64,
    mut run: impl FnMut(Mode) -> Result<f64>,
) -> Result<()> {
    let begin = Instant::now();
    while begin.elapsed().as_secs_f64() < SECONDS {
        let mode = Plan::new(sizes, batch, budget, costs)?.chosen().mode;
        let fastest = costs.tried.iter().copied().min_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let Some(fastest) = fastest.filter(|_| costs.tried_seconds(mode).is_none()) else { break };
        let seconds = in_turn(&[fastest.mode, mode], &mut run, |&seconds| seconds)?;
        costs.tried.push(Tried { mode, seconds: fastest.seconds * ratio(&seconds[1], &seconds[0]) });
    }
    Ok(())
}
