//! Scaling of the loss, for half precision.
//!
//! Half floats end at 65504 and lose their bits below `6e-5`, where many gradients lie. So the gradient of the loss is
//! multiplied by a large power of two, with it every gradient of F and G, and the gradients of parameters are divided by it
//! again, in `f32`: powers of two change no bit of a significand. Where the factor was too large something overflows; such
//! a step is left out and the factor halved. After many steps without overflow it is doubled (Micikevicius et al., *Mixed
//! precision training*, 2018).

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::{Precision, host, scaled};

/// The first factor.
const FIRST: f64 = 65536.0;
/// Steps without overflow after which the factor is doubled.
const PATIENCE: u32 = 2000;
/// The factor goes no lower, nor higher.
const LEAST: f64 = 1.0;
const MOST: f64 = 16_777_216.0;

/// A factor on the loss that follows what half precision can hold. It decides by the bits of gradients alone, which are the
/// same under every strategy.
///
/// ```
/// use burn::tensor::{Device, Int, Tensor};
/// use reprop::{LossScale, Network, Pass, Precision, Strategy};
/// use reprop_models::RevVitConfig;
///
/// let device = Device::flex();
/// let network = RevVitConfig { depth: 2, ..RevVitConfig::digits() }.init(42, &device.clone().autodiff());
/// let (images, labels) = (Tensor::<4>::ones([2, 1, 8, 8], &device), Tensor::<1, Int>::zeros([2], &device));
///
/// let mut scale = LossScale::default();
/// let pass = Pass::training(42).precision(Precision::F16).loss_weight(scale.factor());
/// let step = network.step(images, labels, pass, Strategy::PaReprop)?;
/// // Nothing if a gradient overflowed: the step is left out.
/// if let Some(gradients) = scale.unscale(&network, step.gradients) {
///     assert!(gradients.len() > 0);
/// }
/// # Ok::<(), reprop::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossScale {
    factor: f64,
    /// Steps since the factor changed.
    since: u32,
}

impl Default for LossScale {
    fn default() -> Self {
        Self { factor: FIRST, since: 0 }
    }
}

impl LossScale {
    /// What `precision` needs: brain floats and `f32` have range enough.
    pub fn of(precision: Precision) -> Option<Self> {
        (precision == Precision::F16).then(Self::default)
    }

    /// The factor for [`Pass::loss_weight`](crate::Pass::loss_weight).
    pub fn factor(&self) -> f64 {
        self.factor
    }

    /// Gradients of `module` without the factor, or nothing if one of them is not finite: then the step must be left out.
    /// The factor of the next step follows from it. Waits for the device once.
    pub fn unscale<M: Module>(&mut self, module: &M, gradients: GradientsParams) -> Option<GradientsParams> {
        let mut sums = Sums { gradients: &gradients, sums: Vec::new() };
        module.visit(&mut sums);
        if !is_finite(sums.sums) {
            *self = Self { factor: (self.factor / 2.0).max(LEAST), since: 0 };
            return None;
        }
        let unscaled = scaled(module, gradients, self.factor.recip());
        self.since += 1;
        if self.since == PATIENCE {
            *self = Self { factor: (self.factor * 2.0).min(MOST), since: 0 };
        }
        Some(unscaled)
    }
}

/// Whether all sums are finite.
fn is_finite(sums: Vec<Tensor<1>>) -> bool {
    sums.is_empty() || host::read(Tensor::cat(sums, 0)).iter::<f32>().all(f32::is_finite)
}

/// A sum of magnitudes is finite where every one of them is.
struct Sums<'g> {
    gradients: &'g GradientsParams,
    sums: Vec<Tensor<1>>,
}

impl ModuleVisitor for Sums<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.get::<D>(param.id) {
            self.sums.push(gradient.abs().sum());
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::{Linear, LinearConfig};
    use burn::tensor::Device;

    use super::*;

    fn gradients(module: &Linear, value: f32) -> GradientsParams {
        let mut gradients = GradientsParams::new();
        let bias = module.bias.as_ref().expect("a bias");
        gradients.register(module.weight.id, Tensor::<2>::ones([2, 2], &Device::flex()));
        gradients.register(bias.id, Tensor::<1>::from_floats([value, 1.0], &Device::flex()));
        gradients
    }

    #[test]
    fn a_step_with_a_gradient_that_is_not_finite_is_left_out_and_halves_the_factor() {
        let module = LinearConfig::new(2, 2).init(&Device::flex());
        let mut scale = LossScale::default();
        for (number, value) in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY].into_iter().enumerate() {
            assert!(scale.unscale(&module, gradients(&module, value)).is_none());
            let factor = FIRST / 2.0_f64.powi(number as i32 + 1);
            assert_eq!(scale, LossScale { factor, since: 0 });
        }
        for _ in 0..40 {
            assert!(scale.unscale(&module, gradients(&module, f32::NAN)).is_none());
        }
        assert_eq!(scale, LossScale { factor: LEAST, since: 0 });
    }

    #[test]
    fn the_factor_is_taken_out_exactly_and_doubles_after_patience() {
        let module = LinearConfig::new(2, 2).init(&Device::flex());
        let mut scale = LossScale::default();
        for _ in 1..PATIENCE {
            scale.unscale(&module, gradients(&module, 3.0)).expect("finite");
        }
        assert_eq!(scale, LossScale { factor: FIRST, since: PATIENCE - 1 });
        let found = scale.unscale(&module, gradients(&module, 3.0)).expect("finite");
        assert_eq!(scale, LossScale { factor: 2.0 * FIRST, since: 0 });
        let bias = found.get::<1>(module.bias.as_ref().expect("a bias").id).expect("a gradient");
        assert_eq!(bias.into_data().try_to_vec::<f32>().expect("floats"), [3.0 / 65536.0, 1.0 / 65536.0]);
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn half_floats_alone_are_scaled() {
        assert_eq!(LossScale::of(Precision::F16), Some(LossScale::default()));
        assert_eq!([Precision::F32, Precision::Bf16].map(LossScale::of), [None, None]);
    }
}
