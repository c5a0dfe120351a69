//! Data and comparisons that the laws share.

use burn::module::{Module, ModuleMapper, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Int, Tensor, TensorData};
use reprop::{Input, Mode, Network, Pass, Strategy, Target, named_gradients};

pub use crate::networks::*;

/// Where parameters live.
pub fn trainable() -> Device {
    crate::device().autodiff()
}

/// A training pass on the kernels that the suite is run for.
pub fn training(seed: u64) -> Pass {
    Pass::training(seed).kernels(crate::KERNELS)
}

/// An evaluation pass on the kernels that the suite is run for.
pub fn evaluation() -> Pass {
    Pass::evaluation().kernels(crate::KERNELS)
}

/// Values in `[-1, 1)` that depend on the seed and the shape alone.
pub fn noise<const D: usize>(seed: u64, shape: [usize; D]) -> Tensor<D> {
    let elements: usize = shape.iter().product();
    let values: Vec<f32> = (0..elements as u64)
        .map(|index| {
            let word = (seed << 32 ^ index).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let word = (word ^ word >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (word >> 40) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect();
    Tensor::from_data(TensorData::new(values, shape), &crate::device())
}

/// Labels that go through all classes.
pub fn labels(batch: usize, classes: usize) -> Tensor<1, Int> {
    let values: Vec<i64> = (0..batch).map(|sample| ((3 * sample + 1) % classes) as i64).collect();
    Tensor::from_data(TensorData::new(values, [batch]), &crate::device())
}

/// The module with noise added to every parameter, so that no bias is zero and no scale is one. Noise of weights goes
/// down with their inputs, so that values stay of one magnitude at any width.
pub fn scattered<M: Module>(module: M) -> M {
    struct Scatter(u64);
    impl ModuleMapper for Scatter {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            self.0 += 1;
            param.map(|value| {
                let trained = value.is_require_grad();
                let inputs = if D == 1 { 9 } else { value.dims()[..D - 1].iter().product() };
                let noise = noise(self.0, value.dims()).mul_scalar(0.6 / (inputs as f64).sqrt());
                (value.inner() + noise).autodiff().set_require_grad(trained)
            })
        }
    }
    module.map(&mut Scatter(100))
}

/// Names and bits of all gradients.
pub type Bits = Vec<(String, Vec<usize>, Vec<u8>)>;

/// Names and bits of `gradients`.
pub fn bits<M: Module>(module: &M, gradients: &GradientsParams) -> Bits {
    named_gradients(module, gradients)
        .into_iter()
        .map(|(name, data)| (name, data.shape().to_vec(), data.as_bytes().to_vec()))
        .collect()
}

/// Loss and gradients of one step.
pub fn stepped<const D: usize, N: Network<D>>(
    network: &N,
    data: &(Input<D, N>, Target<D, N>),
    pass: Pass,
    strategy: Strategy,
) -> (u32, Bits) {
    let step = network.step(data.0.clone(), data.1.clone(), pass, strategy).expect("the step goes through");
    (step.loss.to_bits(), bits(network, &step.gradients))
}

/// Panics, naming the first difference, unless both are equal.
pub fn assert_same(left: &(u32, Bits), right: &(u32, Bits), what: &str) {
    assert_eq!(left.0, right.0, "{what}: bits of the loss");
    assert_eq!(left.1.len(), right.1.len(), "{what}: number of gradients");
    for (a, b) in left.1.iter().zip(&right.1) {
        assert!(a == b, "{what}: gradient of {} differs from that of {}", a.0, b.0);
    }
}

/// Every strategy, with budgets from the least that can be met to more than enough where the network can tell.
pub fn strategies<const D: usize, N: Network<D>>(network: &N, batch: usize, pass: &Pass) -> Vec<Strategy> {
    let peak = |strategy| {
        network.predicted(batch, pass, strategy).expect("no budget is asked for").map(|p| p.activation_peak)
    };
    let beside = Mode { overlap: true, ..Mode::default() };
    let mut all = vec![
        Strategy::Reprop,
        Strategy::PaReprop,
        Strategy::Planned(Mode::default()),
        Strategy::Planned(beside),
        Strategy::Auto { budget: u64::MAX },
    ];
    if let (Some(least), Some(most)) = (peak(Strategy::Reprop), peak(Strategy::Stored)) {
        all.extend(
            (0..=3).map(|part| Strategy::Auto { budget: least + (most.max(least) - least) * part / 3 }),
        );
    }
    all
}

/// Asserts that every strategy gives the gradients of `Stored`, that each parameter has one and none is all zero.
pub fn assert_equal_gradients<const D: usize, N: Network<D>>(
    network: &N,
    data: &(Input<D, N>, Target<D, N>),
    batch: usize,
    pass: impl Fn() -> Pass,
    what: &str,
) -> (u32, Bits) {
    let stored = stepped(network, data, pass(), Strategy::Stored);
    let trained = reprop::named_parameters(network).into_iter().filter(|(name, _)| !is_running(name));
    assert_eq!(stored.1.len(), trained.count(), "{what}: every parameter has a gradient");
    for strategy in strategies(network, batch, &pass()) {
        let found = stepped(network, data, pass(), strategy);
        assert_same(&stored, &found, &format!("{what}: {strategy:?}"));
    }
    stored
}

/// Whether a parameter is a running statistic, by its name.
pub fn is_running(name: &str) -> bool {
    name.rsplit('.').next().is_some_and(|name| name.starts_with("running_"))
}

/// Panics if all values of a gradient are zero: equality would then say nothing.
pub fn assert_alive((_, gradients): &(u32, Bits)) {
    for (name, _, bytes) in gradients {
        assert!(bytes.iter().any(|&byte| byte != 0 && byte != 0x80), "the gradient of {name} is zero");
    }
}

/// What `run` gives in a pool of `threads` threads.
pub fn with_threads<T: Send>(threads: usize, run: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool").install(run)
}

/// The largest difference of two tensors.
pub fn largest_difference<const D: usize>(a: &Tensor<D>, b: &Tensor<D>) -> f32 {
    (a.clone() - b.clone()).abs().max().into_scalar()
}
