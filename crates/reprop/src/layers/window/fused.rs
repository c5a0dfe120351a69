//! Attention inside windows on fused kernels: saved are the input, and in the order of windows the norm's statistics,
//! `q k v`, the heads' values and, where they take no more memory than those and the block is not being recovered, the
//! probabilities.

use burn::tensor::Tensor;
use reprop_kernels::attention::{self as kernel, Keep, WindowGrads, WindowSaved};
use reprop_kernels::conv::Images;
use reprop_kernels::grid::GridOverflow;
use reprop_kernels::layer_norm::{LayerNorm, NormGrads};
use reprop_kernels::output::{Base, Output};

use super::WindowAttention;
use crate::kernels::{Floats, Grad, RowsWeight, Use, lent};
use crate::layers::norm::EPSILON;
use crate::layers::ways::{FusedParts, FusedSaved, FusedScratch, FusedWay, KernelLens};
use crate::{Context, Gradients, Workspace};

/// Parameters as the kernel takes them.
pub struct Parts<'p> {
    workspace: &'p Workspace,
    images: Images,
    window: usize,
    shift: usize,
    heads: usize,
    keep: Keep,
    table: Floats,
    scale: Floats,
    bias: Floats,
    qkv: RowsWeight,
    qkv_bias: Floats,
    out: RowsWeight,
    out_bias: Floats,
}

impl WindowAttention {
    fn tokens(&self) -> usize {
        self.window * self.window
    }

    /// Probabilities are kept where they take no more memory than `q k v` and the heads' values, if memory is not dear.
    fn keep(&self, context: &Context<'_>) -> Keep {
        let small = self.heads * self.tokens() <= 4 * self.width;
        if small && !context.is_lean() { Keep::Probabilities } else { Keep::Nothing }
    }
}

impl FusedWay<3> for WindowAttention {
    type KernelSaved = WindowSaved;
    type Parts<'p> = Parts<'p>;

    fn fuses(&self, context: &Context<'_>) -> bool {
        let biases = [&self.norm.beta, &self.qkv.bias, &self.projection.bias];
        biases.iter().all(|bias| bias.is_some()) && context.fuses(&self.norm.gamma.val().inner().device())
    }

    fn parts<'p>(&self, [batch, _, _]: [usize; 3], usage: Use, context: &Context<'p>) -> Option<Parts<'p>> {
        if !self.fuses(context) {
            return None;
        }
        let workspace = context.fused();
        let (qkv, out) = RowsWeight::pair(
            batch * self.side.pow(2),
            &self.qkv.weight,
            &self.projection.weight,
            usage,
            workspace,
        );
        Some(Parts {
            images: Images { batch, height: self.side, width: self.side },
            window: self.window,
            shift: self.shift,
            heads: self.heads,
            keep: self.keep(context),
            table: Floats::param(&self.bias),
            scale: Floats::param(&self.norm.gamma),
            bias: Floats::param(self.norm.beta.as_ref()?),
            qkv,
            qkv_bias: Floats::param(self.qkv.bias.as_ref()?),
            out,
            out_bias: Floats::param(self.projection.bias.as_ref()?),
            workspace,
        })
    }

    fn kernel_saved(&self, [batch, tokens, width]: [usize; 3], context: &Context<'_>) -> KernelLens {
        let rows = batch * tokens;
        let probabilities = match self.keep(context) {
            Keep::Probabilities => Some(rows * self.heads * self.tokens().next_multiple_of(16)),
            Keep::Nothing => None,
        };
        let values = [3 * rows * width, rows * width].into_iter().chain(probabilities).collect();
        KernelLens { statistics: vec![2 * rows], values }
    }

    fn fused_scratch(&self, [batch, tokens, width]: [usize; 3], _: &Context<'_>) -> FusedScratch {
        let stream = batch * tokens * width;
        let weights = RowsWeight::bytes(batch * tokens, [width, 4 * width], [stream]);
        let scores = self.tokens().pow(2);
        let hidden = if self.shift == 0 { 0 } else { tokens * self.tokens() };
        let masks = lent([self.heads * scores, hidden]);
        // Sums of the bias's gradient, in at most as many parts as the kernel makes of all windows.
        let parts = (batch * tokens / self.tokens()).min(16) * self.heads * scores;
        FusedScratch {
            // Input and output in the order of windows.
            forward: weights + masks + lent([stream, stream]),
            // Input and both gradients in the order of windows, beside those of the heads' values and of `q k v`.
            vjp: weights + masks + lent([stream, stream, stream, stream, 3 * stream, parts]),
        }
    }

    fn fused_vjp(
        &self,
        FusedSaved { x, kernel: saved, .. }: FusedSaved<3, WindowSaved>,
        dy: Tensor<3>,
        (dx, base): (&mut [f32], Base),
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) {
        let parts = self.parts(x.dims(), Use::Vjp, context).expect("what ran fused before runs fused again");
        let Self { norm, qkv, projection, bias: table, .. } = self;
        let (Some(beta), Some(qkv_bias), Some(out_bias)) = (&norm.beta, &qkv.bias, &projection.bias) else {
            unreachable!("fused attention has all its biases")
        };
        let (mut d_scale, mut d_bias) = (Grad::of(&norm.gamma), Grad::of(beta));
        let (mut d_qkv, mut d_qkv_bias) = (Grad::of(&qkv.weight), Grad::of(qkv_bias));
        let (mut d_out, mut d_out_bias) = (Grad::of(&projection.weight), Grad::of(out_bias));
        let mut d_table = Grad::of(table);
        let grads = WindowGrads {
            table: &mut d_table,
            norm: NormGrads { scale: &mut d_scale, bias: &mut d_bias },
            qkv: &mut d_qkv,
            qkv_bias: &mut d_qkv_bias,
            out: &mut d_out,
            out_bias: &mut d_out_bias,
        };
        parts.kernel().vjp(&Floats::of(x), saved, &Floats::of(dy), dx, base, grads, parts.memory());
        // In the order of the derivative on Burn's operations.
        d_out.add_to(gradients);
        d_out_bias.add_to(gradients);
        d_table.add_to(gradients);
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

    fn kernel(&self) -> kernel::WindowAttention<'_> {
        kernel::WindowAttention {
            images: self.images,
            window: self.window,
            shift: self.shift,
            heads: self.heads,
            table: &self.table,
            norm: LayerNorm { scale: &self.scale, bias: &self.bias, eps: EPSILON as f32 },
            qkv: self.qkv.weight(),
            qkv_bias: &self.qkv_bias,
            out: self.out.weight(),
            out_bias: &self.out_bias,
        }
    }
}

impl FusedParts<3> for Parts<'_> {
    type Saved = WindowSaved;

    fn forward(&self, x: &Tensor<3>, output: &mut Output) -> Result<(), GridOverflow> {
        let x = Floats::of(x.clone());
        self.kernel().forward_saving(&x, output, Keep::Nothing, self.memory()).map(drop)
    }

    fn forward_saving(&self, x: &Tensor<3>, output: &mut Output) -> Result<WindowSaved, GridOverflow> {
        self.kernel().forward_saving(&Floats::of(x.clone()), output, self.keep, self.memory())
    }
}
