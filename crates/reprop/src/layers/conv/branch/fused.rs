//! The basic branch on one fused kernel: saved are the input, both convolutions' outputs and their moments.
//!
//! The kernel knows no biases: in training the norms take them out, and evaluation takes them out of the running means.
//! Its derivative is training's; evaluation's goes layer by layer, from the input alone.

use burn::tensor::Tensor;
use reprop_kernels::batch_norm::{BatchNorm, BatchNormGrads, Moments};
use reprop_kernels::conv::{Branch, BranchSaved, ConvNorm as Layer, ConvNormGrads, Images, Stride};
use reprop_kernels::grid::GridOverflow;
use reprop_kernels::output::{Base, Output};

use super::super::ConvNorm;
use super::super::batch_norm::EPSILON;
use super::super::unit::observe;
use super::ConvBranch;
use crate::kernels::{Filters, Floats, Grad, Use, lent};
use crate::layers::ways::{BurnWay, FusedParts, FusedSaved, FusedScratch, FusedWay, KernelLens};
use crate::{Context, Gradients, Workspace};

/// Parameters as the kernel takes them.
pub struct Parts<'p> {
    workspace: &'p Workspace,
    images: Images,
    layers: [LayerParts; 2],
    /// Running statistics, in evaluation.
    moments: Option<[Moments; 2]>,
}

struct LayerParts {
    weight: Filters,
    scale: Floats,
    bias: Floats,
}

impl LayerParts {
    fn kernel(&self) -> Layer<'_> {
        let norm = BatchNorm { scale: &self.scale, bias: &self.bias, eps: EPSILON as f32 };
        Layer { weight: &self.weight, norm }
    }
}

/// The gradients of one layer.
struct LayerGrads<'p> {
    weight: Grad<'p, 4>,
    scale: Grad<'p, 1>,
    bias: Grad<'p, 1>,
}

impl<'p> LayerGrads<'p> {
    fn of(ConvNorm { conv, norm }: &'p ConvNorm) -> Self {
        Self { weight: Grad::of(&conv.weight), scale: Grad::of(&norm.gamma), bias: Grad::of(&norm.beta) }
    }

    fn kernel(&mut self) -> ConvNormGrads<'_> {
        let norm = BatchNormGrads { scale: &mut self.scale, bias: &mut self.bias };
        ConvNormGrads { weight: &mut self.weight, norm }
    }
}

impl ConvBranch {
    /// The two layers, if this is a branch that the kernel knows.
    fn basic(&self) -> Option<[&ConvNorm; 2]> {
        let [first, second] = self.layers.as_slice() else { return None };
        let known = |layer: &ConvNorm| {
            let [_, _, inputs, outputs] = layer.conv.weight.lazy_shape().dims();
            layer.conv.is_winograd() && inputs == outputs
        };
        (known(first) && known(second)).then_some([first, second])
    }

    fn channels(&self) -> usize {
        self.layers[0].conv.outputs()
    }
}

impl FusedWay<4> for ConvBranch {
    /// Nothing in evaluation.
    type KernelSaved = Option<BranchSaved>;
    type Parts<'p> = Parts<'p>;

    fn fuses(&self, context: &Context<'_>) -> bool {
        self.basic().is_some_and(|[first, _]| context.fuses(&first.conv.bias.val().inner().device()))
    }

    fn largest_product(&self, dims: [usize; 4]) -> usize {
        // Winograd's transforms leave 36 products for 16 pixels.
        dims.iter().product::<usize>() * self.channels() * 36 / 16
    }

    fn parts<'p>(
        &self,
        [batch, height, width, _]: [usize; 4],
        usage: Use,
        context: &Context<'p>,
    ) -> Option<Parts<'p>> {
        let layers = self.basic().filter(|_| self.fuses(context))?;
        let workspace = context.fused();
        let part = |ConvNorm { conv, norm }: &ConvNorm| LayerParts {
            weight: Filters::new(&conv.weight, Stride::One, usage, workspace),
            scale: Floats::param(&norm.gamma),
            bias: Floats::param(&norm.beta),
        };
        Some(Parts {
            images: Images { batch, height, width },
            layers: layers.map(part),
            moments: (!context.is_training()).then(|| layers.map(|layer| layer.running(workspace))),
            workspace,
        })
    }

    fn fused_vjp(
        &self,
        FusedSaved { x, kernel, .. }: FusedSaved<4, Option<BranchSaved>>,
        dy: Tensor<4>,
        (dx, base): (&mut [f32], Base),
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) {
        let Some(saved) = kernel else {
            let saved = self.burn_forward(x, context).1;
            return add(&Floats::of(self.burn_vjp(saved, dy, context, gradients)), dx, base);
        };
        let parts = self.parts(x.dims(), Use::Vjp, context).expect("what ran fused before runs fused again");
        let layers = self.basic().expect("what ran fused is a basic branch");
        let [mut first, mut second] = layers.map(LayerGrads::of);
        let grads = [first.kernel(), second.kernel()];
        let memory = parts.workspace.kernels();
        parts.kernel().vjp(&Floats::of(x), &saved, &Floats::of(dy), dx, base, grads, memory);
        // In the order of the derivative on Burn's operations.
        for (layer, grads, moments) in [(layers[1], second, &saved.second), (layers[0], first, &saved.first)]
        {
            let LayerGrads { weight, scale, bias } = grads;
            scale.add_to(gradients);
            bias.add_to(gradients);
            Grad::zero(&layer.conv.bias).add_to(gradients);
            observe(layer, moments, gradients);
            weight.add_to(gradients);
        }
    }

    fn kernel_saved(&self, dims: [usize; 4], context: &Context<'_>) -> KernelLens {
        if !context.is_training() {
            return KernelLens::default();
        }
        let elements: usize = dims.iter().product();
        KernelLens { statistics: vec![self.channels(); 4], values: vec![elements; 2] }
    }

    fn fused_scratch(&self, dims: [usize; 4], _: &Context<'_>) -> FusedScratch {
        let elements: usize = dims.iter().product();
        let channels = self.channels();
        let filters = 2 * Filters::bytes(channels, channels);
        FusedScratch {
            // Transformed filters, and the first layer's before they are packed.
            forward: filters + filters / 2,
            // Gradients of both norms' outputs, and at least one sum of transformed filters' gradients.
            vjp: filters + filters / 2 + lent([elements, elements]),
        }
    }
}

/// `dx = base + f`.
fn add(f: &[f32], dx: &mut [f32], base: Base) {
    match base {
        Base::Nothing => dx.copy_from_slice(f),
        Base::Itself => dx.iter_mut().zip(f).for_each(|(dx, f)| *dx += f),
        Base::Other(base) => dx.iter_mut().zip(base).zip(f).for_each(|((dx, base), f)| *dx = base + f),
    }
}

impl Parts<'_> {
    fn kernel(&self) -> Branch<'_> {
        let [first, second] = &self.layers;
        Branch { images: self.images, first: first.kernel(), second: second.kernel(), residual: false }
    }
}

impl FusedParts<4> for Parts<'_> {
    type Saved = Option<BranchSaved>;

    fn forward(&self, x: &Tensor<4>, output: &mut Output) -> Result<(), GridOverflow> {
        self.forward_saving(x, output).map(drop)
    }

    fn forward_saving(
        &self,
        x: &Tensor<4>,
        output: &mut Output,
    ) -> Result<Option<BranchSaved>, GridOverflow> {
        let (x, memory) = (Floats::of(x.clone()), self.workspace.kernels());
        match &self.moments {
            Some([first, second]) => {
                self.kernel().forward_eval(&x, [first, second], output, memory).map(|()| None)
            }
            None => self.kernel().forward_saving(&x, output, memory).map(Some),
        }
    }
}
