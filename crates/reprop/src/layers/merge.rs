//! The transition between two stages of a Swin transformer: both streams are fused into one by a perceptron, and each
//! square of four tokens is merged into one of twice the width.
//!
//! ```text
//! z = gelu([x1, x2] W + b) W + b,   y = norm(four tokens of z side by side) M
//! ```
//! Saved on Burn's operations: what the perceptron saves, the merged tokens normalised, and their scale; on fused kernels
//! `z` and the norm's statistics.

mod fused;

use burn::config::Config;
use burn::module::Module;
use burn::nn::{LayerNorm, Linear};
use burn::tensor::Tensor;
use reprop_kernels::Buffer;

use super::Initial;
use super::fuse::{Fuse, FuseSaved};
use super::linear::{linear, linear_vjp};
use super::norm::{affine, norm_vjp, normalise};
use crate::kernels::{Packed, Use, lent};
use crate::{AnySaved, Context, Footprint, Gradients, Precision, Saved, Storing, Streams, Transition};

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
            fuse: Fuse::new(width, width, initial),
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
    /// From both streams to one.
    pub fuse: Fuse,
    /// Over four tokens: above left, below left, above right, below right.
    pub norm: LayerNorm,
    /// From four tokens to one, without bias.
    pub reduction: Linear,
    side: usize,
    width: usize,
}

/// What the derivative needs.
struct MergeSaved {
    fuse: FuseSaved,
    tokens: TokensSaved,
}

/// Of the merging, by the way that it went.
enum TokensSaved {
    /// Merged tokens normalised, and their scale.
    Burn(Box<(Tensor<2>, Tensor<2>)>),
    /// All tokens, and the norm's statistics.
    Fused(Box<(Tensor<3>, Buffer)>),
}

impl Saved for MergeSaved {
    fn bytes(&self) -> u64 {
        self.fuse.bytes()
            + match &self.tokens {
                TokensSaved::Burn(saved) => saved.bytes(),
                TokensSaved::Fused(saved) => saved.0.bytes() + lent([saved.1.len()]),
            }
    }

    fn store(&mut self, storing: &Storing<'_>) {
        self.fuse.store(storing);
        match &mut self.tokens {
            TokensSaved::Burn(saved) => saved.store(storing),
            TokensSaved::Fused(saved) => saved.0.store(storing),
        }
    }
}

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
}

impl Transition<3> for Merge {
    fn forward_saving(&self, x: Streams<3>, context: &Context<'_>) -> (Streams<3>, AnySaved) {
        let [batch, tokens, width] = x.dims();
        let (z, fuse) = self.fuse.forward_saving(x, context);
        let (y, tokens) = if let Some(parts) = self.parts(batch, Use::Forward, context) {
            parts.forward(z)
        } else {
            let precision = context.precision();
            let (normalised, scale) = normalise(self.squares(z.reshape([batch * tokens, width])));
            let input = precision.cast(affine(normalised.clone(), &self.norm));
            let y = Precision::F32.cast(linear(input, &self.reduction, precision));
            (y.reshape([batch, tokens / 4, 2 * width]), TokensSaved::Burn(Box::new((normalised, scale))))
        };
        (Streams::duplicate(y), AnySaved::new(MergeSaved { fuse, tokens }))
    }

    fn vjp(
        &self,
        saved: AnySaved,
        dy: Streams<3>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Streams<3> {
        let MergeSaved { fuse, tokens } = saved.into::<MergeSaved>();
        let [batch, merged, width] = dy.dims();
        let dy = dy.x1 + dy.x2;
        let dz = match tokens {
            TokensSaved::Fused(saved) => {
                let (z, stats) = *saved;
                self.fused_vjp(z, &stats, dy, context, gradients)
            }
            TokensSaved::Burn(saved) => {
                let (normalised, scale) = *saved;
                let precision = context.precision();
                let dy = precision.cast(dy).reshape([batch * merged, width]);
                let input = {
                    let normalised = normalised.clone();
                    move || precision.cast(affine(normalised, &self.norm))
                };
                let dinput = linear_vjp(input, dy, &self.reduction, precision, gradients);
                let dinput = Precision::F32.cast(dinput);
                let dz = self.tokens(norm_vjp(normalised, scale, dinput, &self.norm, gradients));
                dz.reshape([batch, 4 * merged, self.width])
            }
        };
        self.fuse.vjp(fuse, dz, context, gradients)
    }

    fn footprint(
        &self,
        dims @ [batch, tokens, width]: [usize; 3],
        context: &Context<'_>,
    ) -> Option<([usize; 3], Footprint)> {
        let merged = batch * tokens / 4;
        let stream = (batch * tokens * width * size_of::<f32>()) as u64;
        let fuse = self.fuse.footprint(dims, context);
        let (saved, spared, forward, vjp) = if self.fuses(context) {
            let packed = Packed::bytes(4 * width, 2 * width);
            // The norm's output.
            (stream + lent([2 * merged]), stream / 2, packed, packed + lent([merged * 4 * width]))
        } else {
            // Tokens before and after they are merged, and the norm's output; their gradients.
            let saved = stream + (merged * size_of::<f32>()) as u64;
            (saved, saved / 2, 2 * stream, 3 * stream)
        };
        let size = Footprint {
            saved: fuse.saved + saved,
            spared: fuse.spared + spared,
            forward: forward.max(fuse.forward.saturating_sub(saved)),
            // Gradients of the output, of half as much, and of the fused stream.
            vjp: (vjp + stream + stream / 2).max((fuse.vjp + stream).saturating_sub(saved)),
        };
        Some(([batch, tokens / 4, 2 * width], size))
    }
}
