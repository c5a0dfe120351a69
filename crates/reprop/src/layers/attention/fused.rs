//! Attention on fused kernels: saved are the input, the norm's statistics, `q k v`, the heads' values and, where they
//! take no more memory than those, the probabilities. Of a block that is recovered beside gradients they are computed again instead,
//! which gives the same bits; of one that is reversed they never leave a core's cache.

use burn::tensor::Tensor;
use reprop_kernels::attention::{
    self as kernel, AttentionGrads, AttentionSaved, AttentionShape, Keep, Masks,
};
use reprop_kernels::grid::GridOverflow;
use reprop_kernels::layer_norm::NormGrads;
use reprop_kernels::output::{Base, Output};

use super::Attention;
use crate::kernels::{Floats, RowsWeight, Use, lent};
use crate::layers::projections::{ProjectionParts, Projections, keep};
use crate::layers::ways::{FusedParts, FusedSaved, FusedScratch, FusedWay, KernelLens};
use crate::{Context, Gradients, HiddenKeys};

/// Parameters as the kernel takes them.
pub struct Parts<'p> {
    around: ProjectionParts<'p>,
    shape: AttentionShape,
    keep: Keep,
    /// Keys that are not hidden, `[batch, tokens]`.
    visible: Option<Vec<bool>>,
}

impl Attention {
    fn projections(&self) -> Projections<'_> {
        Projections { norm: &self.norm, qkv: &self.qkv, out: &self.projection }
    }

    /// Probabilities are kept where they take no more memory than `q k v` and the heads' values, if memory is not dear.
    fn keep(&self, tokens: usize, width: usize, context: &Context<'_>) -> Keep {
        let small = self.heads * tokens <= 4 * width;
        keep(small, context)
    }
}

impl FusedWay<3> for Attention {
    type KernelSaved = AttentionSaved;
    type Parts<'p> = Parts<'p>;

    fn fuses(&self, context: &Context<'_>) -> bool {
        // The kernel gives nothing for a sample without visible keys, and not the mean.
        self.projections().fuse(context) && context.side().is_none_or(every_sample_has_keys)
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
        let around = self.projections().parts(batch * tokens, usage, context)?;
        Some(Parts {
            shape: AttentionShape { batch, tokens, heads: self.heads },
            keep: self.keep(tokens, width, context),
            visible,
            around,
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

    fn reverse_scratch(&self, [batch, tokens, width]: [usize; 3], _: &Context<'_>) -> Option<u64> {
        let (rows, stream) = (batch * tokens, batch * tokens * width);
        let weights = RowsWeight::bytes(rows, [2 * width, 4 * width], [stream]);
        // The norm's statistics, `q k v`, the heads' values and the gradients of both.
        Some(weights + lent([2 * rows, 3 * stream, stream, stream, 3 * stream]))
    }

    fn fused_reverse(
        &self,
        parts: &Parts<'_>,
        (x, dy): (Tensor<3>, Tensor<3>),
        output: &mut Output,
        (dx, base): (&mut [f32], Base),
        gradients: &mut Gradients,
    ) -> Result<(), GridOverflow> {
        let (x, dy, memory) = (Floats::of(x), Floats::of(dy), parts.around.memory());
        self.with_grads(gradients, |grads| parts.kernel().reverse(&x, output, &dy, dx, base, grads, memory))
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
        let (x, dy, memory) = (Floats::of(x), Floats::of(dy), parts.around.memory());
        self.with_grads(gradients, |grads| parts.kernel().vjp(&x, saved, &dy, dx, base, grads, memory));
    }
}

impl Attention {
    /// Adds to `gradients` what `run` writes.
    fn with_grads<R>(&self, gradients: &mut Gradients, run: impl FnOnce(AttentionGrads) -> R) -> R {
        let mut around = self.projections().grads();
        let result = run(AttentionGrads {
            norm: NormGrads { scale: &mut around.scale, bias: &mut around.bias },
            qkv: &mut around.qkv,
            qkv_bias: &mut around.qkv_bias,
            out: &mut around.out,
            out_bias: &mut around.out_bias,
            bias: None,
        });
        around.add_to(gradients, |_| ());
        result
    }
}

impl Parts<'_> {
    fn kernel(&self) -> kernel::Attention<'_> {
        kernel::Attention {
            shape: self.shape,
            masks: Masks { keys: self.visible.as_deref(), ..Masks::default() },
            norm: self.around.norm(),
            qkv: self.around.qkv.weight(),
            qkv_bias: &self.around.qkv_bias,
            out: self.around.out.weight(),
            out_bias: &self.around.out_bias,
        }
    }
}

impl FusedParts<3> for Parts<'_> {
    type Saved = AttentionSaved;

    fn forward(&self, x: &Tensor<3>, output: &mut Output) -> Result<(), GridOverflow> {
        self.kernel().forward(&Floats::of(x.clone()), output, self.around.memory())
    }

    fn forward_saving(&self, x: &Tensor<3>, output: &mut Output) -> Result<AttentionSaved, GridOverflow> {
        self.kernel().forward_saving(&Floats::of(x.clone()), output, self.keep, self.around.memory())
    }
}

/// Keys that are not hidden.
fn visible(HiddenKeys(hidden): &HiddenKeys) -> Vec<bool> {
    hidden.to_data().iter::<bool>().map(|hidden| !hidden).collect()
}

fn every_sample_has_keys(hidden: &HiddenKeys) -> bool {
    let [_, tokens] = hidden.0.dims();
    visible(hidden).chunks(tokens.max(1)).all(|keys| keys.contains(&true))
}
