//! Gradients of parameters as kernels write them.

use std::ops::{Deref, DerefMut};

use burn::module::Param;
use burn::tensor::Tensor;
use reprop_kernels::heap::{Values, blank, zeros};

use super::tensor;
use crate::Gradients;

/// Memory for the gradient of one parameter. Kernels write it also where the parameter is frozen.
pub(crate) struct Grad<'p, const D: usize> {
    param: &'p Param<Tensor<D>>,
    values: Values,
}

impl<'p, const D: usize> Grad<'p, D> {
    /// For a kernel to write: what it holds before is unspecified.
    pub fn of(param: &'p Param<Tensor<D>>) -> Self {
        Self { param, values: blank(param.shape().num_elements()) }
    }

    /// The gradient of a parameter that changes nothing.
    pub fn zero(param: &'p Param<Tensor<D>>) -> Self {
        Self { param, values: zeros(param.shape().num_elements()) }
    }

    /// Adds it to those of the pass.
    pub fn add_to(self, gradients: &mut Gradients) {
        let Self { param, values } = self;
        gradients.add(param, || tensor(values, param.dims()));
    }
}

impl<const D: usize> Deref for Grad<'_, D> {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.values
    }
}

impl<const D: usize> DerefMut for Grad<'_, D> {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }
}
