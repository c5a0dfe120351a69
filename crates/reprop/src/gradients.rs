//! Gradients of parameters, collected during a backward pass.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{DType, Tensor};

use crate::{Held, Holder, Meter, Saved};

/// Gradients of a network's parameters, ready for Burn's optimizers.
///
/// Gradients are added in the order in which blocks are reversed, which no strategy changes: a parameter that several
/// blocks share gets the same bits under each.
///
/// ```
/// use burn::module::Param;
/// use burn::tensor::{Device, Tensor};
/// use reprop::{Gradients, Meter};
///
/// let device = Device::flex().autodiff();
/// let weight = Param::from_tensor(Tensor::<1>::ones([2], &device));
/// let mut gradients = Gradients::new(&Meter::new());
/// gradients.add(&weight, || Tensor::ones([2], &Device::flex()));
/// gradients.add(&weight, || Tensor::ones([2], &Device::flex()));
/// let sum = gradients.into_params().get::<1>(weight.id).unwrap();
/// assert_eq!(sum.to_data().try_to_vec::<f32>().unwrap(), [2.0, 2.0]);
/// ```
pub struct Gradients {
    params: GradientsParams,
    meter: Meter,
    held: Vec<Held>,
}

impl Gradients {
    /// No gradients yet; what comes is counted by `meter`.
    pub fn new(meter: &Meter) -> Self {
        Self { params: GradientsParams::new(), meter: meter.clone(), held: Vec::new() }
    }

    /// Adds to the gradient of `param`, unless it is frozen: then `gradient` is not even computed.
    pub fn add<const D: usize>(&mut self, param: &Param<Tensor<D>>, gradient: impl FnOnce() -> Tensor<D>) {
        if !param.is_require_grad() {
            return;
        }
        let gradient = gradient();
        let gradient = if gradient.dtype() == DType::F32 { gradient } else { gradient.cast(DType::F32) };
        let sum = if let Some(before) = self.params.remove::<D>(param.id) {
            before + gradient
        } else {
            self.held.push(self.meter.hold(Holder::Parameters, gradient.bytes()));
            gradient
        };
        self.params.register(param.id, sum);
    }

    /// Adds the gradients of all parameters of `module`.
    pub fn add_all<M: Module>(&mut self, module: &M, gradients: GradientsParams) {
        module.visit(&mut AddAll { sum: self, gradients });
    }

    /// The gradients as Burn's optimizers take them.
    pub fn into_params(self) -> GradientsParams {
        self.params
    }
}

struct AddAll<'g> {
    sum: &'g mut Gradients,
    gradients: GradientsParams,
}

impl ModuleVisitor for AddAll<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.remove::<D>(param.id) {
            self.sum.add(param, || gradient);
        }
    }
}
