//! Convolutions with batch norms, the parts of residual networks.
//!
//! Images are `[batch, height, width, channels]`, filters `[height, width, inputs, outputs]`: channels side by side, as
//! the kernels read them.

mod batch_norm;
mod branch;
mod convolution;
mod downsample;
mod plain_downsample;
mod stem;
mod unit;

pub use batch_norm::BatchNorm;
pub use branch::{ConvBranch, ConvBranchConfig};
pub use convolution::{Convolution, ConvolutionConfig};
pub use downsample::{Downsample, DownsampleConfig};
pub use plain_downsample::PlainDownsample;
pub use stem::{ConvStem, ConvStemConfig};
pub use unit::ConvNorm;
