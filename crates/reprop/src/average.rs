//! An exponential moving average of weights.

use std::collections::VecDeque;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::Tensor;

/// A module whose parameters follow those of another, smoothed: what a run is often judged by.
///
/// ```
/// use burn::module::Module;
/// use burn::nn::LinearConfig;
/// use burn::tensor::Device;
/// use reprop::Average;
///
/// let network = LinearConfig::new(2, 3).init(&Device::flex());
/// let mut average = Average::new(&network, 0.999);
/// // ... after each step of the optimizer:
/// average.follow(&network, 0);
/// assert_eq!(reprop::parameter_count(average.module()), reprop::parameter_count(&network));
/// ```
#[derive(Clone, Debug)]
pub struct Average<M: Module> {
    module: M,
    decay: f64,
}

impl<M: Module> Average<M> {
    /// An average that begins at `module` and keeps `decay` of itself in each step.
    pub fn new(module: &M, decay: f64) -> Self {
        Self { module: module.clone(), decay }
    }

    /// An average that goes on from what it was.
    pub fn resumed(module: M, decay: f64) -> Self {
        Self { module, decay }
    }

    /// Moves towards `module`, as it is after step `step`, counted from 0. In the first steps less is kept, `(1 + step) / (10 +
    /// step)`, so that initial weights are soon forgotten. Running statistics are averaged too.
    pub fn follow(&mut self, module: &M, step: usize) {
        let keep = self.decay.min((1.0 + step as f64) / (10.0 + step as f64));
        let mut values = Values(VecDeque::new());
        module.visit(&mut values);
        let mut blend = Blend { values: values.0, keep };
        // A clone shares the tensors, which are replaced one by one.
        self.module = self.module.clone().map(&mut blend);
    }

    /// The module with averaged parameters.
    pub fn module(&self) -> &M {
        &self.module
    }
}

/// All parameters in the order of a visit, flat.
struct Values(VecDeque<Tensor<1>>);

impl ModuleVisitor for Values {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.push_back(param.val().inner().flatten(0, D - 1));
    }
}

struct Blend {
    values: VecDeque<Tensor<1>>,
    keep: f64,
}

impl ModuleMapper for Blend {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(value) = self.values.pop_front() else { return param };
        let keep = self.keep;
        param.map(|average| {
            let device = average.device();
            let value = value.reshape(average.dims());
            let moved = average.inner().mul_scalar(keep) + value.mul_scalar(1.0 - keep);
            if device.is_autodiff() { moved.autodiff() } else { moved }
        })
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::{Linear, LinearConfig};
    use burn::tensor::{Device, TensorData};

    use super::*;

    fn with(weight: f32) -> Linear {
        let mut linear = LinearConfig::new(1, 1).with_bias(false).init(&Device::flex());
        linear.weight = linear.weight.map(|w| w.zeros_like().add_scalar(weight));
        linear
    }

    fn weight(linear: &Linear) -> f32 {
        linear.weight.val().into_data().iter::<f32>().next().unwrap()
    }

    /// Against the recurrence in 64 bits: a hundred steps, of which about eighty keep less than asked for.
    #[test]
    fn an_average_follows_the_recurrence() {
        let mut average = Average::new(&with(1.0), 0.9);
        let mut expected = 1.0f64;
        for step in 0..100usize {
            let value = (step as f64 * 0.7).sin();
            average.follow(&with(value as f32), step);
            let keep = f64::min(0.9, (1.0 + step as f64) / (10.0 + step as f64));
            expected = keep * expected + (1.0 - keep) * value;
            assert!((f64::from(weight(average.module())) - expected).abs() < 1e-5, "step {step}");
        }
    }

    #[test]
    fn an_average_that_is_resumed_goes_on_with_the_same_bits() {
        let mut whole = Average::new(&with(1.0), 0.99);
        let mut parts = whole.clone();
        for step in 0..20 {
            whole.follow(&with(step as f32), step);
            parts = Average::resumed(parts.module().clone(), 0.99);
            parts.follow(&with(step as f32), step);
        }
        let bits = |average: &Average<Linear>| -> TensorData { average.module().weight.val().into_data() };
        assert_eq!(bits(&whole), bits(&parts));
    }
}
