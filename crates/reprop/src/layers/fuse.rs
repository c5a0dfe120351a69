//! Both streams into one, by a perceptron on each token: what a transition between stages begins with.
//!
//! ```text
//! h = x1 W1 + x2 W2 + b,   z = gelu(h) W + b
//! ```
//! `W1` and `W2` are the halves of one weight, so that the streams need not be put side by side. Saved: the streams and `h`.

mod fused;

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::Tensor;
use reprop_kernels::fuse::FuseSaved as KernelSaved;

use super::Initial;
use super::linear::{linear, linear_input_vjp, linear_weights_vjp, value};
use super::mlp::{density, distribution};
use crate::kernels::{Packed, Use, lent, spared};
use crate::{Context, Footprint, Gradients, Precision, Saved, Storing, Streams};

/// A perceptron over both streams.
///
/// # Shapes
///
/// `[batch, tokens, width]` twice `-> [batch, tokens, outputs]`
#[derive(Module, Debug)]
pub struct Fuse {
    /// From both streams to the hidden width, `[2 * width, 2 * width]`: rows of the first stream, then of the second.
    pub expand: Linear,
    /// From the hidden width to one stream.
    pub contract: Linear,
    width: usize,
    outputs: usize,
}

/// What the derivative needs.
pub struct FuseSaved {
    streams: Streams<3>,
    hidden: Hidden,
}

/// `h`, by the way that it was computed.
enum Hidden {
    Burn(Box<Tensor<2>>),
    Fused { kernel: KernelSaved, bytes: u64 },
}

impl Saved for FuseSaved {
    fn bytes(&self) -> u64 {
        self.streams.bytes()
            + match &self.hidden {
                Hidden::Burn(h) => h.bytes(),
                Hidden::Fused { bytes, .. } => *bytes,
            }
    }

    fn store(&mut self, storing: &Storing<'_>) {
        self.streams.store(storing);
        match &mut self.hidden {
            Hidden::Burn(h) => h.store(storing),
            Hidden::Fused { kernel, bytes } => *bytes = bytes.saturating_add_signed(-storing.kernel(kernel)),
        }
    }
}

impl Fuse {
    /// For streams of `width`.
    pub(super) fn new(width: usize, outputs: usize, initial: &mut Initial) -> Self {
        let expand = initial.linear(2 * width, 2 * width);
        Self { expand, contract: initial.linear(2 * width, outputs), width, outputs }
    }

    /// The one stream, and what [`Self::vjp`] needs.
    pub(super) fn forward_saving(&self, x: Streams<3>, context: &Context<'_>) -> (Tensor<3>, FuseSaved) {
        if let Some(parts) = self.parts(Use::Forward, context) {
            return self.fused_forward(&parts, x);
        }
        let precision = context.precision();
        let [batch, tokens, width] = x.dims();
        let rows = |x: &Tensor<3>| precision.cast(x.clone()).reshape([batch * tokens, width]);
        let h = rows(&x.x1).matmul(self.half(0, precision)) + rows(&x.x2).matmul(self.half(1, precision));
        let h = match &self.expand.bias {
            Some(bias) => h + value(bias, precision).unsqueeze(),
            None => h,
        };
        let z = linear(distribution(h.clone()) * h.clone(), &self.contract, precision);
        let z = Precision::F32.cast(z).reshape([batch, tokens, self.outputs]);
        (z, FuseSaved { streams: x, hidden: Hidden::Burn(Box::new(h)) })
    }

    /// From the gradient of the one stream those of both.
    pub(super) fn vjp(
        &self,
        FuseSaved { streams, hidden }: FuseSaved,
        dz: Tensor<3>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Streams<3> {
        let h = match hidden {
            Hidden::Burn(h) => *h,
            Hidden::Fused { kernel, .. } => return self.fused_vjp(streams, kernel, dz, context, gradients),
        };
        let precision = context.precision();
        let [batch, tokens, width] = streams.dims();
        let rows = |x: Tensor<3>| precision.cast(x).reshape([batch * tokens, width]);
        let dz = precision.cast(dz).reshape([batch * tokens, self.outputs]);
        let distribution = distribution(h.clone());
        let slope = density(h.clone()) * h.clone() + distribution.clone();
        linear_weights_vjp(move || distribution * h, &dz, &self.contract, gradients);
        let dh = slope * linear_input_vjp(dz, &self.contract, precision);
        gradients.add(&self.expand.weight, || {
            let part = |x| rows(x).transpose().matmul(dh.clone());
            Tensor::cat(vec![part(streams.x1), part(streams.x2)], 0)
        });
        if let Some(bias) = &self.expand.bias {
            gradients.add(bias, || dh.clone().sum_dim(0).squeeze_dim(0));
        }
        let dx = |stream| {
            let dx = dh.clone().matmul(self.half(stream, precision).transpose());
            Precision::F32.cast(dx).reshape([batch, tokens, width])
        };
        Streams::new(dx(0), dx(1))
    }

    /// What it needs for streams of shape `dims`.
    pub(super) fn footprint(&self, [batch, tokens, width]: [usize; 3], context: &Context<'_>) -> Footprint {
        let rows = batch * tokens;
        let stream = (rows * width * size_of::<f32>()) as u64;
        if self.fuses(context) {
            let (hidden, packed) = (rows * 2 * width, self.packed_bytes());
            return Footprint {
                saved: 2 * stream + lent([hidden]),
                spared: stream + spared([hidden]),
                forward: packed,
                // Both streams' gradients, and that of `h`.
                vjp: packed + 2 * stream + lent([hidden]),
            };
        }
        let half = context.precision().bytes();
        let (hidden, outputs) = ((rows * 2 * width) as u64, (rows * self.outputs) as u64);
        let saved = 2 * stream + half * hidden;
        Footprint {
            saved,
            spared: saved / 2,
            // `gelu(h)`, and the one stream twice.
            forward: half * (hidden + outputs),
            // The derivative of `h`, twice; then the gradients of both streams.
            vjp: half * 2 * hidden + 2 * stream,
        }
    }

    fn packed_bytes(&self) -> u64 {
        Packed::bytes(2 * self.width, 2 * self.width) + Packed::bytes(2 * self.width, self.outputs)
    }

    /// The half of the weight that belongs to a stream.
    fn half(&self, stream: usize, precision: Precision) -> Tensor<2> {
        value(&self.expand.weight, precision).narrow(0, stream * self.width, self.width)
    }
}
