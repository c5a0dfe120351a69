//! The two residual streams that flow through a reversible network.

use burn::tensor::Tensor;

use crate::{Saved, Storing};

/// The pair `(X1, X2)` of a coupling, or the pair of gradients with respect to it.
///
/// # Shapes
///
/// Both of one shape, whose first axis is the batch.
#[derive(Clone, Debug)]
pub struct Streams<const D: usize> {
    /// `X1`, the stream that F adds to.
    pub x1: Tensor<D>,
    /// `X2`, the stream that G adds to.
    pub x2: Tensor<D>,
}

impl<const D: usize> Streams<D> {
    /// The pair of two tensors.
    pub fn new(x1: Tensor<D>, x2: Tensor<D>) -> Self {
        Self { x1, x2 }
    }

    /// The pair `(x, x)`, as vision transformers begin.
    pub fn duplicate(x: Tensor<D>) -> Self {
        Self { x1: x.clone(), x2: x }
    }

    /// The shape of each stream.
    pub fn dims(&self) -> [usize; D] {
        self.x1.dims()
    }
}

impl<const D: usize> Saved for Streams<D> {
    fn bytes(&self) -> u64 {
        self.x1.bytes() + self.x2.bytes()
    }

    fn store(&mut self, storing: &Storing<'_>) {
        self.x1.store(storing);
        self.x2.store(storing);
    }
}
