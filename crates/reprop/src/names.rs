//! Parameters and gradients by name, and digests over their bits.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Tensor, TensorData};
use xxhash_rust::xxh3::Xxh3;

use crate::{Error, Result};

/// Every parameter of `module` by its dotted name (`blocks.3.attention.qkv.weight`), in the order of names.
///
/// ```
/// use burn::nn::LinearConfig;
/// use burn::tensor::Device;
///
/// let linear = LinearConfig::new(2, 3).init(&Device::flex());
/// let names: Vec<String> = reprop::named_parameters(&linear).into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["bias", "weight"]);
/// ```
pub fn named_parameters<M: Module>(module: &M) -> Vec<(String, TensorData)> {
    collect(module, None)
}

/// The gradient of every parameter of `module` that has one, by name, in the order of names.
pub fn named_gradients<M: Module>(module: &M, gradients: &GradientsParams) -> Vec<(String, TensorData)> {
    collect(module, Some(gradients))
}

/// `module` with parameters by name, in its own layouts: what [`named_parameters`] gave.
///
/// ```
/// use burn::nn::LinearConfig;
/// use burn::tensor::Device;
/// use reprop::{load_parameters, named_parameters, parameter_digest};
///
/// let [a, b] = [1, 2].map(|_| LinearConfig::new(2, 3).init(&Device::flex()));
/// let b = load_parameters(b, named_parameters(&a).into_iter().collect())?;
/// assert_eq!(parameter_digest(&a), parameter_digest(&b));
/// # Ok::<(), reprop::Error>(())
/// ```
///
/// # Errors
///
/// A parameter that is missing or has another shape, or tensors that are left over.
pub fn load_parameters<M: Module>(module: M, tensors: BTreeMap<String, TensorData>) -> Result<M> {
    let mut load = Load { path: Vec::new(), tensors, failed: None };
    let module = module.map(&mut load);
    match (load.failed, load.tensors.into_keys().next()) {
        (Some(error), _) => Err(error),
        (None, Some(name)) => Err(Error::StrangeParameter { name }),
        (None, None) => Ok(module),
    }
}

struct Load {
    path: Vec<String>,
    tensors: BTreeMap<String, TensorData>,
    failed: Option<Error>,
}

impl ModuleMapper for Load {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let name = self.path.join(".");
        let expected = param.lazy_shape().to_vec();
        let failed = match self.tensors.remove(&name) {
            None => Error::MissingParameter { name },
            Some(data) if data.shape().to_vec() != expected => {
                Error::ParameterShape { name, expected, found: data.shape().to_vec() }
            }
            Some(data) => {
                return param.map(|value| {
                    let trained = value.is_require_grad();
                    Tensor::from_data(data, &value.device()).set_require_grad(trained)
                });
            }
        };
        self.failed.get_or_insert(failed);
        param
    }
}

/// Numbers that training changes: all parameters but running statistics, whose names begin with `running_`.
///
/// ```
/// use burn::tensor::Device;
/// use reprop::layers::{ConvBranchConfig, Initial};
///
/// let branch = ConvBranchConfig::basic(2).init(&mut Initial::new(7, &Device::flex()));
/// // Two convolutions with biases, and two norms with scale and shift.
/// assert_eq!(reprop::parameter_count(&branch), 2 * (3 * 3 * 2 * 2 + 2) + 2 * (2 + 2));
/// ```
pub fn parameter_count<M: Module>(module: &M) -> usize {
    let mut count = Count { names: Vec::new(), sum: 0 };
    module.visit(&mut count);
    count.sum
}

struct Count {
    names: Vec<String>,
    sum: usize,
}

impl ModuleVisitor for Count {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.names.push(name.to_owned());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.names.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let is_running = self.names.last().is_some_and(|name| name.starts_with("running_"));
        // The shape alone: the values of a large network need not be made for it.
        self.sum += if is_running { 0 } else { param.lazy_shape().num_elements() };
    }
}

/// A hash over the names and bits of all parameters: equal digests mean equal bits.
pub fn parameter_digest<M: Module>(module: &M) -> String {
    digest(&named_parameters(module))
}

/// A hash over the names and bits of all gradients: equal digests mean equal bits.
pub fn gradient_digest<M: Module>(module: &M, gradients: &GradientsParams) -> String {
    digest(&named_gradients(module, gradients))
}

fn digest(tensors: &[(String, TensorData)]) -> String {
    let mut hash = Xxh3::new();
    for (name, data) in tensors {
        hash.update(name.as_bytes());
        hash.update(&[0]);
        hash.update(data.as_bytes());
    }
    format!("{:032x}", hash.digest128())
}

fn collect<M: Module>(module: &M, gradients: Option<&GradientsParams>) -> Vec<(String, TensorData)> {
    let mut names = Names { path: Vec::new(), gradients, tensors: Vec::new() };
    module.visit(&mut names);
    names.tensors.sort_by(|(a, _), (b, _)| a.cmp(b));
    names.tensors
}

struct Names<'g> {
    path: Vec<String>,
    /// Gradients to look up, or `None` to take the parameters themselves.
    gradients: Option<&'g GradientsParams>,
    tensors: Vec<(String, TensorData)>,
}

impl ModuleVisitor for Names<'_> {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let value = match self.gradients {
            Some(gradients) => gradients.get::<D>(param.id),
            None => Some(param.val().inner()),
        };
        if let Some(value) = value {
            self.tensors.push((self.path.join("."), value.into_data()));
        }
    }
}
