//! The norm of a unit on fused kernels: its map, the `ReLU` behind it and what is added are one pass over the
//! convolution's output, which is what is saved.

use burn::module::Param;
use burn::tensor::Tensor;
use reprop_kernels::batch_norm::{self, BatchNorm, BatchNormGrads, Behind, Moments, OutputGradient};
use reprop_kernels::heap::blank;

use super::super::batch_norm::{EPSILON, MOMENTUM};
use super::{Above, ConvNorm};
use crate::kernels::{Floats, Grad, grid_of, lent, tensor};
use crate::{Context, Gradients, Saved, Storing, Workspace};

/// What the derivative needs beside the input.
pub(crate) struct FusedSaved {
    /// The convolution's output.
    c: Tensor<4>,
    moments: Moments,
    workspace: Workspace,
}

impl Saved for FusedSaved {
    fn bytes(&self) -> u64 {
        self.c.bytes() + Self::moments_bytes(self.moments.mean.len())
    }

    fn store(&mut self, storing: &Storing<'_>) {
        self.c.store(storing);
    }
}

impl FusedSaved {
    pub(super) fn dims(&self) -> [usize; 4] {
        self.c.dims()
    }

    /// Bytes of the moments of `channels` channels.
    pub(super) fn moments_bytes(channels: usize) -> u64 {
        lent([channels, channels])
    }
}

/// The gradient of the convolution's output, which its derivative makes while it reads it.
pub(in super::super) struct FusedGradient {
    c: Floats,
    behind: Behind,
}

impl FusedGradient {
    pub(in super::super) fn kernel(&self) -> OutputGradient<'_> {
        self.behind.of(&self.c)
    }
}

/// The norm's parameters.
struct Parts {
    scale: Floats,
    bias: Floats,
}

impl Parts {
    fn kernel(&self) -> BatchNorm<'_> {
        BatchNorm { scale: &self.scale, bias: &self.bias, eps: EPSILON as f32 }
    }
}

impl ConvNorm {
    /// Whether the unit runs on fused kernels in `context`.
    pub(in super::super) fn fuses(&self, context: &Context<'_>) -> bool {
        context.fuses(&self.conv.bias.val().inner().device())
    }

    fn parts(&self) -> Parts {
        Parts { scale: Floats::param(&self.norm.gamma), bias: Floats::param(&self.norm.beta) }
    }

    /// Running statistics, of the convolution without its bias.
    pub(in super::super) fn running(&self, workspace: &Workspace) -> Moments {
        let mean = Floats::of(self.norm.running_mean.val().inner() - self.conv.bias.val().inner());
        Moments::from_slices(&mean, &Floats::param(&self.norm.running_var), workspace.kernels())
    }

    /// Moments of the convolution's output `c`.
    pub(super) fn fused_run(&self, c: Tensor<4>, context: &Context<'_>) -> FusedSaved {
        let workspace = context.fused().clone();
        let moments = if context.is_training() {
            Moments::of(&Floats::of(c.clone()), c.dims()[3], workspace.kernels())
        } else {
            self.running(&workspace)
        };
        FusedSaved { c, moments, workspace }
    }

    /// The norm's output, with `base` added, then `ReLU` if wanted.
    pub(super) fn fused_output(&self, saved: &FusedSaved, base: Option<Tensor<4>>, relu: bool) -> Tensor<4> {
        let FusedSaved { c, moments, workspace } = saved;
        let dims = c.dims();
        let mut y = blank(dims.iter().product());
        let (c, base) = (Floats::of(c.clone()), base.map(Floats::of));
        let norm = self.parts();
        norm.kernel().apply(&c, moments, base.as_deref(), relu, &mut y, workspace.kernels());
        tensor(y, dims)
    }

    /// The norm's output behind a `ReLU`, as two streams: its first `left` channels and the others.
    pub(super) fn fused_halves(
        &self,
        saved: &FusedSaved,
        left: usize,
        context: &Context<'_>,
    ) -> (Tensor<4>, Tensor<4>) {
        let FusedSaved { c, moments, workspace } = saved;
        let [batch, height, width, channels] = c.dims();
        let dims = [left, channels - left].map(|channels| [batch, height, width, channels]);
        let [mut a, mut b] = dims.map(|dims| blank(dims.iter().product()));
        let (norm, c) = (self.parts(), Floats::of(c.clone()));
        let (halves, grid) = ([&mut a[..], &mut b[..]], grid_of(context));
        if !norm.kernel().apply_to_halves(&c, moments, true, halves, grid, workspace.kernels()) {
            context.unwatched();
        }
        (tensor(a, dims[0]), tensor(b, dims[1]))
    }

    /// A stream: the unit's output, behind a `ReLU` if wanted, with that of another unit added to it.
    pub(in super::super) fn entering(
        &self,
        saved: &FusedSaved,
        relu: bool,
        other: Option<(&Self, &FusedSaved)>,
        context: &Context<'_>,
    ) -> Tensor<4> {
        let dims = saved.c.dims();
        let mut y = blank(dims.iter().product());
        let parts = [Some(self), other.map(|(unit, _)| unit)].map(|unit| unit.map(Self::parts));
        let floats = [Some(saved), other.map(|(_, saved)| saved)];
        let floats = floats.map(|saved| saved.map(|saved| (Floats::of(saved.c.clone()), &saved.moments)));
        let term = |index: usize, relu| {
            let (parts, (x, moments)) = (parts[index].as_ref()?, floats[index].as_ref()?);
            Some(batch_norm::Term { norm: parts.kernel(), x, moments, relu })
        };
        let first = term(0, relu).expect("there is a first one");
        if !batch_norm::enter(first, term(1, false), grid_of(context), &mut y, saved.workspace.kernels()) {
            context.unwatched();
        }
        tensor(y, dims)
    }

    /// The gradient of the convolution's output.
    pub(super) fn fused_vjp(
        &self,
        FusedSaved { c, moments, workspace }: FusedSaved,
        Above { dy, rest, relu, beside }: Above,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> FusedGradient {
        let c = Floats::of(c);
        let (mut scale, mut bias) = (Grad::of(&self.norm.gamma), Grad::of(&self.norm.beta));
        let behind = {
            let (dy, rest, beside) = (Floats::of(dy), rest.map(Floats::of), beside.map(Floats::of));
            let above = batch_norm::Above { dy: &dy, rest: rest.as_deref(), relu, beside: beside.as_deref() };
            let grads = BatchNormGrads { scale: &mut scale, bias: &mut bias };
            self.parts().kernel().behind(&c, &moments, above, grads, workspace.kernels())
        };
        // In training the norm takes out what is added to all pixels alike.
        let mut shift = Grad::zero(&self.conv.bias);
        if context.is_training() {
            observe(self, &moments, gradients);
        } else {
            let gamma = Floats::param(&self.norm.gamma);
            for (c, shift) in shift.iter_mut().enumerate() {
                *shift = bias[c] * gamma[c] / (moments.variance[c] + EPSILON as f32).sqrt();
            }
        }
        scale.add_to(gradients);
        bias.add_to(gradients);
        shift.add_to(gradients);
        FusedGradient { c, behind }
    }
}

/// Notes the moments of a batch for the running statistics.
pub(crate) fn observe(ConvNorm { conv, norm }: &ConvNorm, moments: &Moments, gradients: &mut Gradients) {
    let mut note = |param: &Param<Tensor<1>>, values: Vec<f32>| {
        let channels = values.len();
        gradients.observe(param, MOMENTUM, tensor(values, [channels]));
    };
    let bias = Floats::param(&conv.bias);
    note(&norm.running_mean, moments.mean.iter().zip(bias.iter()).map(|(mean, bias)| mean + bias).collect());
    let rows = moments.rows.unwrap_or(0);
    let correction = rows as f32 / (rows.max(2) - 1) as f32;
    note(&norm.running_var, moments.variance.iter().map(|variance| variance * correction).collect());
}
