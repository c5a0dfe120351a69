//! What normalisations saw of a batch, on its way to their running statistics.

use std::collections::HashMap;

use burn::module::{Module, ModuleMapper, Param, ParamId};
use burn::tensor::Tensor;

/// Statistics of the batches of one or more backward passes, by the parameter that follows them.
///
/// A forward changes nothing, so that it can be repeated: running statistics wait here until the step is over. A
/// derivative runs once a batch under every strategy, so that each batch is seen once.
///
/// ```
/// use burn::module::{Module, Param};
/// use burn::tensor::{Device, Tensor};
/// use reprop::{Gradients, Meter};
///
/// #[derive(Module, Debug)]
/// struct Norm {
///     running_mean: Param<Tensor<1>>,
/// }
///
/// let running_mean = Param::from_tensor(Tensor::zeros([2], &Device::flex())).set_require_grad(false);
/// let norm = Norm { running_mean };
/// let mut gradients = Gradients::new(&Meter::new());
/// gradients.observe(&norm.running_mean, 0.5, Tensor::ones([2], &Device::flex()));
/// let norm = gradients.take_statistics().apply(norm);
/// assert_eq!(norm.running_mean.val().into_data().try_to_vec::<f32>().unwrap(), [0.5, 0.5]);
/// ```
#[derive(Debug, Default)]
pub struct Statistics {
    observed: HashMap<ParamId, Vec<Observation>>,
}

#[derive(Debug)]
struct Observation {
    momentum: f64,
    value: Tensor<1>,
}

impl Statistics {
    /// Notes what a batch showed of `param`.
    pub(crate) fn observe(&mut self, param: &Param<Tensor<1>>, momentum: f64, value: Tensor<1>) {
        self.observed.entry(param.id).or_default().push(Observation { momentum, value });
    }

    /// Whether nothing was observed.
    pub fn is_empty(&self) -> bool {
        self.observed.is_empty()
    }

    /// Whether the running statistic `id` was observed.
    pub fn observes(&self, id: ParamId) -> bool {
        self.observed.contains_key(&id)
    }

    /// `module` with each running statistic moved towards what was observed, by its momentum, in the order of the
    /// observations.
    pub fn apply<M: Module>(mut self, module: M) -> M {
        if self.is_empty() { module } else { module.map(&mut self) }
    }
}

impl ModuleMapper for Statistics {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(observed) = self.observed.remove(&param.id) else { return param };
        param.map(|running| {
            let device = running.device();
            let shape = running.dims();
            let moved =
                observed.into_iter().fold(running.inner(), |running, Observation { momentum, value }| {
                    running.mul_scalar(1.0 - momentum) + value.reshape(shape).mul_scalar(momentum)
                });
            if device.is_autodiff() { moved.autodiff() } else { moved }
        })
    }
}
