//! The pool of pooled attention: a depthwise 3x3 convolution, the same for each head, and a norm over a head's width.

use burn::module::{Module, Param};
use burn::nn::LayerNorm;
use burn::tensor::Tensor;
use burn::tensor::module::{conv_transpose2d, conv2d, conv2d_weight_backward};
use burn::tensor::ops::{ConvOptions, ConvTransposeOptions};

use super::super::Initial;
use super::super::heads::Heads;
use super::super::linear::value;
use super::super::norm::{affine, norm_vjp, normalise};
use crate::{Gradients, Precision};

/// Side of the convolutions.
const KERNEL: usize = 3;

/// A depthwise convolution, the same for each head, and a norm over a head's width.
#[derive(Module, Debug)]
pub struct Pool {
    /// `[head width, 1, 3, 3]`.
    pub weight: Param<Tensor<4>>,
    /// Over a head's width.
    pub norm: LayerNorm,
    stride: usize,
}

/// The convolution's result normalised, and its scale.
pub(super) type PoolSaved = (Heads, Heads);

impl Pool {
    pub(super) fn new(head: usize, stride: usize, initial: &mut Initial) -> Self {
        Self { weight: initial.truncated_normal([head, 1, KERNEL, KERNEL]), norm: initial.norm(head), stride }
    }

    /// Distance between places.
    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    /// Tokens along a side after it.
    pub(super) fn side(&self, side: usize) -> usize {
        side.div_ceil(self.stride)
    }

    /// `[batch, heads, side * side, e] -> [batch, heads, tokens, e]`
    pub(super) fn forward(&self, x: Heads, side: usize, precision: Precision) -> (Heads, PoolSaved) {
        let dims = x.dims();
        let z = conv2d(images(x, side), value(&self.weight, precision), None, self.options(dims[3]));
        let (normalised, scale) = normalise(Precision::F32.cast(heads(z, dims)));
        (self.again(normalised.clone(), precision), (normalised, scale))
    }

    /// What [`Self::forward`] gave.
    pub(super) fn again(&self, normalised: Heads, precision: Precision) -> Heads {
        precision.cast(affine(normalised, &self.norm))
    }

    /// From the gradient of the result that of `x`.
    pub(super) fn vjp(
        &self,
        x: Heads,
        (normalised, scale): PoolSaved,
        dy: Heads,
        side: usize,
        precision: Precision,
        gradients: &mut Gradients,
    ) -> Heads {
        let (dims, width) = (x.dims(), x.dims()[3]);
        let dz = norm_vjp(normalised, scale, Precision::F32.cast(dy), &self.norm, gradients);
        let dz = images(precision.cast(dz), self.side(side));
        gradients.add(&self.weight, || {
            let weight = value(&self.weight, precision);
            conv2d_weight_backward(images(x, side), weight, dz.clone(), self.options(width))
        });
        let dx = conv_transpose2d(dz, value(&self.weight, precision), None, self.transposed(side, width));
        heads(dx, dims)
    }

    fn options(&self, width: usize) -> ConvOptions<2> {
        ConvOptions::new([self.stride; 2], [KERNEL / 2; 2], [1; 2], width)
    }

    fn transposed(&self, side: usize, width: usize) -> ConvTransposeOptions<2> {
        // Tokens at the end that no place of a strided convolution reached.
        let rest = (side - 1) % self.stride;
        ConvTransposeOptions::new([self.stride; 2], [KERNEL / 2; 2], [rest; 2], [1; 2], width)
    }
}

/// `[batch, heads, side * side, e] -> [batch * heads, e, side, side]`
fn images(x: Heads, side: usize) -> Tensor<4> {
    let [batch, heads, _, width] = x.dims();
    x.swap_dims(2, 3).reshape([batch * heads, width, side, side])
}

/// The inverse of [`images`], for `batch` and `heads` of `dims`.
fn heads(x: Tensor<4>, [batch, heads, _, width]: [usize; 4]) -> Heads {
    let [_, _, rows, columns] = x.dims();
    x.reshape([batch, heads, width, rows * columns]).swap_dims(2, 3)
}
