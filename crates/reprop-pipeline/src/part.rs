//! The part of a network that one stage changes.
//!
//! A stage holds the whole module, but of its parameters only its own have values: the others are never asked for, and
//! Burn makes them when they are. What goes through a whole module, as optimizers do, would ask; so it sees this part.

use std::collections::HashSet;

use burn::module::{Devices, Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Bool, Device, Int, Tensor};

/// A module of which only some parameters are seen.
#[derive(Clone, Debug)]
struct Part<M> {
    module: M,
    seen: HashSet<ParamId>,
}

/// Steps the parameters that have a gradient, and asks for no others.
pub(crate) fn step<M: Module>(
    optimizer: &mut ModuleOptimizer,
    rate: f64,
    module: M,
    gradients: GradientsParams,
) -> M {
    let seen = with_gradient(&module, &gradients);
    optimizer.step(rate, Part { module, seen }, gradients).module
}

/// The parameters of `module` that have a gradient.
pub(crate) fn with_gradient<M: Module>(module: &M, gradients: &GradientsParams) -> HashSet<ParamId> {
    struct WithGradient<'g>(&'g GradientsParams, HashSet<ParamId>);
    impl ModuleVisitor for WithGradient<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if self.0.get::<D>(param.id).is_some() {
                self.1.insert(param.id);
            }
        }
    }
    let mut visitor = WithGradient(gradients, HashSet::new());
    module.visit(&mut visitor);
    visitor.1
}

struct Only<'a, T> {
    inner: &'a mut T,
    seen: &'a HashSet<ParamId>,
}

impl<V: ModuleVisitor> ModuleVisitor for Only<'_, V> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.seen.contains(&param.id) {
            self.inner.visit_float(param);
        }
    }

    fn enter_module(&mut self, name: &str, container_type: &str) {
        self.inner.enter_module(name, container_type);
    }

    fn exit_module(&mut self, name: &str, container_type: &str) {
        self.inner.exit_module(name, container_type);
    }
}

impl<T: ModuleMapper> ModuleMapper for Only<'_, T> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if self.seen.contains(&param.id) { self.inner.map_float(param) } else { param }
    }

    fn map_int<const D: usize>(&mut self, param: Param<Tensor<D, Int>>) -> Param<Tensor<D, Int>> {
        param
    }

    fn map_bool<const D: usize>(&mut self, param: Param<Tensor<D, Bool>>) -> Param<Tensor<D, Bool>> {
        param
    }

    fn enter_module(&mut self, name: &str, container_type: &str) {
        self.inner.enter_module(name, container_type);
    }

    fn exit_module(&mut self, name: &str, container_type: &str) {
        self.inner.exit_module(name, container_type);
    }
}

impl<M: Module> Module for Part<M> {
    fn collect_devices(&self, devices: Devices) -> Devices {
        self.module.collect_devices(devices)
    }

    fn fork(self, device: &Device) -> Self {
        Self { module: self.module.fork(device), ..self }
    }

    fn to_device(self, device: &Device) -> Self {
        Self { module: self.module.to_device(device), ..self }
    }

    fn visit<V: ModuleVisitor>(&self, visitor: &mut V) {
        self.module.visit(&mut Only { inner: visitor, seen: &self.seen });
    }

    fn map<T: ModuleMapper>(self, mapper: &mut T) -> Self {
        let module = self.module.map(&mut Only { inner: mapper, seen: &self.seen });
        Self { module, ..self }
    }

    fn train(self) -> Self {
        Self { module: self.module.train(), ..self }
    }

    fn valid(&self) -> Self {
        Self { module: self.module.valid(), seen: self.seen.clone() }
    }

    fn materialize(self) -> Self {
        Self { module: self.module.materialize(), ..self }
    }
}
