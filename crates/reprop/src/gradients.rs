//! Gradients of parameters, collected during a backward pass.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{DType, Device, Tensor};

use crate::{Held, Holder, Meter, Saved, Statistics};

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
    statistics: Statistics,
}

impl Gradients {
    /// No gradients yet; what comes is counted by `meter`.
    pub fn new(meter: &Meter) -> Self {
        Self {
            params: GradientsParams::new(),
            meter: meter.clone(),
            held: Vec::new(),
            statistics: Statistics::default(),
        }
    }

    /// Adds to the gradient of `param`, unless it is frozen: then `gradient` is not even computed.
    pub fn add<const D: usize>(&mut self, param: &Param<Tensor<D>>, gradient: impl FnOnce() -> Tensor<D>) {
        self.add_onto(param, |before| {
            let gradient = gradient();
            let gradient = if gradient.dtype() == DType::F32 { gradient } else { gradient.cast(DType::F32) };
            match before {
                Some(before) => before + gradient,
                None => gradient,
            }
        });
    }

    /// The gradient of `param` as `sum` makes it of what there is so far, in 32 bits; for what is less than a whole gradient.
    pub(crate) fn add_onto<const D: usize>(
        &mut self,
        param: &Param<Tensor<D>>,
        sum: impl FnOnce(Option<Tensor<D>>) -> Tensor<D>,
    ) {
        if !param.is_require_grad() {
            return;
        }
        let before = self.params.remove::<D>(param.id);
        let first = before.is_none();
        let sum = sum(before);
        if first {
            self.held.push(self.meter.hold(Holder::Parameters, sum.bytes()));
        }
        self.params.register(param.id, sum);
    }

    /// Notes what the batch showed of a running statistic, which [`Statistics::apply`] will move towards `value` by
    /// `momentum`. Call it in a derivative, which runs once a batch under every strategy, and in training only.
    pub fn observe(&mut self, running: &Param<Tensor<1>>, momentum: f64, value: Tensor<1>) {
        self.statistics.observe(running, momentum, value);
    }

    /// What was observed so far.
    pub fn take_statistics(&mut self) -> Statistics {
        std::mem::take(&mut self.statistics)
    }

    /// Adds the gradients of all parameters of `module`.
    pub fn add_all<M: Module>(&mut self, module: &M, gradients: GradientsParams) {
        module.visit(&mut AddAll { sum: self, gradients });
    }

    /// The gradients as Burn's optimizers take them.
    pub fn into_params(self) -> GradientsParams {
        forget_old_leaves();
        self.params
    }
}

/// Makes Burn's autodiff forget leaves that are gone. An optimizer makes a new leaf of each parameter in each step, and the
/// old one's entry is removed by the next backward pass on a graph alone, of which hand-written derivatives need none:
/// about a kilobyte for each parameter and step would stay.
fn forget_old_leaves() {
    Tensor::<1>::zeros([1], &Device::flex().autodiff()).require_grad().backward();
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

/// The gradients of `module`, each multiplied by `factor`.
///
/// ```
/// use burn::nn::LinearConfig;
/// use burn::optim::GradientsParams;
/// use burn::tensor::{Device, Tensor};
///
/// let module = LinearConfig::new(2, 2).init(&Device::flex());
/// let mut gradients = GradientsParams::new();
/// gradients.register(module.weight.id, Tensor::<2>::ones([2, 2], &Device::flex()));
/// let halves = reprop::scaled(&module, gradients, 0.5).get::<2>(module.weight.id).unwrap();
/// assert_eq!(halves.to_data().try_to_vec::<f32>().unwrap(), [0.5; 4]);
/// ```
pub fn scaled<M: Module>(module: &M, gradients: GradientsParams, factor: f64) -> GradientsParams {
    let mut scale = Scale { from: gradients, to: GradientsParams::new(), factor };
    module.visit(&mut scale);
    scale.to
}

struct Scale {
    from: GradientsParams,
    to: GradientsParams,
    factor: f64,
}

impl ModuleVisitor for Scale {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        // One parameter may stand in several places, and is visited in each.
        if let Some(gradient) = self.from.remove::<D>(param.id) {
            self.to.register(param.id, gradient.mul_scalar(self.factor));
        }
    }
}
