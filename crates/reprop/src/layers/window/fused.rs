//! Attention inside windows on fused kernels: saved are the input, and in the order of windows the norm's statistics,
//! `q k v`, the heads' values and, where they take no more memory than those and the block is not being recovered, the
//! probabilities.

use burn::tensor::Tensor;
use reprop_kernels::attention::{self as kernel, Keep, WindowGrads, WindowSaved};
use reprop_kernels::conv::Images;
use reprop_kernels::grid::GridOverflow;
use reprop_kernels::layer_norm::NormGrads;
use reprop_kernels::output::{Base, Output};

use super::WindowAttention;
use crate::kernels::{Floats, Grad, RowsWeight, Use, lent};
use crate::layers::projections::{ProjectionParts, Projections, keep};
use crate::layers::ways::{FusedParts, FusedSaved, FusedScratch, FusedWay, KernelLens};
use crate::{Context, Gradients};

/// Parameters as the kernel takes them.
pub struct Parts<'p> {
    around: ProjectionParts<'p>,
    images: Images,
    window: usize,
    shift: usize,
    heads: usize,
    keep: Keep,
    table: Floats,
}

impl WindowAttention {
    fn projections(&self) -> Projections<'_> {
        Projections { norm: &self.norm, qkv: &self.qkv, out: &self.projection }
    }

    fn tokens(&self) -> usize {
        self.window * self.window
    }

    /// Probabilities are kept where they take no more memory than `q k v` and the heads' values, if memory is not dear.
    fn keep(&self, context: &Context<'_>) -> Keep {
        let small = self.heads * self.tokens() <= 4 * self.width;
        keep(small, context)
    }
}

impl FusedWay<3> for WindowAttention {
    type KernelSaved = WindowSaved;
    type Parts<'p> = Parts<'p>;

    fn fuses(&self, context: &Context<'_>) -> bool {
        self.projections().fuse(context)
    }

    fn parts<'p>(&self, [batch, _, _]: [usize; 3], usage: Use, context: &Context<'p>) -> Option<Parts<'p>> {
        if !self.fuses(context) {
            return None;
        }
        let around = self.projections().parts(batch * self.side.pow(2), usage, context)?;
        Some(Parts {
            images: Images { batch, height: self.side, width: self.side },
            window: self.window,
            shift: self.shift,
            heads: self.heads,
            keep: self.keep(context),
            table: Floats::param(&self.bias),
            around,
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

    fn fused_scratch(&self, dims: [usize; 3], _: &Context<'_>) -> FusedScratch {
        let [batch, tokens, width] = dims;
        let stream = batch * tokens * width;
        let weights = RowsWeight::bytes(batch * tokens, [width, 4 * width], [stream]);
        let Tables { masks, sums } = self.tables(dims);
        FusedScratch {
            // Input and output in the order of windows.
            forward: weights + masks + lent([stream, stream]),
            // Input and both gradients in the order of windows, beside those of the heads' values and of `q k v`.
            vjp: weights + masks + sums + lent([stream, stream, stream, stream, 3 * stream]),
        }
    }

    fn reverse_scratch(&self, dims: [usize; 3], _: &Context<'_>) -> Option<u64> {
        let [batch, tokens, width] = dims;
        let (rows, stream) = (batch * tokens, batch * tokens * width);
        let weights = RowsWeight::bytes(rows, [2 * width, 4 * width], [stream]);
        let Tables { masks, sums } = self.tables(dims);
        // Input, output and both gradients in the order of windows.
        let windows = lent([stream, stream, stream, stream]);
        // The norm's statistics, `q k v`, the heads' values and the gradients of both.
        let inside = lent([2 * rows, 3 * stream, stream, stream, 3 * stream]);
        Some(weights + masks + sums + windows + inside)
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
        FusedSaved { x, kernel: saved, .. }: FusedSaved<3, WindowSaved>,
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

/// Bytes of tables of scores.
struct Tables {
    /// The bias, and what windows hide.
    masks: u64,
    /// Sums of the bias's gradient, in at most as many parts as the kernel makes of all windows.
    sums: u64,
}

impl WindowAttention {
    fn tables(&self, [batch, tokens, _]: [usize; 3]) -> Tables {
        let scores = self.tokens().pow(2);
        let hidden = if self.shift == 0 { 0 } else { tokens * self.tokens() };
        let parts = (batch * tokens / self.tokens()).min(16);
        Tables { masks: lent([self.heads * scores, hidden]), sums: lent([parts * self.heads * scores]) }
    }

    /// Adds to `gradients` what `run` writes.
    fn with_grads<R>(&self, gradients: &mut Gradients, run: impl FnOnce(WindowGrads) -> R) -> R {
        let mut around = self.projections().grads();
        let mut d_table = Grad::of(&self.bias);
        let result = run(WindowGrads {
            table: &mut d_table,
            norm: NormGrads { scale: &mut around.scale, bias: &mut around.bias },
            qkv: &mut around.qkv,
            qkv_bias: &mut around.qkv_bias,
            out: &mut around.out,
            out_bias: &mut around.out_bias,
        });
        around.add_to(gradients, |gradients| d_table.add_to(gradients));
        result
    }
}

impl Parts<'_> {
    fn kernel(&self) -> kernel::WindowAttention<'_> {
        kernel::WindowAttention {
            images: self.images,
            window: self.window,
            shift: self.shift,
            heads: self.heads,
            table: &self.table,
            norm: self.around.norm(),
            qkv: self.around.qkv.weight(),
            qkv_bias: &self.around.qkv_bias,
            out: self.around.out.weight(),
            out_bias: &self.around.out_bias,
        }
    }
}

impl FusedParts<3> for Parts<'_> {
    type Saved = WindowSaved;

    fn forward(&self, x: &Tensor<3>, output: &mut Output) -> Result<(), GridOverflow> {
        let x = Floats::of(x.clone());
        self.kernel().forward_saving(&x, output, Keep::Nothing, self.around.memory()).map(drop)
    }

    fn forward_saving(&self, x: &Tensor<3>, output: &mut Output) -> Result<WindowSaved, GridOverflow> {
        self.kernel().forward_saving(&Floats::of(x.clone()), output, self.keep, self.around.memory())
    }
}
