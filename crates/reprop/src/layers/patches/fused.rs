//! The stem on fused kernels: saved are the patches and, before a norm, the tokens with their statistics.

use burn::tensor::Tensor;
use rayon::prelude::*;
use reprop_kernels::conv::{Images, Slide};
use reprop_kernels::gemm::{Mat, Product, gemm};
use reprop_kernels::heap::blank;
use reprop_kernels::layer_norm::{LayerNorm, NormGrads};
use reprop_kernels::linear;
use reprop_kernels::output::Base;
use reprop_kernels::patches::cut;

use super::Patches;
use crate::kernels::{Floats, Grad, Packed, Use, modify, tensor};
use crate::layers::norm::EPSILON;
use crate::{Context, Gradients};

/// Floats that one task adds.
const PART: usize = 1 << 14;

impl Patches {
    /// Whether it runs on fused kernels.
    pub(super) fn fuses(&self, context: &Context<'_>) -> bool {
        self.projection.bias.is_some()
            && self.norm.as_ref().is_none_or(|norm| norm.beta.is_some())
            && context.fuses(&self.projection.weight.val().inner().device())
    }

    /// `[batch, channels, image, image] -> [batch * tokens, channels * kernel * kernel]`
    pub(super) fn fused_cut(&self, images: Tensor<4>) -> Tensor<2> {
        let [batch, channels, height, width] = images.dims();
        let (rows, pixels) = (batch * self.grid().pow(2), channels * self.kernel.pow(2));
        // Squares of a patch's side leave no border, and larger ones are centred.
        let padding = if self.kernel > self.patch { self.kernel / 2 } else { 0 };
        let slide = Slide { kernel: self.kernel, stride: self.patch, padding };
        let mut patches = blank(rows * pixels);
        cut(Images { batch, height, width }, slide, channels, &Floats::of(images), &mut patches);
        tensor(patches, [rows, pixels])
    }

    /// Tokens of cut images, and what a norm's derivative needs.
    pub(super) fn fused_tokens(
        &self,
        patches: Tensor<2>,
        batch: usize,
        context: &Context<'_>,
    ) -> (Tensor<3>, Option<(Tensor<3>, Tensor<3>)>) {
        let ([rows, _], width, workspace) = (patches.dims(), self.width, context.fused());
        let (dims, memory) = ([batch, rows / batch, width], workspace.kernels());
        let bias = self.projection.bias.as_ref().map(Floats::param);
        let weight = Packed::new(&self.projection.weight, Use::Forward, workspace);
        let mut tokens = blank(rows * width);
        linear::forward(memory, &weight.forward, bias.as_deref(), &Floats::of(patches), &mut tokens, rows);
        if let Some(positions) = &self.positions {
            let positions = Floats::param(positions);
            tokens.par_chunks_mut(positions.len()).for_each(|sample| add(sample, &positions));
        }
        let Some(norm) = self.fused_norm() else { return (tensor(tokens, dims), None) };
        let (mut y, mut statistics) = (blank(rows * width), blank(2 * rows));
        norm.kernel().forward(&tokens, &mut y, &mut statistics, memory);
        (tensor(y, dims), Some((tensor(tokens, dims), tensor(statistics, [batch, rows / batch, 2]))))
    }

    /// The sum of both streams' gradients, through the norm if there is one.
    pub(super) fn fused_tokens_vjp(
        &self,
        normed: Option<(Tensor<3>, Tensor<3>)>,
        (dx1, dx2): (Tensor<3>, Tensor<3>),
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Tensor<3> {
        let dims = dx1.dims();
        let dx2 = Floats::of(dx2);
        let (dy, ()) = modify(dx1, |sum| {
            sum.par_chunks_mut(PART).zip(dx2.par_chunks(PART)).for_each(|(sum, dx2)| add(sum, dx2));
        });
        let (Some(norm), Some((tokens, statistics))) = (self.fused_norm(), normed) else { return dy };
        let Some((gamma, beta)) =
            self.norm.as_ref().and_then(|norm| Some((&norm.gamma, norm.beta.as_ref()?)))
        else {
            unreachable!("a fused norm has its bias")
        };
        let (mut d_scale, mut d_bias) = (Grad::of(gamma), Grad::of(beta));
        let mut d_tokens = blank(dims.iter().product());
        let grads = NormGrads { scale: &mut d_scale, bias: &mut d_bias };
        let (tokens, statistics, dy) = (Floats::of(tokens), Floats::of(statistics), Floats::of(dy));
        let memory = context.fused().kernels();
        norm.kernel().vjp(&tokens, &statistics, &dy, &mut d_tokens, Base::Nothing, grads, memory);
        d_scale.add_to(gradients);
        d_bias.add_to(gradients);
        tensor(d_tokens, dims)
    }

    /// Gradients of the projection.
    pub(super) fn fused_projection_vjp(
        &self,
        patches: Tensor<2>,
        d_tokens: Tensor<2>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) {
        let ([rows, inputs], [_, width]) = (patches.dims(), d_tokens.dims());
        let (patches, d_tokens) = (Floats::of(patches), Floats::of(d_tokens));
        let mut d_weight = Grad::of(&self.projection.weight);
        let mut d_bias = self.projection.bias.as_ref().map(Grad::of);
        let product = Product {
            a: Mat::new(&patches, rows, inputs).t(),
            b: Mat::new(&d_tokens, rows, width),
            c: &mut d_weight,
            accumulate: false,
            column_sums: d_bias.as_deref_mut(),
        };
        gemm(context.fused().kernels(), product);
        d_weight.add_to(gradients);
        if let Some(d_bias) = d_bias {
            d_bias.add_to(gradients);
        }
    }

    fn fused_norm(&self) -> Option<Norm> {
        let norm = self.norm.as_ref()?;
        Some(Norm { scale: Floats::param(&norm.gamma), bias: Floats::param(norm.beta.as_ref()?) })
    }
}

/// Parameters of the norm as the kernel takes them.
struct Norm {
    scale: Floats,
    bias: Floats,
}

impl Norm {
    fn kernel(&self) -> LayerNorm<'_> {
        LayerNorm { scale: &self.scale, bias: &self.bias, eps: EPSILON as f32 }
    }
}

fn add(sum: &mut [f32], x: &[f32]) {
    sum.iter_mut().zip(x).for_each(|(sum, x)| *sum += x);
}
