//! Four tokens into one on fused kernels.

use burn::tensor::Tensor;
use reprop_kernels::conv::Images;
use reprop_kernels::heap::blank;
use reprop_kernels::layer_norm::{LayerNorm, NormGrads};
use reprop_kernels::merge::{self as kernel, MergeGrads};

use super::{Merge, TokensSaved};
use crate::kernels::{Floats, Grad, Packed, Use, tensor};
use crate::layers::norm::EPSILON;
use crate::{Context, Gradients, Workspace};

/// Parameters as the kernel takes them.
pub(super) struct Parts<'p> {
    workspace: &'p Workspace,
    images: Images,
    scale: Floats,
    bias: Floats,
    reduction: Packed,
}

impl Parts<'_> {
    fn kernel(&self) -> kernel::Merge<'_> {
        let norm = LayerNorm { scale: &self.scale, bias: &self.bias, eps: EPSILON as f32 };
        kernel::Merge { images: self.images, norm, reduction: &self.reduction }
    }

    pub(super) fn forward(&self, z: Tensor<3>) -> (Tensor<3>, TokensSaved) {
        let [batch, tokens, width] = z.dims();
        let mut y = blank(batch * tokens / 4 * 2 * width);
        let memory = self.workspace.kernels();
        let stats = self.kernel().forward_saving(&Floats::of(z.clone()), &mut y, memory);
        (tensor(y, [batch, tokens / 4, 2 * width]), TokensSaved::Fused(Box::new((z, stats))))
    }
}

impl Merge {
    /// Whether the merging runs on fused kernels.
    pub(super) fn fuses(&self, context: &Context<'_>) -> bool {
        self.norm.beta.is_some()
            && self.reduction.bias.is_none()
            && context.fuses(&self.norm.gamma.val().inner().device())
    }

    pub(super) fn parts<'p>(&self, batch: usize, usage: Use, context: &Context<'p>) -> Option<Parts<'p>> {
        if !self.fuses(context) {
            return None;
        }
        let workspace = context.fused();
        Some(Parts {
            images: Images { batch, height: self.side, width: self.side },
            scale: Floats::param(&self.norm.gamma),
            bias: Floats::param(self.norm.beta.as_ref()?),
            reduction: Packed::new(&self.reduction.weight, usage, workspace),
            workspace,
        })
    }

    pub(super) fn fused_vjp(
        &self,
        z: Tensor<3>,
        stats: &[f32],
        dy: Tensor<3>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Tensor<3> {
        let dims = z.dims();
        let parts = self.parts(dims[0], Use::Vjp, context).expect("what ran fused before runs fused again");
        let beta = self.norm.beta.as_ref().expect("a fused norm has its bias");
        let (mut d_scale, mut d_bias) = (Grad::of(&self.norm.gamma), Grad::of(beta));
        let mut d_reduction = Grad::of(&self.reduction.weight);
        let mut dz = blank(dims.iter().product());
        let norm = NormGrads { scale: &mut d_scale, bias: &mut d_bias };
        let grads = MergeGrads { norm, reduction: &mut d_reduction };
        let memory = parts.workspace.kernels();
        parts.kernel().vjp(&Floats::of(z), stats, &Floats::of(dy), &mut dz, grads, memory);
        // In the order of the derivative on Burn's operations.
        d_reduction.add_to(gradients);
        d_scale.add_to(gradients);
        d_bias.add_to(gradients);
        tensor(dz, dims)
    }
}
