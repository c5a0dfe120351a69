//! Initial values of parameters, reproducible from a seed whatever the order in which they are first used.

use std::f64::consts::TAU;

use burn::module::{Param, ParamId};
use burn::nn::{LayerNorm, LayerNormConfig, Linear};
use burn::tensor::{Device, Tensor, TensorData};

use crate::Key;
use crate::random::Permutation;

/// The deviation of vision transformers' weights.
const DEVIATION: f64 = 0.02;
/// Values farther out than this many deviations are drawn again.
const CUT: f64 = 2.0;
/// One draw in 22 is too far out, so this many are in vain for one parameter in `10^21`.
const ATTEMPTS: u64 = 16;

/// Makes parameters one after the other, each from its own key.
///
/// Burn draws initial values from a generator of the whole process when a parameter is first used; here the values
/// depend on the seed and on the parameter's number alone.
///
/// ```
/// use burn::tensor::Device;
/// use reprop::layers::Initial;
///
/// let device = Device::flex().autodiff();
/// let weight = Initial::new(7, &device).truncated_normal([4, 4]);
/// let again = Initial::new(7, &device).truncated_normal([4, 4]);
/// assert_eq!(weight.val().to_data(), again.val().to_data());
/// ```
#[derive(Debug)]
pub struct Initial {
    seed: u64,
    deviation: f64,
    made: u64,
    device: Device,
}

impl Initial {
    /// Parameters on `device` from `seed`.
    pub fn new(seed: u64, device: &Device) -> Self {
        Self { seed, deviation: DEVIATION, made: 0, device: device.clone() }
    }

    /// Weights with another deviation than 0.02.
    pub fn with_deviation(self, deviation: f64) -> Self {
        Self { deviation, ..self }
    }

    /// A parameter of normal values, cut off at two deviations. Its memory is taken when it is
    /// first used.
    pub fn truncated_normal<const D: usize>(&mut self, shape: [usize; D]) -> Param<Tensor<D>> {
        self.truncated_normal_of(shape, self.deviation)
    }

    /// The same with a deviation of its own.
    pub fn truncated_normal_of<const D: usize>(
        &mut self,
        shape: [usize; D],
        deviation: f64,
    ) -> Param<Tensor<D>> {
        let key = Key { seed: self.seed, step: 0, call: 0, block: self.made, site: u64::MAX };
        self.made += 1;
        let init = move |device: &Device, require_grad: bool| {
            let attempts: Vec<[Permutation; 2]> = (0..ATTEMPTS)
                .map(|attempt| [0, 1].map(|which| Key { call: 2 * attempt + which, ..key }.permutation()))
                .collect();
            let elements: usize = shape.iter().product();
            let values = filled(elements, |index| (deviation * normal(&attempts, index as u32)) as f32);
            Tensor::from_data(TensorData::new(values, shape), device).set_require_grad(require_grad)
        };
        Param::uninitialized(ParamId::new(), init, self.device.clone(), true, shape.into())
    }

    /// A parameter of zeros.
    pub fn zeros<const D: usize>(&self, shape: [usize; D]) -> Param<Tensor<D>> {
        self.constant(shape, 0.0)
    }

    /// A parameter whose elements are all `value`.
    pub fn constant<const D: usize>(&self, shape: [usize; D], value: f32) -> Param<Tensor<D>> {
        let init = move |device: &Device, require_grad: bool| {
            Tensor::full(shape, value, device).set_require_grad(require_grad)
        };
        Param::uninitialized(ParamId::new(), init, self.device.clone(), true, shape.into())
    }

    /// A linear layer with bias.
    pub fn linear(&mut self, inputs: usize, outputs: usize) -> Linear {
        Linear { weight: self.truncated_normal([inputs, outputs]), bias: Some(self.zeros([outputs])) }
    }

    /// A layer norm.
    pub fn norm(&self, width: usize) -> LayerNorm {
        LayerNormConfig::new(width).with_epsilon(super::norm::EPSILON).init(&self.device)
    }
}

/// Values that one thread makes at least: below that, starting it takes longer.
const CHUNK: usize = 1 << 16;

/// `value` of each index, on all processors.
///
/// On threads of its own and not on Rayon's: whoever uses a parameter first makes it while others wait for it, and a
/// Rayon thread that waits for its own loops takes up other work, which may wait for that very parameter.
fn filled(elements: usize, value: impl Fn(usize) -> f32 + Sync) -> Vec<f32> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let chunk = elements.div_ceil(threads).max(CHUNK);
    if elements <= chunk {
        return (0..elements).map(value).collect();
    }
    let mut values = vec![0.0; elements];
    std::thread::scope(|scope| {
        for (number, values) in values.chunks_mut(chunk).enumerate() {
            let value = &value;
            scope.spawn(move || {
                for (offset, slot) in values.iter_mut().enumerate() {
                    *slot = value(number * chunk + offset);
                }
            });
        }
    });
    values
}

/// The value of element `index`, in deviations, by Box and Muller's transform; while it is too far out, the next attempt's.
fn normal(attempts: &[[Permutation; 2]], index: u32) -> f64 {
    attempts
        .iter()
        .map(|[radius, angle]| {
            let radius = (-2.0 * (1.0 - f64::from(radius.uniform(index))).ln()).sqrt();
            radius * (TAU * f64::from(angle.uniform(index))).cos()
        })
        .find(|value| value.abs() <= CUT)
        .unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initial_weights_have_the_deviation_and_the_cut_asked_for() {
        let weight = Initial::new(3, &Device::flex()).truncated_normal([100, 100]);
        let values = weight.val().into_data().try_to_vec::<f32>().unwrap();
        let n = values.len() as f64;
        let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / n;
        let deviation = (values.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / n).sqrt();
        assert!(mean.abs() < 5.0 * DEVIATION / n.sqrt(), "{mean}");
        // A normal cut at two deviations keeps 0.8796 of its deviation.
        assert!((deviation / DEVIATION - 0.8796).abs() < 0.02, "{deviation}");
        assert!(values.iter().all(|v| v.abs() <= 0.04));
    }
}
