//! Attention on fused kernels: saved are the input, the norm's statistics, `q k v`, the heads' values and, where they
//! take no more memory than those, the probabilities. Of a block that is recovered they are computed again instead, which
//! gives the same bits.

use burn::tensor::Tensor;
use reprop_kernels::attention::{
    self as kernel, AttentionGrads, AttentionSaved, AttentionShape, Keep, Masks,
};
use reprop_kernels::grid::GridOverflow;
use reprop_kernels::layer_norm::{LayerNorm, NormGrads};
use reprop_kernels::output::{Base, Output};

use super::Attention;
use crate::kernels::{Floats, Grad, RowsWeight, Use, lent};
use crate::layers::norm::EPSILON;
use crate::layers::ways::{FusedParts, FusedSaved, FusedScratch, FusedWay, KernelLens};
use crate::{Context, Gradients, HiddenKeys, Workspace};

/// Parameters as the kernel takes them.
pub struct Parts<'p> {
    workspace: &'p Workspace,
    shape: AttentionShape,
    keep: Keep,
    scale: Floats,
    bias: Floats,
    qkv: RowsWeight,
    qkv_bias: Floats,
    out: RowsWeight,
    out_bias: Floats,
    /// Keys that are not hidden, `[batch, tokens]`.
    visible: Option<Vec<bool>>,
}

impl Attention {
    /// Probabilities are kept where they take no more memory than `q k v` and the heads' values, if memory is not dear.
    fn keep(&self, tokens: usize, width: usize, context: &Context<'_>) -> Keep {
        let small = self.heads * tokens <= 4 * width;
        if small && !context.is_lean() { Keep::Probabilities } else { Keep::Nothing }
    }
}

impl FusedWay<3> for Attention {
    type KernelSaved = AttentionSaved;
    type Parts<'p> = Parts<'p>;

    fn fuses(&self, context: &Context<'_>) -> bool {
        let biases = [&self.norm.beta, &self.qkv.bias, &self.projection.bias];
        biases.iter().all(|bias| bias.is_some()) && context.fuses(&self.norm.gamma.val().inner().device())
    }

    fn parts<'p>(
        &self,
        [batch, tokens, width]: [usize; 3],
        usage: Use,
        context: &Context<'p>,
    ) -> Option<Parts<'p>> {
        if !self.fuses(context) {
            return None;
        }
        let visible = context.side().map(visible);
        // The kernel gives nothing for a sample without visible keys, and not the mean.
        if visible.iter().flat_map(|visible| visible.chunks(tokens)).any(|keys| !keys.contains(&true)) {
            return None;
        }
        let workspace = context.fused();
        let (qkv, out) =
            RowsWeight::pair(batch * tokens, &self.qkv.weight, &self.projection.weight, usage, workspace);
        Some(Parts {
            shape: AttentionShape { batch, tokens, heads: self.heads },
            keep: self.keep(tokens, width, context),
            scale: Floats::param(&self.norm.gamma),
            bias: Floats::param(self.norm.beta.as_ref()?),
            qkv,
            qkv_bias: Floats::param(self.qkv.bias.as_ref()?),
            out,
            out_bias: Floats::param(self.projection.bias.as_ref()?),
            visible,
            workspace,
        })
    }

    fn kernel_saved(&self, [batch, tokens, width]: [usize; 3], context: &Context<'_>) -> KernelLens {
        let rows = batch * tokens;
        let probabilities = match self.keep(tokens, width, context) {
            Keep::Probabilities => Some(rows * self.heads * tokens.next_multiple_of(16)),
            Keep::Nothing => None,
        };
        let values = [3 * rows * width, rows * width].into_iter().chain(probabilities).collect();
        KernelLens { statistics: vec![2 * rows], values }
    }

    fn fused_scratch(&self, [batch, tokens, width]: [usize; 3], _: &Context<'_>) -> FusedScratch {
        let stream = batch * tokens * width;
        let weights = RowsWeight::bytes(batch * tokens, [width, 4 * width], [stream]);
        FusedScratch {
            forward: weights,
            // The gradients of the heads' values and of `q k v`.
            vjp: weights + lent([stream, 3 * stream]),
        }
    }

    fn fused_vjp(
        &self,
        FusedSaved { x, kernel: saved, .. }: FusedSaved<3, AttentionSaved>,
        dy: Tensor<3>,
        (dx, base): (&mut [f32], Base),
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) {
        let parts = self.parts(x.dims(), Use::Vjp, context).expect("what ran fused before runs fused again");
        let Self { norm, qkv, projection, .. } = self;
        let (Some(beta), Some(qkv_bias), Some(out_bias)) = (&norm.beta, &qkv.bias, &projection.bias) else {
            unreachable!("fused attention has all its biases")
        };
        let (mut d_scale, mut d_bias) = (Grad::of(&norm.gamma), Grad::of(beta));
        let (mut d_qkv, mut d_qkv_bias) = (Grad::of(&qkv.weight), Grad::of(qkv_bias));
        let (mut d_out, mut d_out_bias) = (Grad::of(&projection.weight), Grad::of(out_bias));
        let grads = AttentionGrads {
            norm: NormGrads { scale: &mut d_scale, bias: &mut d_bias },
            qkv: &mut d_qkv,
            qkv_bias: &mut d_qkv_bias,
            out: &mut d_out,
            out_bias: &mut d_out_bias,
            bias: None,
        };
        parts.kernel().vjp(&Floats::of(x), saved, &Floats::of(dy), dx, base, grads, parts.memory());
        // In the order of the derivative on Burn's operations.
        d_out.add_to(gradients);
        d_out_bias.add_to(gradients);
        d_qkv.add_to(gradients);
        d_qkv_bias.add_to(gradients);
        d_scale.add_to(gradients);
        d_bias.add_to(gradients);
    }
}

impl Parts<'_> {
    fn memory(&self) -> &reprop_kernels::Workspace {
        self.workspace.kernels()
    }

    fn kernel(&self) -> kernel::Attention<'_> {
        kernel::Attention {
            shape: self.shape,
            masks: Masks { keys: self.visible.as_deref(), ..Masks::default() },
            norm: LayerNorm { scale: &self.scale, bias: &self.bias, eps: EPSILON as f32 },
            qkv: self.qkv.weight(),
            qkv_bias: &self.qkv_bias,
            out: self.out.weight(),
            out_bias: &self.out_bias,
        }
    }
}

impl FusedParts<3> for Parts<'_> {
    type Saved = AttentionSaved;

    fn forward(&self, x: &Tensor<3>, output: &mut Output) -> Result<(), GridOverflow> {
        self.kernel().forward(&Floats::of(x.clone()), output, self.memory())
    }

    fn forward_saving(&self, x: &Tensor<3>, output: &mut Output) -> Result<AttentionSaved, GridOverflow> {
        self.kernel().forward_saving(&Floats::of(x.clone()), output, self.keep, self.memory())
    }
}

/// Keys that are not hidden.
fn visible(HiddenKeys(hidden): &HiddenKeys) -> Vec<bool> {
    hidden.to_data().iter::<bool>().map(|hidden| !hidden).collect()
}
