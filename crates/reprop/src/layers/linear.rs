//! `y = x W + b` on rows, and its derivative.

use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::Tensor;

use crate::{Gradients, Precision};

/// A parameter's value off any graph, in the precision of the computation.
pub fn value<const D: usize>(param: &Param<Tensor<D>>, precision: Precision) -> Tensor<D> {
    precision.cast(param.val().inner())
}

/// `x W + b`.
///
/// # Shapes
///
/// `[rows, inputs] -> [rows, outputs]`
pub fn linear(x: Tensor<2>, layer: &Linear, precision: Precision) -> Tensor<2> {
    let y = x.matmul(value(&layer.weight, precision));
    match &layer.bias {
        Some(bias) => y + value(bias, precision).unsqueeze(),
        None => y,
    }
}

/// `dx = dy W^T`, and `dW = x^T dy`, `db = sum of rows of dy`.
pub fn linear_vjp(
    x: impl FnOnce() -> Tensor<2>,
    dy: Tensor<2>,
    layer: &Linear,
    precision: Precision,
    gradients: &mut Gradients,
) -> Tensor<2> {
    linear_weights_vjp(x, &dy, layer, gradients);
    linear_input_vjp(dy, layer, precision)
}

/// `dW = x^T dy`, `db = sum of rows of dy`.
pub fn linear_weights_vjp(
    x: impl FnOnce() -> Tensor<2>,
    dy: &Tensor<2>,
    layer: &Linear,
    gradients: &mut Gradients,
) {
    gradients.add(&layer.weight, || x().transpose().matmul(dy.clone()));
    if let Some(bias) = &layer.bias {
        gradients.add(bias, || dy.clone().sum_dim(0).squeeze_dim(0));
    }
}

/// `dx = dy W^T`.
pub fn linear_input_vjp(dy: Tensor<2>, layer: &Linear, precision: Precision) -> Tensor<2> {
    dy.matmul(value(&layer.weight, precision).transpose())
}
