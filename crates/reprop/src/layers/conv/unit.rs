//! A convolution and the batch norm after it: what convolutional sub-blocks are made of.

mod fused;

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::activation::relu;

use crate::{Context, Gradients, Saved, Storing};

use super::super::Initial;
use super::batch_norm::NormSaved;
use super::{BatchNorm, Convolution, ConvolutionConfig};
use fused::FusedSaved;
pub(super) use fused::{FusedGradient, observe};

/// A convolution and a batch norm.
///
/// In training the convolution's bias changes no output: the norm takes it out with the mean. It is not added, its
/// gradient is zero, and it shows in the running mean alone, which evaluation takes it out with.
#[derive(Module, Debug)]
pub struct ConvNorm {
    /// First.
    pub conv: Convolution,
    /// Second.
    pub norm: BatchNorm,
}

/// What the derivative needs beside the input.
pub(super) enum UnitSaved {
    /// Burn's operations: the normalised output.
    Burn(Box<NormSaved>),
    /// Fused kernels: the convolution's output and its moments.
    Fused(Box<FusedSaved>),
}

impl Saved for UnitSaved {
    fn bytes(&self) -> u64 {
        match self {
            Self::Burn(saved) => saved.bytes(),
            Self::Fused(saved) => saved.bytes(),
        }
    }

    fn store(&mut self, storing: &Storing<'_>) {
        match self {
            Self::Burn(saved) => saved.store(storing),
            Self::Fused(saved) => saved.store(storing),
        }
    }
}

impl UnitSaved {
    /// The shape of the output.
    pub(super) fn dims(&self) -> [usize; 4] {
        match self {
            Self::Burn(saved) => saved.normalised.dims(),
            Self::Fused(saved) => saved.dims(),
        }
    }
}

/// What comes to a unit from above.
pub(super) struct Above {
    /// The gradient of the output, or of its `ReLU`.
    pub dy: Tensor<4>,
    /// That of the last channels, if `dy` has it of the first alone.
    pub rest: Option<Tensor<4>>,
    /// Whether a `ReLU` follows.
    pub relu: bool,
    /// What is added to the gradient of the output before its `ReLU`: from a second reader.
    pub beside: Option<Tensor<4>>,
}

impl Above {
    /// The gradient of the output, with no `ReLU` behind it.
    pub(super) fn output(dy: Tensor<4>) -> Self {
        Self { dy, rest: None, relu: false, beside: None }
    }

    /// The gradient of the output's `ReLU`.
    pub(super) fn relu(dy: Tensor<4>) -> Self {
        Self { dy, rest: None, relu: true, beside: None }
    }
}

/// An input, made when it is needed, and its shape.
pub(super) struct Seen<X: FnOnce() -> Tensor<4>> {
    pub x: X,
    pub dims: [usize; 4],
}

impl ConvNorm {
    pub(super) fn new(config: &ConvolutionConfig, initial: &mut Initial) -> Self {
        let conv = config.init(initial);
        Self { conv, norm: BatchNorm::new(config.outputs, initial) }
    }

    /// What the output and the derivative are computed from.
    pub(super) fn run(&self, x: Tensor<4>, context: &Context<'_>) -> UnitSaved {
        let c = self.conv.forward(x, context);
        if self.fuses(context) {
            return UnitSaved::Fused(Box::new(self.fused_run(c, context)));
        }
        UnitSaved::Burn(Box::new(self.norm.normalise(c, &self.conv.bias, context.is_training())))
    }

    /// The output, before any `ReLU`.
    pub(super) fn output(&self, saved: &UnitSaved) -> Tensor<4> {
        match saved {
            UnitSaved::Burn(saved) => self.norm.affine(saved.normalised.clone()),
            UnitSaved::Fused(saved) => self.fused_output(saved, None, false),
        }
    }

    /// The output's `ReLU`.
    pub(super) fn activation(&self, saved: &UnitSaved) -> Tensor<4> {
        match saved {
            UnitSaved::Burn(_) => relu(self.output(saved)),
            UnitSaved::Fused(saved) => self.fused_output(saved, None, true),
        }
    }

    /// The same as two streams: its first `left` channels and the others.
    pub(super) fn activation_halves(
        &self,
        saved: &UnitSaved,
        left: usize,
        context: &Context<'_>,
    ) -> (Tensor<4>, Tensor<4>) {
        match saved {
            UnitSaved::Burn(_) => {
                let y = self.activation(saved);
                let right = y.dims()[3] - left;
                (y.clone().narrow(3, 0, left), y.narrow(3, left, right))
            }
            UnitSaved::Fused(saved) => self.fused_halves(saved, left, context),
        }
    }

    /// The output, before any `ReLU`, added to `base`.
    pub(super) fn output_onto(&self, saved: &UnitSaved, base: Tensor<4>) -> Tensor<4> {
        match saved {
            UnitSaved::Burn(_) => self.output(saved) + base,
            UnitSaved::Fused(saved) => self.fused_output(saved, Some(base), false),
        }
    }

    /// The gradient of the input, if it is wanted.
    pub(super) fn vjp(
        &self,
        Seen { x, dims }: Seen<impl FnOnce() -> Tensor<4>>,
        saved: UnitSaved,
        above: Above,
        wanted: bool,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Option<Tensor<4>> {
        match saved {
            UnitSaved::Burn(saved) => {
                let Above { dy, rest, relu, beside } = above;
                let dy = if let Some(rest) = rest { Tensor::cat(vec![dy, rest], 3) } else { dy };
                let dz = if relu { self.relu_vjp(&saved, dy) } else { dy };
                let dz = if let Some(beside) = beside { dz + beside } else { dz };
                let dc = self.norm.vjp(*saved, dz, &self.conv.bias, gradients);
                self.conv.vjp(x, dims, dc, wanted, context, gradients)
            }
            UnitSaved::Fused(saved) => {
                let dc = self.fused_vjp(*saved, above, context, gradients);
                self.conv.vjp_behind(x, dims, &dc, wanted, context, gradients)
            }
        }
    }

    /// The same where the gradient of the input is always wanted.
    pub(super) fn input_vjp(
        &self,
        seen: Seen<impl FnOnce() -> Tensor<4>>,
        saved: UnitSaved,
        above: Above,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Tensor<4> {
        let dx = self.vjp(seen, saved, above, true, context, gradients);
        dx.expect("the gradient of the input is wanted")
    }

    /// The output's gradient from that of its `ReLU`, on Burn's operations.
    fn relu_vjp(&self, saved: &NormSaved, dy: Tensor<4>) -> Tensor<4> {
        let silent = self.norm.affine(saved.normalised.clone()).lower_equal_scalar(0.0);
        dy.mask_fill(silent, 0.0)
    }

    /// Bytes of what [`Self::run`] gives for an input of shape `dims`, and by how much less in 16 bits.
    pub(super) fn saved_bytes(&self, dims: [usize; 4], context: &Context<'_>) -> [u64; 2] {
        let channels = self.conv.outputs();
        let vectors = if self.fuses(context) {
            FusedSaved::moments_bytes(channels)
        } else {
            (if context.is_training() { 3 } else { 1 } * channels * size_of::<f32>()) as u64
        };
        let values = bytes(self.conv.output(dims));
        [values + vectors, values / 2]
    }
}

/// Units in a row, each followed by a `ReLU`: the last output, and what each saved.
pub(super) fn run_row(
    units: &[ConvNorm],
    x: Tensor<4>,
    context: &Context<'_>,
) -> (Tensor<4>, Vec<UnitSaved>) {
    let saved = run_units(units, &x, context);
    let y = units.last().zip(saved.last()).map_or(x, |(unit, saved)| unit.activation(saved));
    (y, saved)
}

/// What each of them saved, without the last output.
pub(super) fn run_units(units: &[ConvNorm], x: &Tensor<4>, context: &Context<'_>) -> Vec<UnitSaved> {
    let mut saved: Vec<UnitSaved> = Vec::with_capacity(units.len());
    for (index, unit) in units.iter().enumerate() {
        let x = saved.last().map_or_else(|| x.clone(), |below| units[index - 1].activation(below));
        saved.push(unit.run(x, context));
    }
    saved
}

/// A stream: a unit's output, behind a `ReLU` if wanted, with that of another unit added to it. On fused kernels it is on the streams'
/// grid, and what is outside its range was [told](Context::unwatched).
pub(super) fn entering(
    (unit, saved): (&ConvNorm, &UnitSaved),
    relu: bool,
    other: Option<(&ConvNorm, &UnitSaved)>,
    context: &Context<'_>,
) -> Tensor<4> {
    let fused = match (saved, other) {
        (UnitSaved::Fused(saved), None) => Some((saved, None)),
        (UnitSaved::Fused(saved), Some((unit, UnitSaved::Fused(other)))) => {
            Some((saved, Some((unit, &**other))))
        }
        _ => None,
    };
    if let Some((saved, other)) = fused {
        return unit.entering(saved, relu, other, context);
    }
    let y = if relu { unit.activation(saved) } else { unit.output(saved) };
    match other {
        Some((unit, saved)) => unit.output_onto(saved, y),
        None => y,
    }
}

/// Bytes of images and of what `units` save, each of an input of its shape, and by how much less in 16 bits.
pub(super) fn saved_bytes<'u>(
    images: u64,
    units: impl IntoIterator<Item = (&'u ConvNorm, [usize; 4])>,
    context: &Context<'_>,
) -> [u64; 2] {
    units.into_iter().fold([images, images / 2], |[all, spared], (unit, dims)| {
        let [more, less] = unit.saved_bytes(dims, context);
        [all + more, spared + less]
    })
}

/// Bytes of images.
pub(super) fn bytes(dims: [usize; 4]) -> u64 {
    (dims.iter().product::<usize>() * size_of::<f32>()) as u64
}
