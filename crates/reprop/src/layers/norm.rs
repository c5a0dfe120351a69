//! Layer norm over the last axis, and its derivative.
//!
//! ```text
//! n = (x - mean) * r,   r = 1 / sqrt(var + eps),   y = n * gamma + beta
//! dn = dy * gamma,      dx = r * (dn - mean(dn) - n * mean(dn * n))
//! ```

use burn::nn::LayerNorm;
use burn::tensor::Tensor;

use crate::{Gradients, Precision};

use super::linear::value;

/// Of all networks here.
pub const EPSILON: f64 = 1e-6;

/// The normalised input, and `r`.
pub fn normalise<const D: usize>(x: Tensor<D>) -> (Tensor<D>, Tensor<D>) {
    let centred = x.clone() - x.mean_dim(D - 1);
    let variance = centred.clone().square().mean_dim(D - 1);
    let scale = variance.add_scalar(EPSILON).sqrt().recip();
    (centred * scale.clone(), scale)
}

/// `n * gamma + beta`.
pub fn affine<const D: usize>(normalised: Tensor<D>, norm: &LayerNorm) -> Tensor<D> {
    let y = normalised * value(&norm.gamma, Precision::F32).unsqueeze();
    match &norm.beta {
        Some(beta) => y + value(beta, Precision::F32).unsqueeze(),
        None => y,
    }
}

/// `dx`, and gradients of gamma and beta.
pub fn norm_vjp<const D: usize>(
    normalised: Tensor<D>,
    scale: Tensor<D>,
    dy: Tensor<D>,
    norm: &LayerNorm,
    gradients: &mut Gradients,
) -> Tensor<D> {
    gradients.add(&norm.gamma, || sum_rows(dy.clone() * normalised.clone()));
    if let Some(beta) = &norm.beta {
        gradients.add(beta, || sum_rows(dy.clone()));
    }
    let dn = dy * value(&norm.gamma, Precision::F32).unsqueeze();
    let mean = dn.clone().mean_dim(D - 1);
    let projection = (dn.clone() * normalised.clone()).mean_dim(D - 1);
    (dn - mean - normalised * projection) * scale
}

/// The sum over all axes but the last.
fn sum_rows<const D: usize>(x: Tensor<D>) -> Tensor<1> {
    let dims = x.dims();
    let width = dims[D - 1];
    x.reshape([dims[..D - 1].iter().product(), width]).sum_dim(0).squeeze_dim(0)
}
