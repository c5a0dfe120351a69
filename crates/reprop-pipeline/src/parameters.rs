//! Parameters of a stage by name.

use std::collections::{HashMap, HashSet};

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::{Device, Tensor, TensorData};
use reprop::{Gradients, Statistics};

/// A parameter on its way to or from a record or another stage.
pub(crate) struct Named {
    pub name: String,
    pub id: ParamId,
    pub data: TensorData,
}

/// The parameters of `module` whose numbers are in `own`.
pub(crate) fn named<M: Module>(module: &M, own: &HashSet<ParamId>) -> Vec<Named> {
    struct Visitor<'o> {
        path: Vec<String>,
        own: &'o HashSet<ParamId>,
        found: Vec<Named>,
    }
    impl ModuleVisitor for Visitor<'_> {
        fn enter_module(&mut self, name: &str, _: &str) {
            self.path.push(name.to_owned());
        }

        fn exit_module(&mut self, _: &str, _: &str) {
            self.path.pop();
        }

        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if self.own.contains(&param.id) {
                let data = param.val().inner().into_data();
                self.found.push(Named { name: self.path.join("."), id: param.id, data });
            }
        }
    }
    let mut visitor = Visitor { path: Vec::new(), own, found: Vec::new() };
    module.visit(&mut visitor);
    visitor.found
}

/// The running statistics of `module` that were observed.
pub(crate) fn observed<M: Module>(module: &M, statistics: &Statistics) -> HashSet<ParamId> {
    struct Visitor<'s>(&'s Statistics, HashSet<ParamId>);
    impl ModuleVisitor for Visitor<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if self.0.observes(param.id) {
                self.1.insert(param.id);
            }
        }
    }
    let mut visitor = Visitor(statistics, HashSet::new());
    module.visit(&mut visitor);
    visitor.1
}

/// `module` with the values, and if `renumber` the numbers, of these parameters; or the name of one that does not fit.
pub(crate) fn load<M: Module>(module: M, parameters: Vec<Named>, renumber: bool) -> Result<M, String> {
    struct Mapper {
        path: Vec<String>,
        values: HashMap<String, (ParamId, TensorData)>,
        renumber: bool,
        misfit: Option<String>,
    }
    impl ModuleMapper for Mapper {
        fn enter_module(&mut self, name: &str, _: &str) {
            self.path.push(name.to_owned());
        }

        fn exit_module(&mut self, _: &str, _: &str) {
            self.path.pop();
        }

        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let name = self.path.join(".");
            let Some((number, data)) = self.values.remove(&name) else { return param };
            if data.shape()[..] != param.lazy_shape()[..] {
                self.misfit =
                    Some(format!("{name} has shape {:?}, found {:?}", param.lazy_shape(), data.shape()));
                return param;
            }
            let (id, value, mapper) = param.consume();
            let loaded = Tensor::from_data(data, &value.device()).set_require_grad(value.is_require_grad());
            Param::from_mapped_value(if self.renumber { number } else { id }, loaded, mapper)
        }
    }
    let values = parameters.into_iter().map(|Named { name, id, data }| (name, (id, data))).collect();
    let mut mapper = Mapper { path: Vec::new(), values, renumber, misfit: None };
    let module = module.map(&mut mapper);
    match (mapper.misfit, mapper.values.into_keys().next()) {
        (Some(misfit), _) => Err(misfit),
        (None, Some(strange)) => Err(format!("the network has no parameter {strange}")),
        (None, None) => Ok(module),
    }
}

/// Adds gradients by name; or the name of one that does not fit.
pub(crate) fn add_gradients<M: Module>(
    module: &M,
    values: HashMap<String, TensorData>,
    device: &Device,
    gradients: &mut Gradients,
) -> Result<(), String> {
    struct Visitor<'g> {
        path: Vec<String>,
        values: HashMap<String, TensorData>,
        device: &'g Device,
        gradients: &'g mut Gradients,
    }
    impl ModuleVisitor for Visitor<'_> {
        fn enter_module(&mut self, name: &str, _: &str) {
            self.path.push(name.to_owned());
        }

        fn exit_module(&mut self, _: &str, _: &str) {
            self.path.pop();
        }

        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let name = self.path.join(".");
            let fits = self.values.get(&name).is_some_and(|data| data.shape()[..] == param.lazy_shape()[..]);
            if fits && let Some(data) = self.values.remove(&name) {
                self.gradients.add(param, || Tensor::from_data(data, self.device));
            }
        }
    }
    let mut visitor = Visitor { path: Vec::new(), values, device, gradients };
    module.visit(&mut visitor);
    visitor
        .values
        .into_keys()
        .next()
        .map_or(Ok(()), |name| Err(format!("the gradient of {name} does not fit")))
}
