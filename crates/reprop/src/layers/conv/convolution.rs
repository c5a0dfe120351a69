//! A convolution with bias, and its derivative.
//!
//! The derivative with respect to the input is the transposed convolution; that with respect to the filters convolves the
//! input with the output's gradient. Where a batch norm follows, the bias is not even added: see
//! [`ConvNorm`](super::ConvNorm).

mod fused;

use burn::config::Config;
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::module::{conv_transpose2d, conv2d, conv2d_weight_backward};
use burn::tensor::ops::{ConvOptions, ConvTransposeOptions};

use crate::kernels::{Floats, Use};
use crate::{Context, Gradients, Precision};

use super::super::Initial;
use super::super::linear::value;
use super::unit::FusedGradient;

/// Settings of a [`Convolution`].
#[derive(Config, Debug)]
pub struct ConvolutionConfig {
    /// Channels of the input.
    pub inputs: usize,
    /// Channels of the output.
    pub outputs: usize,
    /// Side of the square filter; odd.
    pub kernel: usize,
    /// Pixels from one output to the next.
    #[config(default = 1)]
    pub stride: usize,
}

impl ConvolutionConfig {
    /// A convolution with initial parameters: normal values of variance `2 / (kernel^2 outputs)` (He et al., *Delving
    /// deep into rectifiers*, 2015), which keep the magnitude of gradients through a `ReLU`, and no bias.
    pub fn init(&self, initial: &mut Initial) -> Convolution {
        let Self { inputs, outputs, kernel, stride } = *self;
        assert!(kernel % 2 == 1, "a filter of even side {kernel} has no middle");
        let deviation = (2.0 / (kernel * kernel * outputs) as f64).sqrt();
        Convolution {
            weight: initial.truncated_normal_of([kernel, kernel, inputs, outputs], deviation),
            bias: initial.zeros([outputs]),
            stride,
        }
    }
}

/// A convolution whose output has the input's size, divided by the stride.
///
/// # Shapes
///
/// `[batch, height, width, inputs] -> [batch, height / stride, width / stride, outputs]`, rounded up
#[derive(Module, Debug)]
pub struct Convolution {
    /// `[kernel, kernel, inputs, outputs]`.
    pub weight: Param<Tensor<4>>,
    /// `[outputs]`.
    pub bias: Param<Tensor<1>>,
    pub(crate) stride: usize,
}

impl Convolution {
    pub(crate) fn kernel(&self) -> usize {
        self.weight.lazy_shape()[0]
    }

    pub(crate) fn outputs(&self) -> usize {
        self.weight.lazy_shape()[3]
    }

    /// The shape of the output.
    pub(crate) fn output(&self, [batch, height, width, _]: [usize; 4]) -> [usize; 4] {
        [batch, height.div_ceil(self.stride), width.div_ceil(self.stride), self.outputs()]
    }

    fn options(&self) -> ConvOptions<2> {
        let padding = self.kernel() / 2;
        ConvOptions::new([self.stride; 2], [padding; 2], [1; 2], 1)
    }

    /// The filters as Burn takes them: `[outputs, inputs, kernel, kernel]`.
    fn filters(&self, precision: Precision) -> Tensor<4> {
        value(&self.weight, precision).permute([3, 2, 0, 1])
    }

    /// The convolution without its bias.
    pub(super) fn forward(&self, x: Tensor<4>, context: &Context<'_>) -> Tensor<4> {
        if let Some(parts) = self.parts(x.dims(), Use::Forward, context) {
            return parts.forward(x);
        }
        let precision = context.precision();
        let y = conv2d(channels_first(precision.cast(x)), self.filters(precision), None, self.options());
        Precision::F32.cast(channels_last(y))
    }

    /// The gradient of the filters, and that of an input of shape `dims` if it is wanted.
    pub(super) fn vjp(
        &self,
        x: impl FnOnce() -> Tensor<4>,
        dims: [usize; 4],
        dy: Tensor<4>,
        wanted: bool,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Option<Tensor<4>> {
        if let Some(parts) = self.parts(dims, Use::Vjp, context) {
            let dy = Floats::of(dy);
            return parts.vjp(x(), (&dy[..]).into(), wanted, gradients);
        }
        let precision = context.precision();
        let dy = channels_first(precision.cast(dy));
        gradients.add(&self.weight, || {
            let x = channels_first(precision.cast(x()));
            conv2d_weight_backward(x, self.filters(precision), dy.clone(), self.options())
                .permute([2, 3, 1, 0])
        });
        wanted.then(|| {
            let dx = conv_transpose2d(dy, self.filters(precision), None, self.transposed(dims));
            Precision::F32.cast(channels_last(dx))
        })
    }

    /// The same on fused kernels behind a norm.
    pub(super) fn vjp_behind(
        &self,
        x: impl FnOnce() -> Tensor<4>,
        dims: [usize; 4],
        dy: &FusedGradient,
        wanted: bool,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Option<Tensor<4>> {
        let parts =
            self.parts(dims, Use::Vjp, context).expect("a norm on kernels is behind such a convolution");
        parts.vjp(x(), dy.kernel(), wanted, gradients)
    }

    fn transposed(&self, dims: [usize; 4]) -> ConvTransposeOptions<2> {
        let (kernel, padding) = (self.kernel(), self.kernel() / 2);
        let [_, rows, columns, _] = self.output(dims);
        // Pixels at the end that no filter of a strided convolution reached.
        let rest = |input: usize, output: usize| input + 2 * padding - kernel - (output - 1) * self.stride;
        let rest = [rest(dims[1], rows), rest(dims[2], columns)];
        ConvTransposeOptions::new([self.stride; 2], [padding; 2], rest, [1; 2], 1)
    }
}

/// `[batch, height, width, channels] -> [batch, channels, height, width]`
pub(super) fn channels_first(x: Tensor<4>) -> Tensor<4> {
    x.permute([0, 3, 1, 2])
}

/// `[batch, channels, height, width] -> [batch, height, width, channels]`
pub(super) fn channels_last(x: Tensor<4>) -> Tensor<4> {
    x.permute([0, 2, 3, 1])
}
