//! Filters of a 3x3 convolution in the order in which kernels read them.

use std::ops::Deref;

use burn::module::Param;
use burn::tensor::Tensor;
use reprop_kernels::conv::{Stride, WinogradWeight};

use super::{Floats, Use, Workspace};

/// Filters transformed for one call of one sub-block, as [`Packed`](super::Packed) is; their memory goes back to the
/// workspace.
#[derive(Debug)]
pub(crate) struct Filters {
    /// Empty only while it is dropped.
    weight: Option<WinogradWeight>,
    home: Workspace,
}

/// Matrices of transformed filters, for each of nine taps.
const GROWTH: usize = 4;

impl Filters {
    /// From filters of 3 x 3 x inputs x outputs.
    pub fn new(param: &Param<Tensor<4>>, stride: Stride, usage: Use, home: &Workspace) -> Self {
        let [_, _, inputs, outputs] = param.dims();
        let values = Floats::param(param);
        let blank = |k, n| home.blank(k, n);
        let transposed = match usage {
            Use::Forward => false,
            Use::Vjp => true,
            Use::Reverse => unreachable!("a convolution is recovered and differentiated one after the other"),
        };
        let shape = (inputs, outputs);
        let weight = WinogradWeight::half(stride, &values, shape, transposed, blank, home.kernels());
        Self { weight: Some(weight), home: home.clone() }
    }

    /// Bytes of transformed filters.
    pub fn bytes(inputs: usize, outputs: usize) -> u64 {
        (GROWTH * 9 * inputs * outputs * size_of::<f32>()) as u64
    }
}

impl Deref for Filters {
    type Target = WinogradWeight;

    fn deref(&self) -> &WinogradWeight {
        self.weight.as_ref().expect("empty only while it is dropped")
    }
}

impl Drop for Filters {
    fn drop(&mut self) {
        let matrices = self.weight.take().into_iter().flat_map(WinogradWeight::into_packed);
        for packed in matrices.filter(|packed| !packed.is_shape_only()) {
            self.home.take_back(packed);
        }
    }
}
