//! Attention between given heads, on Burn's operations, and its derivative.
//!
//! ```text
//! p = softmax(change(q k^T / sqrt(e))),   o = p v
//! dv = p^T do,   dp = do v^T,   ds = p * (dp - sum(do * o)),   dq = ds k / sqrt(e),   dk = ds^T q / sqrt(e)
//! ```
//! with `e` the width of a head. Queries may be more or fewer than keys and values.

use burn::tensor::{Tensor, activation::softmax};

use crate::Precision;

/// Queries, keys, values or scores of heads: `[samples, heads, tokens, _]`.
pub type Heads = Tensor<4>;

/// Scores of what must not be looked at. Finite, so that no difference of two of them is `NaN`, within the range of half
/// floats, and far enough for a probability of exactly zero.
pub const HIDDEN: f32 = -6e4;

/// The probabilities, and `o`; `change` adds biases and masks to the scores.
pub fn attend(
    [q, k, v]: [Heads; 3],
    change: impl FnOnce(Heads) -> Heads,
    precision: Precision,
) -> (Heads, Heads) {
    let scale = scale(&q);
    let scores = change(Precision::F32.cast(q.mul_scalar(scale).matmul(k.transpose())));
    let probabilities = precision.cast(softmax(scores, 3));
    (probabilities.clone(), probabilities.matmul(v))
}

/// Gradients of queries, keys, values and of the changed scores, from `doutput`, that of `o`.
pub fn attend_vjp(
    [q, k, v]: [Heads; 3],
    probabilities: Heads,
    output: Heads,
    doutput: Heads,
) -> ([Heads; 3], Heads) {
    let scale = scale(&q);
    let mean = (doutput.clone() * output).sum_dim(3);
    let dv = probabilities.clone().transpose().matmul(doutput.clone());
    let ds = (doutput.matmul(v.transpose()) - mean) * probabilities;
    let dq = ds.clone().matmul(k).mul_scalar(scale);
    let dk = ds.clone().transpose().matmul(q).mul_scalar(scale);
    ([dq, dk, dv], ds)
}

fn scale(heads: &Heads) -> f64 {
    (heads.dims()[3] as f64).sqrt().recip()
}

/// Heads of rows `[samples * tokens, heads * e]`.
pub fn split(rows: Tensor<2>, samples: usize, heads: usize) -> Heads {
    let [count, width] = rows.dims();
    rows.reshape([samples, count / samples, heads, width / heads]).swap_dims(1, 2)
}

/// Rows `[samples * tokens, heads * e]` of heads.
pub fn join(heads: Heads) -> Tensor<2> {
    let [samples, count, tokens, width] = heads.dims();
    heads.swap_dims(1, 2).reshape([samples * tokens, count * width])
}
