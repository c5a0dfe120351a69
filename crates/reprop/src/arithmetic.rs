//! Arithmetic of the residual streams: exact on a grid, or plain floating point.
//!
//! A coupling is undone by subtracting what was added. In floating point `(x + f) - f` is not `x`. On a grid it is:
//! let every stream value be a multiple of `2^-k` with magnitude below `2^(24-k)`. Such values fill an `f32`
//! exactly, and so does the sum of two of them while it stays below the bound, because a 24-bit significand reaches
//! from `2^-k` to `2^(24-k)`. The sub-block's output is rounded to the grid, `Q(f)`, and then `x + Q(f)` and
//! `y - Q(f)` are both exact: the inverse holds at any depth, in the same four bytes, with no side information.
//!
//! Rounding is part of the forward under every strategy, and is taken as the identity by gradients.

use burn::tensor::{DType, Device, Tensor};
pub use reprop_kernels::grid::Direction;

use crate::{Error, Result, host};

/// How the two residual streams are added to.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use reprop::Arithmetic;
///
/// let exact = Arithmetic::default();
/// let x = exact.enter(Tensor::<1>::from_floats([0.1, -3.7], &Device::flex()));
/// let f = Tensor::<1>::from_floats([1e-3, 2.0 / 3.0], &Device::flex());
/// let y = exact.add(x.clone(), f.clone());
/// assert_eq!(exact.subtract(y, f).to_data(), x.to_data());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// Multiples of `2^-fraction_bits`: the inverse is exact at any depth while magnitudes stay below
    /// `2^(24 - fraction_bits)`, which is checked.
    Exact {
        /// Bits right of the point.
        fraction_bits: u32,
    },
    /// Plain `f32`: the inverse drifts, so that recomputed gradients are close to stored ones, not equal. How far
    /// is a matter of the weights, which let errors grow: over 48 blocks of a small `RevViT` streams came back to within
    /// `2e-4`, and gradients to within `3e-5` of their largest value.
    Float,
}

/// Resolution `2^-14 = 6.1e-5`, range `2^10 = 1024`.
const DEFAULT_FRACTION_BITS: u32 = 14;
/// The significand of an `f32`, with its hidden bit.
const SIGNIFICAND_BITS: u32 = 24;

impl Default for Arithmetic {
    fn default() -> Self {
        Self::Exact { fraction_bits: DEFAULT_FRACTION_BITS }
    }
}

impl Arithmetic {
    /// Values as they enter the streams: rounded to the grid once.
    ///
    /// Adding zero turns `-0.0` into `0.0`. From then on no stream holds a negative zero, since a sum is `-0.0` only
    /// where both of its terms are; so the inverse gives back the sign of zero as well.
    pub fn enter<const D: usize>(self, x: Tensor<D>) -> Tensor<D> {
        self.quantize(settled(x.cast(DType::F32))).add_scalar(0.0)
    }

    /// `x (+) Q(f)`.
    pub fn add<const D: usize>(self, x: Tensor<D>, f: Tensor<D>) -> Tensor<D> {
        x + self.quantize(settled(f))
    }

    /// `y (-) Q(f)`, which undoes [`Self::add`].
    pub fn subtract<const D: usize>(self, y: Tensor<D>, f: Tensor<D>) -> Tensor<D> {
        y - self.quantize(settled(f))
    }

    /// `base ± Q(f)`: [`Self::add`] or [`Self::subtract`].
    pub fn apply<const D: usize>(self, base: Tensor<D>, f: Tensor<D>, direction: Direction) -> Tensor<D> {
        match direction {
            Direction::Add => self.add(base, f),
            Direction::Subtract => self.subtract(base, f),
        }
    }

    /// `Q`: to the nearest point of the grid, ties to even.
    fn quantize<const D: usize>(self, f: Tensor<D>) -> Tensor<D> {
        match self {
            Self::Exact { fraction_bits } => {
                let scale = (fraction_bits as f32).exp2();
                f.mul_scalar(scale).round().mul_scalar(scale.recip())
            }
            Self::Float => f,
        }
    }

    /// The magnitude below which additions are exact.
    pub fn limit(self) -> Option<f32> {
        match self {
            Self::Exact { fraction_bits } => {
                Some(((SIGNIFICAND_BITS as f32) - (fraction_bits as f32)).exp2())
            }
            Self::Float => None,
        }
    }
}

/// `x` with its elements in row-major order on devices other than the CPU. There the strides of a tensor choose the kernel
/// of a product or convolution, and with it the order of its sums; a sub-block that ends with a permutation hands its
/// strides on to the stream that it is added to, but not in the same way when it is subtracted again.
fn settled<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    if x.device() == Device::flex() {
        return x;
    }
    let dims = x.dims();
    let elements: usize = dims.iter().product();
    x.reshape([elements]).reshape(dims)
}

/// The extremes that streams reached, kept on the device until they are asked for, so that the check costs one wait a
/// pass and not one a block. The smallest and the largest value are found without a copy of the stream, which its
/// magnitudes would need.
#[derive(Clone, Debug)]
pub struct RangeWatch {
    arithmetic: Arithmetic,
    extremes: Vec<Tensor<1>>,
}

impl RangeWatch {
    /// Watches streams of `arithmetic`.
    pub fn new(arithmetic: Arithmetic) -> Self {
        Self { arithmetic, extremes: Vec::new() }
    }

    /// Looks at a stream.
    pub fn look<const D: usize>(&mut self, x: &Tensor<D>) {
        if self.arithmetic.limit().is_some() {
            self.extremes.extend([x.clone().max(), x.clone().min()]);
        }
    }

    /// An error if a stream left its range.
    ///
    /// # Errors
    ///
    /// [`Error::RangeOverflow`] with the magnitude reached.
    pub fn check(self) -> Result<()> {
        let (Arithmetic::Exact { fraction_bits }, Some(limit)) = (self.arithmetic, self.arithmetic.limit())
        else {
            return Ok(());
        };
        if self.extremes.is_empty() {
            return Ok(());
        }
        // All of them are read: a maximum of pairs on the device would pass over a value that is not a number.
        let extremes = host::read(Tensor::cat(self.extremes, 0));
        let reached = extremes.iter::<f32>().map(f32::abs).fold(0.0, |reached: f32, magnitude| {
            if reached.is_nan() || reached >= magnitude { reached } else { magnitude }
        });
        // Written so that a value that is not a number fails.
        if reached < limit { Ok(()) } else { Err(Error::RangeOverflow { reached, limit, fraction_bits }) }
    }
}
