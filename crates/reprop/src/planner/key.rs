//! What costs depend on.

use std::fs;

use burn::module::{ModuleVisitor, Param};
use burn::tensor::Tensor;
use xxhash_rust::xxh3::Xxh3;

use crate::engine::Sizes;
use crate::{Network, Pass, Result};

/// Names what the costs of a step depend on: the network's shape, the batch, the pass's settings, threads, processor and
/// the version of this crate. Costs with equal keys are interchangeable.
///
/// # Errors
///
/// A part that cannot tell its bytes.
pub fn cost_key<const D: usize, N: Network<D>>(network: &N, batch: usize, pass: &Pass) -> Result<String> {
    let mut shapes = Shapes(Xxh3::new());
    network.visit(&mut shapes);
    let Shapes(mut hash) = shapes;
    hash.update(format!("{:?} {}", Sizes::of(network, batch, pass)?, pass.settings()).as_bytes());
    hash.update(processor().as_bytes());
    let threads = rayon::current_num_threads();
    let version = env!("CARGO_PKG_VERSION");
    Ok(format!("{version}, {threads} threads, batch {batch}, {:032x}", hash.digest128()))
}

/// Names and shapes of parameters, whose values need not be made for it.
struct Shapes(Xxh3);

impl ModuleVisitor for Shapes {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.0.update(name.as_bytes());
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.update(format!("{:?} {}", param.lazy_shape(), param.is_require_grad()).as_bytes());
    }
}

/// The processor's name, as far as the system tells it.
fn processor() -> String {
    let told = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        line.split_once(':').map(|(_, name)| name.trim().to_owned())
    });
    told.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}
