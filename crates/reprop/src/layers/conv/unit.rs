//! A convolution and the batch norm after it: what convolutional sub-blocks are made of.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::activation::relu;

use crate::{Context, Gradients, Saved};

use super::super::Initial;
use super::batch_norm::NormSaved;
use super::{BatchNorm, Convolution, ConvolutionConfig};

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
pub(super) struct UnitSaved(NormSaved);

impl Saved for UnitSaved {
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }
}

impl UnitSaved {
    /// The shape of the output.
    pub(super) fn dims(&self) -> [usize; 4] {
        self.0.normalised.dims()
    }
}

impl ConvNorm {
    pub(super) fn new(config: &ConvolutionConfig, initial: &mut Initial) -> Self {
        let conv = config.init(initial);
        Self { conv, norm: BatchNorm::new(config.outputs, initial) }
    }

    /// What the output and the derivative are computed from.
    pub(super) fn run(&self, x: Tensor<4>, context: &Context<'_>) -> UnitSaved {
        let c = self.conv.forward(x, context);
        UnitSaved(self.norm.normalise(c, &self.conv.bias, context.is_training()))
    }

    /// The output, before any `ReLU`.
    pub(super) fn output(&self, UnitSaved(saved): &UnitSaved) -> Tensor<4> {
        self.norm.affine(saved.normalised.clone())
    }

    /// The output's gradient from that of its `ReLU`.
    pub(super) fn relu_vjp(&self, saved: &UnitSaved, dy: Tensor<4>) -> Tensor<4> {
        let silent = self.output(saved).lower_equal_scalar(0.0);
        dy.mask_fill(silent, 0.0)
    }

    /// From the gradient of the output, before its `ReLU`, that of an input of shape `dims`, if it is wanted.
    pub(super) fn vjp(
        &self,
        (x, dims): (impl FnOnce() -> Tensor<4>, [usize; 4]),
        UnitSaved(saved): UnitSaved,
        dz: Tensor<4>,
        wanted: bool,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Option<Tensor<4>> {
        let dc = self.norm.vjp(saved, dz, &self.conv.bias, gradients);
        self.conv.vjp(x, dims, dc, wanted, context, gradients)
    }

    /// The same where the gradient of the input is always wanted.
    pub(super) fn input_vjp(
        &self,
        x: impl FnOnce() -> Tensor<4>,
        dims: [usize; 4],
        saved: UnitSaved,
        dz: Tensor<4>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Tensor<4> {
        let dx = self.vjp((x, dims), saved, dz, true, context, gradients);
        dx.expect("the gradient of the input is wanted")
    }

    /// Bytes of what [`Self::run`] gives for an input of shape `dims`.
    pub(super) fn saved_bytes(&self, dims: [usize; 4], context: &Context<'_>) -> u64 {
        let vectors = if context.is_training() { 3 } else { 1 };
        bytes(self.conv.output(dims)) + (vectors * self.conv.outputs() * size_of::<f32>()) as u64
    }
}

/// Units in a row, each followed by a `ReLU`: the last output, and what each saved.
pub(super) fn run_row(
    units: &[ConvNorm],
    x: Tensor<4>,
    context: &Context<'_>,
) -> (Tensor<4>, Vec<UnitSaved>) {
    let mut saved = Vec::with_capacity(units.len());
    let y = units.iter().fold(x, |x, unit| {
        let run = unit.run(x, context);
        let y = relu(unit.output(&run));
        saved.push(run);
        y
    });
    (y, saved)
}

/// Bytes of images.
pub(super) fn bytes(dims: [usize; 4]) -> u64 {
    (dims.iter().product::<usize>() * size_of::<f32>()) as u64
}
