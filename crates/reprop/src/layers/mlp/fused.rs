//! The perceptron on fused kernels: saved are the input, the norm's statistics and `h`.

use burn::tensor::Tensor;
use reprop_kernels::grid::GridOverflow;
use reprop_kernels::layer_norm::{LayerNorm, NormGrads};
use reprop_kernels::linear::FEW_ROWS;
use reprop_kernels::mlp::{self as kernel, MlpGrads, MlpSaved, hidden_len};
use reprop_kernels::output::{Base, Output};

use super::Mlp;
use crate::kernels::{Floats, Grad, RowsWeight, Use, lent};
use crate::layers::norm::EPSILON;
use crate::layers::ways::{FusedParts, FusedSaved, FusedScratch, FusedWay, KernelLens};
use crate::{Context, Gradients, Workspace};

/// Parameters as the kernel takes them.
pub struct Parts<'p> {
    workspace: &'p Workspace,
    scale: Floats,
    bias: Floats,
    fc1: RowsWeight,
    fc1_bias: Floats,
    fc2: RowsWeight,
    fc2_bias: Floats,
}

impl FusedWay<3> for Mlp {
    type KernelSaved = MlpSaved;
    type Parts<'p> = Parts<'p>;

    fn fuses(&self, context: &Context<'_>) -> bool {
        let biases = [&self.norm.beta, &self.expand.bias, &self.contract.bias];
        biases.iter().all(|bias| bias.is_some()) && context.fuses(&self.norm.gamma.val().inner().device())
    }

    fn largest_product(&self, dims: [usize; 3]) -> usize {
        dims.iter().product::<usize>() * self.hidden
    }

    fn parts<'p>(
        &self,
        [batch, tokens, _]: [usize; 3],
        usage: Use,
        context: &Context<'p>,
    ) -> Option<Parts<'p>> {
        if !self.fuses(context) {
            return None;
        }
        let workspace = context.fused();
        let (fc1, fc2) =
            RowsWeight::pair(batch * tokens, &self.expand.weight, &self.contract.weight, usage, workspace);
        Some(Parts {
            scale: Floats::param(&self.norm.gamma),
            bias: Floats::param(self.norm.beta.as_ref()?),
            fc1,
            fc1_bias: Floats::param(self.expand.bias.as_ref()?),
            fc2,
            fc2_bias: Floats::param(self.contract.bias.as_ref()?),
            workspace,
        })
    }

    fn kernel_saved(&self, [batch, tokens, _]: [usize; 3], _: &Context<'_>) -> KernelLens {
        let rows = batch * tokens;
        KernelLens { statistics: vec![2 * rows], values: vec![hidden_len(rows, self.hidden)] }
    }

    fn fused_scratch(&self, [batch, tokens, width]: [usize; 3], _: &Context<'_>) -> FusedScratch {
        let rows = batch * tokens;
        let weights = [width, 2 * self.hidden];
        let hidden = hidden_len(rows, self.hidden);
        FusedScratch {
            // For few rows the normalised input and `gelu(h)`.
            forward: RowsWeight::bytes(rows, weights, [rows * width, hidden]),
            // The normalised input and the gradient of `h`; for few rows that of the normalised input too.
            vjp: RowsWeight::bytes(rows, weights, [rows * width]) + lent([rows * width, hidden]),
        }
    }

    fn reverse_scratch(&self, [batch, tokens, width]: [usize; 3], _: &Context<'_>) -> Option<u64> {
        let rows = batch * tokens;
        let hidden = hidden_len(rows, self.hidden);
        // Both weights are packed both ways at once. With more hidden columns than rows, that would take more than two inputs.
        if rows > FEW_ROWS && self.hidden > rows {
            return None;
        }
        let weights = RowsWeight::bytes(rows, [2 * width, 2 * self.hidden], [rows * width]);
        Some(weights + lent([2 * rows, rows * width, hidden, hidden]))
    }

    fn fused_reverse(
        &self,
        parts: &Parts<'_>,
        (x, dy): (Tensor<3>, Tensor<3>),
        output: &mut Output,
        (dx, base): (&mut [f32], Base),
        gradients: &mut Gradients,
    ) -> Result<(), GridOverflow> {
        let (x, dy) = (Floats::of(x), Floats::of(dy));
        let run = |grads: MlpGrads| parts.kernel().reverse(&x, output, &dy, dx, base, grads, parts.memory());
        self.with_grads(gradients, run)
    }

    fn fused_vjp(
        &self,
        FusedSaved { x, kernel: saved, .. }: FusedSaved<3, MlpSaved>,
        dy: Tensor<3>,
        (dx, base): (&mut [f32], Base),
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) {
        let parts = self.parts(x.dims(), Use::Vjp, context).expect("what ran fused before runs fused again");
        let (x, dy) = (Floats::of(x), Floats::of(dy));
        self.with_grads(gradients, |grads| {
            parts.kernel().vjp(&x, saved, &dy, dx, base, grads, parts.memory());
        });
    }
}

impl Mlp {
    /// Adds to `gradients` what `run` writes.
    fn with_grads<R>(&self, gradients: &mut Gradients, run: impl FnOnce(MlpGrads) -> R) -> R {
        let Self { norm, expand, contract, .. } = self;
        let (Some(beta), Some(fc1_bias), Some(fc2_bias)) = (&norm.beta, &expand.bias, &contract.bias) else {
            unreachable!("a fused perceptron has all its biases")
        };
        let (mut d_scale, mut d_bias) = (Grad::of(&norm.gamma), Grad::of(beta));
        let (mut d_fc1, mut d_fc1_bias) = (Grad::of(&expand.weight), Grad::of(fc1_bias));
        let (mut d_fc2, mut d_fc2_bias) = (Grad::of(&contract.weight), Grad::of(fc2_bias));
        let result = run(MlpGrads {
            norm: NormGrads { scale: &mut d_scale, bias: &mut d_bias },
            fc1: &mut d_fc1,
            fc1_bias: &mut d_fc1_bias,
            fc2: &mut d_fc2,
            fc2_bias: &mut d_fc2_bias,
        });
        // In the order of the derivative on Burn's operations.
        d_fc2.add_to(gradients);
        d_fc2_bias.add_to(gradients);
        d_fc1.add_to(gradients);
        d_fc1_bias.add_to(gradients);
        d_scale.add_to(gradients);
        d_bias.add_to(gradients);
        result
    }
}

impl Parts<'_> {
    fn memory(&self) -> &reprop_kernels::Workspace {
        self.workspace.kernels()
    }

    fn kernel(&self) -> kernel::Mlp<'_> {
        kernel::Mlp {
            norm: LayerNorm { scale: &self.scale, bias: &self.bias, eps: EPSILON as f32 },
            fc1: self.fc1.weight(),
            fc1_bias: &self.fc1_bias,
            fc2: self.fc2.weight(),
            fc2_bias: &self.fc2_bias,
        }
    }
}

impl FusedParts<3> for Parts<'_> {
    type Saved = MlpSaved;

    fn forward(&self, x: &Tensor<3>, output: &mut Output) -> Result<(), GridOverflow> {
        self.kernel().forward(&Floats::of(x.clone()), output, self.memory())
    }

    fn forward_saving(&self, x: &Tensor<3>, output: &mut Output) -> Result<MlpSaved, GridOverflow> {
        self.kernel().forward_saving(&Floats::of(x.clone()), output, self.memory())
    }
}
