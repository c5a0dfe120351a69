//! Operands and counters that all topics share.

use divan::counter::{BytesCount, ItemsCount};
use reprop_kernels::heap::{self, Values};
use reprop_kernels::layer_norm::{LayerNorm, NormGrads};

use crate::units::random::Random;

/// Rows of a batch of 8 samples of ViT-S.
pub const ROWS: usize = 8 * 197;

/// Numbers in `-1..1`.
pub fn data(len: usize) -> Values {
    Random::new().values(len, 1.0)
}

/// A weight of a linear layer: outputs stay about as large as inputs, so that no softmax or gate is saturated.
pub fn weight(len: usize) -> Values {
    Random::new().values(len, 0.04)
}

/// Memory for results.
pub fn blank<const N: usize>(lens: [usize; N]) -> [Values; N] {
    lens.map(heap::blank)
}

pub fn bytes(floats: usize) -> BytesCount {
    BytesCount::new(4 * floats)
}

pub fn flops(count: usize) -> ItemsCount {
    ItemsCount::new(count)
}

/// Parameters of a layer norm, or their gradients.
pub struct Norm {
    scale: Values,
    bias: Values,
}

impl Norm {
    pub fn new(width: usize) -> Self {
        let mut scale = heap::zeros(width);
        scale.fill(1.0);
        Self { scale, bias: heap::zeros(width) }
    }

    pub fn kernel(&self) -> LayerNorm<'_> {
        LayerNorm { scale: &self.scale, bias: &self.bias, eps: 1e-6 }
    }

    pub fn grads(&mut self) -> NormGrads<'_> {
        NormGrads { scale: &mut self.scale, bias: &mut self.bias }
    }
}
