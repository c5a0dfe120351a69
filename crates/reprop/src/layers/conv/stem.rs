//! The stem of residual networks: a convolution to both streams' channels, batch norm, `ReLU`, and for large images a
//! max-pool.

use burn::config::Config;
use burn::module::Module;
use burn::tensor::module::{max_pool2d_with_indices, max_pool2d_with_indices_backward};
use burn::tensor::ops::MaxPoolOptions;
use burn::tensor::{Int, Tensor};

use crate::kernels::{grid_of, join, split};
use crate::{Context, Error, Footprint, Gradients, Result, Saved, Stem, Storing, Streams};

use super::super::Initial;
use super::convolution::{channels_first, channels_last};
use super::unit::{Above, Seen, UnitSaved, bytes, saved_bytes};
use super::{ConvNorm, ConvolutionConfig};

/// Side of the windows that are pooled.
const POOL: usize = 2;

/// Settings of a [`ConvStem`].
#[derive(Config, Debug)]
pub struct ConvStemConfig {
    /// Side of the square image in pixels.
    pub image: usize,
    /// Channels of the image.
    pub channels: usize,
    /// Channels of each stream.
    pub width: usize,
    /// For large images: a 7x7 convolution of stride 2 and a 2x2 max-pool, instead of a 3x3 convolution.
    pub reduces: bool,
    /// Both streams are the same, for networks of one stream.
    #[config(default = false)]
    pub duplicate: bool,
}

impl ConvStemConfig {
    /// Side of the streams' images.
    pub fn side(&self) -> usize {
        if self.reduces { self.image.div_ceil(2) / POOL } else { self.image }
    }

    /// A stem with initial parameters.
    ///
    /// # Panics
    ///
    /// Panics if pooling leaves nothing of the image.
    pub fn init(&self, initial: &mut Initial) -> ConvStem {
        let Self { image, channels, width, reduces, duplicate } = *self;
        assert!(self.side() > 0, "an image of {image} pixels is too small for a stem that reduces it");
        let (kernel, stride) = if reduces { (7, 2) } else { (3, 1) };
        let config = ConvolutionConfig::new(channels, if duplicate { width } else { 2 * width }, kernel)
            .with_stride(stride);
        ConvStem {
            layer: ConvNorm::new(&config, initial),
            image,
            channels,
            width,
            side: self.side(),
            reduces,
            duplicate,
        }
    }
}

/// From images to two streams: the first and the second half of the channels.
///
/// # Shapes
///
/// `[batch, channels, image, image] -> [batch, side, side, width]` twice
#[derive(Module, Debug)]
pub struct ConvStem {
    /// Convolution and norm.
    pub layer: ConvNorm,
    image: usize,
    channels: usize,
    width: usize,
    side: usize,
    reduces: bool,
    duplicate: bool,
}

/// What the derivative needs.
pub struct StemSaved {
    /// The images with channels last.
    images: Tensor<4>,
    unit: UnitSaved,
    /// Which pixel of each window was the largest.
    largest: Option<Tensor<4, Int>>,
}

impl Saved for StemSaved {
    fn bytes(&self) -> u64 {
        self.images.bytes() + self.unit.bytes() + self.largest.bytes()
    }

    fn store(&mut self, storing: &Storing<'_>) {
        self.images.store(storing);
        self.unit.store(storing);
    }
}

fn pooling() -> MaxPoolOptions<2> {
    MaxPoolOptions::new([POOL; 2]).with_stride([POOL; 2])
}

impl Stem<4> for ConvStem {
    type Input = Tensor<4>;
    type Saved = StemSaved;

    fn check(&self, images: &Tensor<4>) -> Result<()> {
        let Self { image, channels, .. } = *self;
        let [batch, found, height, width] = images.dims();
        if batch == 0 || [found, height, width] != [channels, image, image] {
            return Err(Error::Shape {
                what: "images",
                expected: format!("[1 or more, {channels}, {image}, {image}]"),
                found: format!("[{batch}, {found}, {height}, {width}]"),
            });
        }
        Ok(())
    }

    fn forward_saving(&self, images: Tensor<4>, context: &Context<'_>) -> (Streams<4>, StemSaved) {
        let images = channels_last(images);
        let unit = self.layer.run(images.clone(), context);
        if !self.reduces && !self.duplicate {
            let (x1, x2) = self.layer.activation_halves(&unit, self.width, context);
            return (Streams::new(x1, x2), StemSaved { images, unit, largest: None });
        }
        let y = self.layer.activation(&unit);
        let (y, largest) = if self.reduces {
            let (y, largest) = max_pool2d_with_indices(channels_first(y), pooling());
            (channels_last(y), Some(largest))
        } else {
            (y, None)
        };
        let streams = if self.duplicate {
            Streams::duplicate(y)
        } else if self.layer.fuses(context) {
            let (x1, x2) = split(y, self.width);
            Streams::new(x1, x2)
        } else {
            let half = |start| y.clone().narrow(3, start, self.width);
            Streams::new(half(0), half(self.width))
        };
        (streams, StemSaved { images, unit, largest })
    }

    fn enters(&self, context: &Context<'_>) -> bool {
        !self.reduces && !self.duplicate && self.layer.fuses(context) && grid_of(context).is_some()
    }

    fn vjp(
        &self,
        StemSaved { images, unit, largest }: StemSaved,
        dx: Streams<4>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) {
        let seen = Seen { dims: images.dims(), x: || images };
        let vjp = |unit, above| self.layer.vjp(seen, unit, above, false, context, gradients);
        let Streams { x1, x2 } = dx;
        let Some(largest) = largest else {
            let above = if self.duplicate {
                Above::relu(x1 + x2)
            } else {
                Above { rest: Some(x2), ..Above::relu(x1) }
            };
            vjp(unit, above);
            return;
        };
        let dy = if self.duplicate {
            x1 + x2
        } else if self.layer.fuses(context) {
            join(x1, x2)
        } else {
            Tensor::cat(vec![x1, x2], 3)
        };
        let pooled = channels_first(self.layer.output(&unit));
        let [size, step, none, one] = [[POOL; 2], [POOL; 2], [0; 2], [1; 2]];
        let dy = channels_first(dy);
        let dy = max_pool2d_with_indices_backward(pooled, size, step, none, one, false, dy, largest);
        vjp(unit, Above::relu(channels_last(dy)));
    }

    fn footprint(&self, batch: usize, context: &Context<'_>) -> Option<([usize; 4], Footprint)> {
        let Self { image, channels, width, side, reduces, duplicate, .. } = *self;
        let input = [batch, image, image, channels];
        let output = [batch, side, side, width];
        let pooled = if duplicate { 1 } else { 2 } * output.iter().product::<usize>() * size_of::<i32>();
        let largest = if reduces { pooled as u64 } else { 0 };
        let [saved, spared] = saved_bytes(bytes(input), [(&self.layer, input)], context);
        let wide = bytes(self.layer.conv.output(input));
        Some((output, Footprint { saved: saved + largest, forward: 2 * wide, vjp: 3 * wide, spared }))
    }
}
