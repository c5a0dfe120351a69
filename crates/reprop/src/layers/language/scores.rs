//! Scores of tokens, `logits = f S^T + b`, their loss, and the derivative: the largest products of a language model, on fused
//! kernels on the CPU and on Burn's operations elsewhere.

use burn::module::Param;
use burn::tensor::activation::log_softmax;
use burn::tensor::{IndexingUpdateOp, Int, Tensor, TensorData};
use reprop_kernels::Workspace;
use reprop_kernels::cross_entropy::cross_entropy;
use reprop_kernels::gemm::{Mat, Product, gemm};
use reprop_kernels::heap::blank;
use reprop_kernels::linear::forward_once;

use super::super::linear::value;
use crate::kernels::{Floats, tensor};
use crate::{Context, Gradients, Precision};

/// The table that scores come from, and their bias.
#[derive(Clone, Copy)]
pub(super) struct Scores<'a> {
    /// `[vocabulary, width]`.
    pub table: &'a Param<Tensor<2>>,
    /// `[vocabulary]`.
    pub bias: &'a Param<Tensor<1>>,
}

impl Scores<'_> {
    fn fuses(self, context: &Context<'_>) -> bool {
        context.fuses(&self.bias.val().inner().device())
    }

    /// `[rows, width] -> [rows, vocabulary]`
    pub fn forward(self, features: Tensor<2>, context: &Context<'_>) -> Tensor<2> {
        if !self.fuses(context) {
            let logits = features.matmul(value(self.table, Precision::F32).transpose());
            return logits + value(self.bias, Precision::F32).unsqueeze();
        }
        let ([rows, width], [vocabulary, _]) = (features.dims(), self.table.dims());
        let (features, table, bias) =
            (Floats::of(features), Floats::param(self.table), Floats::param(self.bias));
        let mut logits = blank(rows * vocabulary);
        let weight = Mat::new(&table, vocabulary, width).t();
        forward_once(context.fused().kernels(), weight, &bias, &features, &mut logits, rows);
        tensor(logits, [rows, vocabulary])
    }

    /// The mean loss of rows whose tokens are these, and its gradient.
    pub fn loss(self, logits: Tensor<2>, tokens: Vec<i64>, context: &Context<'_>) -> (Tensor<1>, Tensor<2>) {
        let (count, device, dims) = (tokens.len(), logits.device(), logits.dims());
        if self.fuses(context) {
            let tokens: Vec<u32> = tokens.into_iter().map(|token| token as u32).collect();
            let logits = Floats::of(logits);
            let mut d = blank(logits.len());
            let loss = cross_entropy(&logits, &tokens, dims[1], 0.0, &mut d, context.fused().kernels());
            return (tensor(vec![loss], [1]), tensor(d, dims));
        }
        let tokens = Tensor::<2, Int>::from_data(TensorData::new(tokens, [count, 1]), &device);
        let log_probabilities = log_softmax(logits, 1);
        let total = log_probabilities.clone().gather(1, tokens.clone()).sum_dim(0);
        let loss = total.reshape([1]).mul_scalar(-1.0 / count as f64);
        let ones = Tensor::ones([count, 1], &device).neg();
        let surplus = log_probabilities.exp().scatter(1, tokens, ones, IndexingUpdateOp::Add);
        (loss, surplus.mul_scalar(1.0 / count as f64))
    }

    /// From the gradient of the scores that of the features.
    pub fn vjp(
        self,
        features: impl FnOnce() -> Tensor<2>,
        dlogits: Tensor<2>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Tensor<2> {
        gradients.add(self.bias, || dlogits.clone().sum_dim(0).squeeze_dim(0));
        if !self.fuses(context) {
            gradients.add(self.table, || dlogits.clone().transpose().matmul(features()));
            return dlogits.matmul(value(self.table, Precision::F32));
        }
        let ([rows, vocabulary], [_, width]) = (dlogits.dims(), self.table.dims());
        let (dlogits, memory) = (Floats::of(dlogits), context.fused().kernels());
        let d = Mat::new(&dlogits, rows, vocabulary);
        gradients.add(self.table, || {
            let features = Floats::of(features());
            times(d.t(), Mat::new(&features, rows, width), [vocabulary, width], memory)
        });
        let table = Floats::param(self.table);
        times(d, Mat::new(&table, vocabulary, width), [rows, width], memory)
    }
}

/// `a b`, of shape `dims`.
fn times(a: Mat<'_>, b: Mat<'_>, dims: [usize; 2], memory: &Workspace) -> Tensor<2> {
    let mut c = blank(dims[0] * dims[1]);
    gemm(memory, Product { a, b, c: &mut c, accumulate: false, column_sums: None });
    tensor(c, dims)
}
