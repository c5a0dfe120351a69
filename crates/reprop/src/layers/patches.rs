//! The stem of vision transformers: an image cut into patches, each mapped to a token; positions or a norm may follow.

mod fused;

use burn::config::Config;
use burn::module::{Module, Param};
use burn::nn::{LayerNorm, Linear};
use burn::tensor::Tensor;
use burn::tensor::module::unfold4d;
use burn::tensor::ops::UnfoldOptions;

use crate::kernels::Packed;
use crate::{Context, Error, Footprint, Gradients, Precision, Result, Stem, Streams};

use super::Initial;
use super::linear::{linear, linear_weights_vjp, value};
use super::norm::{affine, norm_vjp, normalise};

/// Settings of [`Patches`].
#[derive(Config, Debug)]
pub struct PatchesConfig {
    /// Side of the square image in pixels.
    pub image: usize,
    /// Side of a square patch; divides the image's.
    pub patch: usize,
    /// Channels of the image.
    pub channels: usize,
    /// Width of a token.
    pub width: usize,
    /// Whether each token has a learned position.
    #[config(default = true)]
    pub positions: bool,
    /// Whether tokens are normalised at the end.
    #[config(default = false)]
    pub norm: bool,
    /// Side of the square of pixels that a token sees, where it is more than its patch: odd, and centred.
    #[config(default = "None")]
    pub kernel: Option<usize>,
}

impl PatchesConfig {
    /// Tokens of an image.
    pub fn tokens(&self) -> usize {
        (self.image / self.patch).pow(2)
    }

    /// A stem with initial parameters.
    ///
    /// # Panics
    ///
    /// Panics if the patch does not divide the image.
    pub fn init(&self, initial: &mut Initial) -> Patches {
        let Self { image, patch, channels, width, positions, norm, kernel } = *self;
        let kernel = kernel.unwrap_or(patch);
        assert!(
            patch > 0 && image > 0 && image.is_multiple_of(patch),
            "patches of {patch} pixels do not divide an image of {image}"
        );
        assert!(
            kernel == patch || kernel > patch && kernel % 2 == 1,
            "a square of {kernel} pixels is not centred on a patch of {patch}"
        );
        Patches {
            projection: initial.linear(channels * kernel * kernel, width),
            positions: positions.then(|| initial.truncated_normal([self.tokens(), width])),
            norm: norm.then(|| initial.norm(width)),
            image,
            patch,
            kernel,
            channels,
            width,
        }
    }
}

/// Cuts an image into patches and maps each to a token; adds a learned position and normalises, where asked for. Both
/// streams begin as the same tokens.
///
/// The projection is a convolution whose stride is the patch, and whose kernel is the patch too or more, with zeros around
/// the image; its weight is kept as a matrix `[channels * kernel * kernel, width]`, rows ordered by channel, then row, then
/// column.
///
/// # Shapes
///
/// `[batch, channels, image, image] -> [batch, tokens, width]`
#[derive(Module, Debug)]
pub struct Patches {
    /// From a patch's pixels to a token.
    pub projection: Linear,
    /// One vector a token: `[tokens, width]`.
    pub positions: Option<Param<Tensor<2>>>,
    /// At the end.
    pub norm: Option<LayerNorm>,
    image: usize,
    patch: usize,
    kernel: usize,
    channels: usize,
    width: usize,
}

impl Patches {
    fn grid(&self) -> usize {
        self.image / self.patch
    }

    /// `[batch, channels, image, image] -> [batch * tokens, channels * kernel * kernel]`
    fn cut(&self, images: Tensor<4>) -> Tensor<2> {
        let (batch, grid) = (images.dims()[0], self.grid());
        if self.kernel > self.patch {
            let around = self.kernel / 2;
            let options = UnfoldOptions::new([self.patch; 2], [around; 2], [1; 2]);
            return unfold4d(images, [self.kernel; 2], options)
                .swap_dims(1, 2)
                .reshape([batch * grid * grid, self.channels * self.kernel * self.kernel]);
        }
        let cut: Tensor<6> = images.reshape([batch, self.channels, grid, self.patch, grid, self.patch]);
        cut.permute([0, 2, 4, 1, 3, 5])
            .reshape([batch * grid * grid, self.channels * self.patch * self.patch])
    }
}

impl Stem<3> for Patches {
    type Input = Tensor<4>;
    /// The patches, and for a norm: the tokens normalised and their scales, or on fused kernels the tokens and their statistics.
    type Saved = (Tensor<2>, Option<(Tensor<3>, Tensor<3>)>);

    fn check(&self, images: &Tensor<4>) -> Result<()> {
        let [batch, channels, height, width] = images.dims();
        if batch == 0 || [channels, height, width] != [self.channels, self.image, self.image] {
            return Err(Error::Shape {
                what: "images",
                expected: format!("[1 or more, {}, {}, {}]", self.channels, self.image, self.image),
                found: format!("[{batch}, {channels}, {height}, {width}]"),
            });
        }
        Ok(())
    }

    fn forward_saving(&self, images: Tensor<4>, context: &Context<'_>) -> (Streams<3>, Self::Saved) {
        let batch = images.dims()[0];
        if self.fuses(context) {
            let patches = self.fused_cut(images);
            let (tokens, normed) = self.fused_tokens(patches.clone(), batch, context);
            return (Streams::duplicate(tokens), (patches, normed));
        }
        let patches = self.cut(images);
        let tokens = linear(patches.clone(), &self.projection, Precision::F32);
        let mut tokens = tokens.reshape([batch, self.grid().pow(2), self.width]);
        if let Some(positions) = &self.positions {
            tokens = tokens + value(positions, Precision::F32).unsqueeze();
        }
        let Some(norm) = &self.norm else {
            return (Streams::duplicate(tokens), (patches, None));
        };
        let (normalised, scale) = normalise(tokens);
        let tokens = affine(normalised.clone(), norm);
        (Streams::duplicate(tokens), (patches, Some((normalised, scale))))
    }

    fn vjp(
        &self,
        (patches, normed): Self::Saved,
        dx: Streams<3>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) {
        let fuses = self.fuses(context);
        let dtokens = if fuses {
            self.fused_tokens_vjp(normed, (dx.x1, dx.x2), context, gradients)
        } else {
            let dtokens = dx.x1 + dx.x2;
            match (&self.norm, normed) {
                (Some(norm), Some((normalised, scale))) => {
                    norm_vjp(normalised, scale, dtokens, norm, gradients)
                }
                _ => dtokens,
            }
        };
        let [batch, tokens, width] = dtokens.dims();
        if let Some(positions) = &self.positions {
            gradients.add(positions, || dtokens.clone().sum_dim(0).squeeze_dim(0));
        }
        // Nothing before the stem needs the patches' own gradient.
        let dtokens = dtokens.reshape([batch * tokens, width]);
        if fuses {
            self.fused_projection_vjp(patches, dtokens, context, gradients);
        } else {
            linear_weights_vjp(|| patches, &dtokens, &self.projection, gradients);
        }
    }

    fn footprint(&self, batch: usize, context: &Context<'_>) -> Option<([usize; 3], Footprint)> {
        let tokens = self.grid().pow(2);
        let pixels = (batch * tokens * self.channels * self.kernel.pow(2) * size_of::<f32>()) as u64;
        let stream = (batch * tokens * self.width * size_of::<f32>()) as u64;
        // A scale of each token, or a mean and a scale.
        let row = (batch * tokens * size_of::<f32>()) as u64;
        let (rows, packed) = if self.fuses(context) {
            (2 * row, Packed::bytes(self.channels * self.kernel.pow(2), self.width))
        } else {
            (row, 0)
        };
        let normed = if self.norm.is_some() { stream + rows } else { 0 };
        let saved = pixels + normed;
        let size = Footprint { saved, forward: stream + packed, vjp: stream, spared: saved / 2 };
        Some(([batch, tokens, self.width], size))
    }
}
