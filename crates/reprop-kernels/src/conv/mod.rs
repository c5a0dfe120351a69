//! Convolutions on images stored height x width x channels, weights stored height x width x inputs x outputs.

mod branch;
mod depthwise;
mod direct;
mod points;
pub mod pool;
mod ring;
mod runs;
mod source;
mod split;
mod squares;
mod strided;
mod taps;
mod three;
mod tiles;
mod weight;
mod winograd;

pub use branch::{Branch, BranchSaved, ConvNorm, ConvNormGrads};
pub use depthwise::Depthwise;
pub use direct::Conv2d;
pub use strided::Strided3x3;
pub use taps::Slide;
pub use three::Conv3x3;
pub use weight::{Stride, WinogradWeight};

/// A batch of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Images {
    /// How many.
    pub batch: usize,
    /// Rows of pixels.
    pub height: usize,
    /// Pixels in a row.
    pub width: usize,
}

impl Images {
    /// Pixels of one image.
    pub fn pixels(self) -> usize {
        self.height * self.width
    }

    /// Floats of all images with `channels` channels.
    pub fn len(self, channels: usize) -> usize {
        self.batch * self.pixels() * channels
    }

    /// Whether there is no pixel.
    pub fn is_empty(self) -> bool {
        self.batch * self.pixels() == 0
    }
}
