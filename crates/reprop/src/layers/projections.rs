//! What every attention has around its heads, as fused kernels take it: the norm, `q k v` and the projection.

use burn::nn::{LayerNorm, Linear};
use reprop_kernels::attention::Keep;
use reprop_kernels::layer_norm as kernel;

use super::norm::EPSILON;
use crate::kernels::{Floats, Grad, RowsWeight, Use};
use crate::{Context, Gradients, Workspace};

/// The layers.
#[derive(Clone, Copy)]
pub struct Projections<'l> {
    pub norm: &'l LayerNorm,
    pub qkv: &'l Linear,
    pub out: &'l Linear,
}

/// Their parameters as kernels take them.
pub struct ProjectionParts<'p> {
    workspace: &'p Workspace,
    scale: Floats,
    bias: Floats,
    pub qkv: RowsWeight,
    pub qkv_bias: Floats,
    pub out: RowsWeight,
    pub out_bias: Floats,
}

/// Gradients of their parameters.
pub struct ProjectionGrads<'l> {
    pub scale: Grad<'l, 1>,
    pub bias: Grad<'l, 1>,
    pub qkv: Grad<'l, 2>,
    pub qkv_bias: Grad<'l, 1>,
    pub out: Grad<'l, 2>,
    pub out_bias: Grad<'l, 1>,
}

/// Probabilities are kept where they are `small` beside what else is saved, if memory is not dear.
pub fn keep(small: bool, context: &Context<'_>) -> Keep {
    if small && !context.is_lean() { Keep::Probabilities } else { Keep::Nothing }
}

impl<'l> Projections<'l> {
    /// Whether kernels can run: all biases are there.
    pub fn fuse(&self, context: &Context<'_>) -> bool {
        let biases = [&self.norm.beta, &self.qkv.bias, &self.out.bias];
        biases.iter().all(|bias| bias.is_some()) && context.fuses(&self.norm.gamma.val().inner().device())
    }

    /// For so many rows.
    pub fn parts<'p>(self, rows: usize, usage: Use, context: &Context<'p>) -> Option<ProjectionParts<'p>> {
        let Self { norm, qkv, out } = self;
        let workspace = context.fused();
        let (packed_qkv, packed_out) = RowsWeight::pair(rows, &qkv.weight, &out.weight, usage, workspace);
        Some(ProjectionParts {
            workspace,
            scale: Floats::param(&norm.gamma),
            bias: Floats::param(norm.beta.as_ref()?),
            qkv: packed_qkv,
            qkv_bias: Floats::param(qkv.bias.as_ref()?),
            out: packed_out,
            out_bias: Floats::param(out.bias.as_ref()?),
        })
    }

    /// To be written to.
    pub fn grads(self) -> ProjectionGrads<'l> {
        let Self { norm, qkv, out } = self;
        let (Some(beta), Some(qkv_bias), Some(out_bias)) = (&norm.beta, &qkv.bias, &out.bias) else {
            unreachable!("fused attention has all its biases")
        };
        ProjectionGrads {
            scale: Grad::of(&norm.gamma),
            bias: Grad::of(beta),
            qkv: Grad::of(&qkv.weight),
            qkv_bias: Grad::of(qkv_bias),
            out: Grad::of(&out.weight),
            out_bias: Grad::of(out_bias),
        }
    }
}

impl ProjectionParts<'_> {
    pub fn memory(&self) -> &reprop_kernels::Workspace {
        self.workspace.kernels()
    }

    pub fn norm(&self) -> kernel::LayerNorm<'_> {
        kernel::LayerNorm { scale: &self.scale, bias: &self.bias, eps: EPSILON as f32 }
    }
}

impl ProjectionGrads<'_> {
    /// Adds all of them, in the order of the derivative on Burn's operations, with those of what lies `between` projection
    /// and `q k v`.
    pub fn add_to(self, gradients: &mut Gradients, between: impl FnOnce(&mut Gradients)) {
        self.out.add_to(gradients);
        self.out_bias.add_to(gradients);
        between(gradients);
        self.qkv.add_to(gradients);
        self.qkv_bias.add_to(gradients);
        self.scale.add_to(gradients);
        self.bias.add_to(gradients);
    }
}
