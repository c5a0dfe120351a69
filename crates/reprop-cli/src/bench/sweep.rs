//! Which configurations are measured, and in which order.

use reprop::Strategy;

use crate::failure::Failure;
use crate::options::{self, Global};
use crate::sample::AnyModel;

use super::options::SweepOptions;

/// A network, with everything that is measured on it.
pub struct Case {
    pub name: String,
    pub model: AnyModel,
    pub configurations: Vec<Configuration>,
}

/// What one run measures.
#[derive(Clone, Copy)]
pub struct Configuration {
    pub batch: usize,
    pub threads: usize,
    pub strategy: Strategy,
}

/// Every network at every depth, each with every batch size, number of threads, strategy and budget.
pub fn cases(global: &Global, options: &SweepOptions) -> Result<Vec<Case>, Failure> {
    let strategies = strategies(options)?;
    let depths: Vec<Option<usize>> =
        if options.depth.is_empty() { vec![None] } else { options.depth.iter().copied().map(Some).collect() };
    let threads = match options.threads.as_slice() {
        [] => vec![global.threads.unwrap_or_else(rayon::current_num_threads)],
        given => given.to_vec(),
    };
    let mut configurations = Vec::new();
    for &batch in &options.batch {
        for &threads in &threads {
            let of = |&strategy: &Strategy| Configuration { batch, threads, strategy };
            configurations.extend(strategies.iter().map(of));
        }
    }
    let mut cases = Vec::new();
    for name in &options.model {
        for &depth in &depths {
            let model = options.changes.apply_any(name, depth)?;
            cases.push(Case { name: name.clone(), model, configurations: configurations.clone() });
        }
    }
    Ok(cases)
}

/// Strategies by name, `auto` once with each budget.
fn strategies(options: &SweepOptions) -> Result<Vec<Strategy>, Failure> {
    let mut strategies = Vec::new();
    for name in &options.strategy {
        let budgets: Vec<Option<u64>> = if name == "auto" && !options.budget.is_empty() {
            options.budget.iter().copied().map(Some).collect()
        } else {
            vec![None]
        };
        for budget in budgets {
            strategies.push(options::strategy(name, budget)?);
        }
    }
    for (index, strategy) in strategies.iter().enumerate() {
        if strategies[..index].contains(strategy) {
            return Err(Failure::usage(format!("the strategy `{strategy}` is asked for twice")));
        }
    }
    Ok(strategies)
}
