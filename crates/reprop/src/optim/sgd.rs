//! Stochastic gradient descent with Nesterov's momentum, as in Sutskever et al. (*On the importance of initialization
//! and momentum in deep learning*, 2013) in the form that PyTorch has:
//!
//! ```text
//! g = g + λ p,   b = μ b + g,   p = p - η (g + μ b)
//! ```

use burn::config::Config;
use burn::optim::{LearningRate, ModuleOptimizer, Optimizer, RecordState, StateSink, StateSource};
use burn::tensor::{Device, Tensor};
use reprop_kernels::optimizer as kernel;

use super::fuses;
use crate::Workspace;
use crate::kernels::{Floats, modify, on_lines};

/// Settings of an [`Sgd`].
///
/// ```
/// use reprop::optim::SgdConfig;
///
/// let optimizer = SgdConfig::new().with_momentum(0.9).with_weight_decay(5e-4).init();
/// assert!(!optimizer.has_gradient_clipping());
/// ```
#[derive(Config, Debug)]
pub struct SgdConfig {
    /// `μ`.
    #[config(default = 0.9)]
    pub momentum: f32,
    /// `λ`, added to the gradient.
    #[config(default = 0.0)]
    pub weight_decay: f32,
}

impl SgdConfig {
    /// The optimizer of one group of parameters.
    pub fn build(&self) -> Sgd {
        Sgd { config: self.clone() }
    }

    /// The optimizer of a module.
    pub fn init(&self) -> ModuleOptimizer {
        self.build().into()
    }
}

/// SGD with Nesterov's momentum on fused kernels.
#[derive(Clone)]
pub struct Sgd {
    config: SgdConfig,
}

/// State of an [`Sgd`].
#[derive(Clone, Debug)]
pub struct SgdState<const D: usize> {
    /// `b`.
    pub velocity: Tensor<D>,
}

const VELOCITY: &str = "velocity";

impl<const D: usize> RecordState for SgdState<D> {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        out.push_tensor(prefix, VELOCITY, self.velocity.to_data());
    }

    fn state_unflatten(prefix: &str, src: &mut StateSource, device: &Device) -> Option<Self> {
        let velocity = Tensor::from_data(src.take_tensor(prefix, VELOCITY)?, device);
        Some(Self { velocity })
    }
}

impl Optimizer for Sgd {
    type State<const D: usize> = SgdState<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<SgdState<D>>,
    ) -> (Tensor<D>, Option<SgdState<D>>) {
        let SgdConfig { momentum, weight_decay } = self.config.clone();
        let velocity = state.map_or_else(|| grad.zeros_like(), |state| state.velocity);
        let (tensor, velocity) = if fuses(&[&tensor, &grad, &velocity]) {
            let settings = kernel::Sgd { learning_rate: lr as f32, momentum, weight_decay };
            let workspace = Workspace::shared();
            let grad = Floats::of(grad);
            modify(on_lines(tensor), |p| {
                modify(on_lines(velocity), |b| settings.update(p, &grad, b, workspace.kernels())).0
            })
        } else {
            let grad = grad + tensor.clone().mul_scalar(weight_decay);
            let velocity = velocity.mul_scalar(momentum) + grad.clone();
            let change = (grad + velocity.clone().mul_scalar(momentum)).mul_scalar(lr);
            (tensor - change, velocity)
        };
        (tensor, Some(SgdState { velocity }))
    }

    fn to_device<const D: usize>(state: SgdState<D>, device: &Device) -> SgdState<D> {
        SgdState { velocity: state.velocity.to_device(device) }
    }
}
