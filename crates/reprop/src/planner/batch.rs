//! The largest batch that fits a budget.

use crate::engine::Sizes;
use crate::{Error, Network, Pass, Result};

use super::modes;

/// Batches beyond this are not looked for: their bytes would overflow before they meant anything.
const MOST: usize = 1 << 30;

/// The largest batch for which some mode fits.
pub(crate) fn largest_batch<const D: usize, N: Network<D>>(
    network: &N,
    pass: &Pass,
    budget: u64,
) -> Result<usize> {
    let least = |batch: usize| -> Result<u64> {
        let sizes = Sizes::of(network, batch, pass)?;
        Ok(modes(&sizes).into_iter().map(|mode| sizes.predict(mode).activation_peak).min().unwrap_or(0))
    };
    let one = least(1)?;
    if one > budget {
        return Err(Error::BudgetTooSmall { budget, least: one });
    }
    // `fits` fits and `fails` does not: needs grow with the batch, so that halving the gap between them ends at the largest.
    let (mut fits, mut fails) = (1, 2);
    while fails < MOST && least(fails)? <= budget {
        (fits, fails) = (fails, 2 * fails);
    }
    while fails - fits > 1 {
        let middle = usize::midpoint(fits, fails);
        if least(middle)? <= budget { fits = middle } else { fails = middle }
    }
    Ok(fits)
}
