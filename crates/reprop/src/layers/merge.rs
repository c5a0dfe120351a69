//! The transition between two stages of a Swin transformer: both streams are fused into one by a perceptron, and each
//! square of four tokens is merged into one of twice the width.
//!
//! ```text
//! h = x1 W1 + x2 W2 + b,   z = gelu(h) W + b,   y = norm(four tokens of z side by side) M
//! ```
//! `W1` and `W2` are the halves of one weight, so that the streams need not be put side by side. Saved: the streams, `h`,
//! the merged tokens normalised, and their scale.

use burn::config::Config;
use burn::module::Module;
use burn::nn::{LayerNorm, Linear};
use burn::tensor::Tensor;

use super::Initial;
use super::linear::{linear, linear_input_vjp, linear_vjp, linear_weights_vjp, value};
use super::mlp::{density, distribution};
use super::norm::{affine, norm_vjp, normalise};
use crate::{AnySaved, Context, Footprint, Gradients, Precision, Streams, Transition};

/// Settings of a [`Merge`].
#[derive(Config, Debug)]
pub struct MergeConfig {
    /// Tokens along one side of the square image; even.
    pub side: usize,
    /// Width of each stream.
    pub width: usize,
}

impl MergeConfig {
    /// A transition with initial parameters.
    ///
    /// # Panics
    ///
    /// Panics if the side is odd.
    pub fn init(&self, initial: &mut Initial) -> Merge {
        let Self { side, width } = *self;
        assert!(side.is_multiple_of(2), "four tokens are merged into one, but a side of {side} is odd");
        let reduction = initial.truncated_normal([4 * width, 2 * width]);
        Merge {
            expand: initial.linear(2 * width, 2 * width),
            contract: initial.linear(2 * width, width),
            norm: initial.norm(4 * width),
            reduction: Linear { weight: reduction, bias: None },
            side,
            width,
        }
    }
}

/// Fuses both streams, merges four tokens into one, and begins two equal streams.
///
/// # Shapes
///
/// `[batch, side * side, width]` twice `-> [batch, side * side / 4, 2 * width]` twice
#[derive(Module, Debug)]
pub struct Merge {
    /// From both streams to the hidden width, `[2 * width, 2 * width]`: rows of the first stream, then of the second.
    pub expand: Linear,
    /// From the hidden width to one stream.
    pub contract: Linear,
    /// Over four tokens: above left, below left, above right, below right.
    pub norm: LayerNorm,
    /// From four tokens to one, without bias.
    pub reduction: Linear,
    side: usize,
    width: usize,
}

/// Streams as rows, `h`, the merged tokens normalised, and their scale.
type Saved = (Tensor<2>, Tensor<2>, Tensor<2>, Tensor<2>, Tensor<2>);

impl Merge {
    /// `[batch * side * side, width] -> [batch * side * side / 4, 4 * width]`
    fn squares(&self, tokens: Tensor<2>) -> Tensor<2> {
        let half = self.side / 2;
        let rows = tokens.dims()[0];
        let cut: Tensor<6> = tokens.reshape([rows / (4 * half * half), half, 2, half, 2, self.width]);
        cut.permute([0, 1, 3, 4, 2, 5]).reshape([rows / 4, 4 * self.width])
    }

    /// The inverse of [`Self::squares`].
    fn tokens(&self, squares: Tensor<2>) -> Tensor<2> {
        let half = self.side / 2;
        let rows = squares.dims()[0];
        let cut: Tensor<6> = squares.reshape([rows / (half * half), half, half, 2, 2, self.width]);
        cut.permute([0, 1, 4, 2, 3, 5]).reshape([4 * rows, self.width])
    }

    /// The half of the weight that belongs to a stream.
    fn half(&self, stream: usize, precision: Precision) -> Tensor<2> {
        value(&self.expand.weight, precision).narrow(0, stream * self.width, self.width)
    }
}

impl Transition<3> for Merge {
    fn forward_saving(&self, x: Streams<3>, context: &Context<'_>) -> (Streams<3>, AnySaved) {
        let precision = context.precision();
        let [batch, tokens, width] = x.dims();
        let rows = |x: Tensor<3>| precision.cast(x).reshape([batch * tokens, width]);
        let (x1, x2) = (rows(x.x1), rows(x.x2));
        let h = x1.clone().matmul(self.half(0, precision)) + x2.clone().matmul(self.half(1, precision));
        let h = match &self.expand.bias {
            Some(bias) => h + value(bias, precision).unsqueeze(),
            None => h,
        };
        let fused = linear(distribution(h.clone()) * h.clone(), &self.contract, precision);
        let (normalised, scale) = normalise(self.squares(Precision::F32.cast(fused)));
        let input = precision.cast(affine(normalised.clone(), &self.norm));
        let y = Precision::F32.cast(linear(input, &self.reduction, precision));
        let y = y.reshape([batch, tokens / 4, 2 * width]);
        (Streams::duplicate(y), AnySaved::new::<Saved>((x1, x2, h, normalised, scale)))
    }

    fn vjp(
        &self,
        saved: AnySaved,
        dy: Streams<3>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Streams<3> {
        let precision = context.precision();
        let (x1, x2, h, normalised, scale) = saved.into::<Saved>();
        let [batch, tokens, width] = dy.dims();
        let dy = precision.cast(dy.x1 + dy.x2).reshape([batch * tokens, width]);
        let input = {
            let normalised = normalised.clone();
            move || precision.cast(affine(normalised, &self.norm))
        };
        let dinput = Precision::F32.cast(linear_vjp(input, dy, &self.reduction, precision, gradients));
        let dfused = self.tokens(norm_vjp(normalised, scale, dinput, &self.norm, gradients));
        let dfused = precision.cast(dfused);

        let distribution = distribution(h.clone());
        let slope = density(h.clone()) * h.clone() + distribution.clone();
        linear_weights_vjp(move || distribution * h, &dfused, &self.contract, gradients);
        let dh = slope * linear_input_vjp(dfused, &self.contract, precision);
        gradients.add(&self.expand.weight, || {
            let part = |x: Tensor<2>| x.transpose().matmul(dh.clone());
            Tensor::cat(vec![part(x1), part(x2)], 0)
        });
        if let Some(bias) = &self.expand.bias {
            gradients.add(bias, || dh.clone().sum_dim(0).squeeze_dim(0));
        }
        let dx = |stream| {
            let dx = dh.clone().matmul(self.half(stream, precision).transpose());
            Precision::F32.cast(dx).reshape([batch, 4 * tokens, self.width])
        };
        Streams::new(dx(0), dx(1))
    }

    fn footprint(
        &self,
        [batch, tokens, width]: [usize; 3],
        context: &Context<'_>,
    ) -> Option<([usize; 3], Footprint)> {
        let rows = (batch * tokens) as u64;
        let stream = rows * width as u64;
        let half = context.precision().bytes();
        let saved = half * 4 * stream + 4 * (stream + rows / 4);
        // The fused stream before and after its tokens are merged, beside `gelu(h)`.
        let forward = half * 2 * stream + 4 * stream;
        // The derivative of `h`, twice, beside the fused stream's; then the gradients of both streams.
        let vjp = half * 4 * stream + 4 * stream;
        Some(([batch, tokens / 4, 2 * width], Footprint { saved, forward, vjp }))
    }
}
