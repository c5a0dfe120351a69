//! From `auto` to the strategy that its plan takes.

use burn::tensor::Device;
use reprop::{CostBook, Costs, Error, Input, Network, Pass, Strategy, Target, cost_key};
use reprop_report::Machine;

use super::place::costs_file;
use crate::bytes::human;
use crate::failure::Failure;

/// Where costs come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A probe, just now.
    Measured,
    /// A probe before.
    Cached,
    /// Shapes alone.
    Predicted,
}

/// The strategy to run: `auto` comes down to what its plan takes, by measured costs; the others are themselves. `sample`
/// is made only if something has to be measured. What needs more than the machine has is refused.
pub fn resolve<const D: usize, N: Network<D>>(
    network: &N,
    batch: usize,
    pass: &Pass,
    strategy: Strategy,
    sample: impl FnOnce() -> (Input<D, N>, Target<D, N>),
) -> Result<Strategy, Failure> {
    let strategy = planned(network, batch, pass, strategy, sample)?;
    // Other devices have memory of their own.
    let on_host = network.devices().iter().all(|device| device.clone().inner() == Device::flex());
    let (needed, memory) = (network.predicted(batch, pass, strategy)?, Machine::look().memory_bytes);
    match needed {
        Some(needed) if on_host && memory > 0 && needed.activation_peak > memory => {
            let (needed, memory_is) = (human(needed.activation_peak), human(memory));
            let failure = Failure::new(format!(
                "a batch of {batch} needs {needed} of activations under {strategy}, and this machine has {memory_is}"
            ));
            Err(match network.largest_batch(pass, memory) {
                Ok(batch) => failure.hint(format!("give --batch at most {batch}, and a --budget")),
                Err(_) => failure,
            })
        }
        _ => Ok(strategy),
    }
}

fn planned<const D: usize, N: Network<D>>(
    network: &N,
    batch: usize,
    pass: &Pass,
    strategy: Strategy,
    sample: impl FnOnce() -> (Input<D, N>, Target<D, N>),
) -> Result<Strategy, Failure> {
    let Strategy::Auto { budget } = strategy else { return Ok(strategy) };
    let told = |error| explained(network, pass, budget, error);
    let stored = network.predicted(batch, pass, Strategy::Stored)?;
    match stored {
        // A part cannot tell its bytes: the leanest way.
        None => return Ok(strategy),
        Some(stored) if stored.activation_peak <= budget => return Ok(Strategy::Stored),
        Some(_) => {}
    }
    let (costs, _) = costs(network, batch, pass, budget, sample).map_err(told)?;
    let plan = network.plan(batch, pass, budget, &costs).map_err(told)?;
    let chosen = plan.chosen();
    eprintln!(
        "auto: {}; {} of {} and {:.3} s a step are predicted",
        plan.name(chosen),
        human(chosen.prediction.activation_peak),
        human(budget),
        chosen.time
    );
    Ok(plan.strategy())
}

/// Measured costs, from the cache if they are there.
pub fn costs<const D: usize, N: Network<D>>(
    network: &N,
    batch: usize,
    pass: &Pass,
    budget: u64,
    sample: impl FnOnce() -> (Input<D, N>, Target<D, N>),
) -> Result<(Costs, Source), Error> {
    // Which modes are tried depends on what fits.
    let key = format!("{}, {budget} bytes", cost_key(network, batch, pass)?);
    let mut book = costs_file().map(CostBook::open);
    if let Some(costs) = book.as_ref().and_then(|book| book.get(&key)).cloned() {
        return Ok((costs, Source::Cached));
    }
    let (input, target) = sample();
    let costs = network.measure(input, target, pass, budget)?;
    if let Some(Err(error)) = book.as_mut().map(|book| book.put(key, costs.clone())) {
        eprintln!("warning: measured costs are not kept: {error}");
    }
    Ok((costs, Source::Measured))
}

/// The error, with a way out where a budget is too small.
pub fn explained<const D: usize, N: Network<D>>(
    network: &N,
    pass: &Pass,
    budget: u64,
    error: Error,
) -> Failure {
    let Error::BudgetTooSmall { least, .. } = error else { return error.into() };
    let raise = format!("give --budget at least {least} ({})", human(least));
    let hint = match network.largest_batch(pass, budget) {
        Ok(batch) => format!("{raise}, or --batch at most {batch}"),
        Err(_) => raise,
    };
    Failure::from(error).hint(hint)
}
