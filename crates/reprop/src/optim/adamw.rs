//! `AdamW` (Loshchilov & Hutter, *Decoupled weight decay regularization*, 2019).

use burn::config::Config;
use burn::optim::{self, AdamWState, AdaptiveMomentumState, LearningRate, ModuleOptimizer, Optimizer};
use burn::tensor::{Device, Tensor};
use reprop_kernels::optimizer as kernel;

use super::fuses;
use crate::Workspace;
use crate::kernels::{Floats, modify, on_lines};

/// Settings of an [`AdamW`].
///
/// ```
/// use burn::module::ParamGroup;
/// use reprop::optim::AdamWConfig;
///
/// // Weights are decayed, biases and norms are not.
/// let config = AdamWConfig::new().with_weight_decay(0.05);
/// let undecayed = ParamGroup::from_any_predicates(vec!["bias", "gamma", "beta"]);
/// let optimizer = config.init().with_group(undecayed, config.with_weight_decay(0.0).build(), None);
/// assert!(!optimizer.has_gradient_clipping());
/// ```
#[derive(Config, Debug)]
pub struct AdamWConfig {
    /// Decay of the mean gradient.
    #[config(default = 0.9)]
    pub beta_1: f32,
    /// Decay of the mean squared gradient.
    #[config(default = 0.999)]
    pub beta_2: f32,
    /// Added to the root of the mean square.
    #[config(default = 1e-8)]
    pub epsilon: f32,
    /// Decay of the parameters, times the learning rate.
    #[config(default = 0.0)]
    pub weight_decay: f32,
}

impl AdamWConfig {
    /// The optimizer of one group of parameters.
    pub fn build(&self) -> AdamW {
        let Self { beta_1, beta_2, epsilon, weight_decay } = self.clone();
        let burn = optim::AdamWConfig::new()
            .with_beta_1(beta_1)
            .with_beta_2(beta_2)
            .with_epsilon(epsilon)
            .with_weight_decay(weight_decay)
            .build();
        AdamW { config: self.clone(), burn }
    }

    /// The optimizer of a module.
    pub fn init(&self) -> ModuleOptimizer {
        self.build().into()
    }
}

/// `AdamW` on fused kernels.
#[derive(Clone)]
pub struct AdamW {
    config: AdamWConfig,
    /// For other devices.
    burn: optim::AdamW,
}

impl Optimizer for AdamW {
    type State<const D: usize> = AdamWState<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<AdamWState<D>>,
    ) -> (Tensor<D>, Option<AdamWState<D>>) {
        if !fuses(&[&tensor, &grad]) {
            return self.burn.step(lr, tensor, grad, state);
        }
        let AdaptiveMomentumState { time, moment_1, moment_2, .. } = match state {
            Some(state) => state.momentum,
            None => AdaptiveMomentumState::new(0, grad.zeros_like(), grad.zeros_like()),
        };
        let time = time + 1;
        let AdamWConfig { beta_1: beta1, beta_2: beta2, epsilon: eps, weight_decay } = self.config.clone();
        let settings = kernel::AdamW { learning_rate: lr as f32, beta1, beta2, eps, weight_decay };
        let workspace = Workspace::shared();
        let grad = Floats::of(grad);
        let (tensor, (moment_1, moment_2)) = modify(on_lines(tensor), |p| {
            let (moment_1, moment_2) = modify(on_lines(moment_1), |m| {
                let update =
                    |v: &mut [f32]| settings.update(time as u32, p, &grad, m, v, workspace.kernels());
                modify(on_lines(moment_2), update).0
            });
            (moment_1, moment_2)
        });
        (tensor, Some(AdamWState::new(AdaptiveMomentumState::new(time, moment_1, moment_2))))
    }

    fn to_device<const D: usize>(state: AdamWState<D>, device: &Device) -> AdamWState<D> {
        optim::AdamW::to_device(state, device)
    }
}
