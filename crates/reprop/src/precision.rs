//! The precision in which F and G compute.

use burn::tensor::{DType, Tensor};

/// What F and G compute in. The streams stay exact in four bytes whatever is chosen, so recomputation gives the same
/// bits in half precision too.
///
/// ```
/// use reprop::{Pass, Precision};
///
/// let pass = Pass::training(42).precision(Precision::Bf16);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// 32-bit floats.
    #[default]
    F32,
    /// Brain floats: the range of `f32` with 8 bits of significand.
    Bf16,
    /// Half floats: 11 bits of significand, overflow above 65504. Scale the loss.
    F16,
}

impl Precision {
    /// Burn's name for it.
    pub fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::Bf16 => DType::BF16,
            Self::F16 => DType::F16,
        }
    }

    /// Bytes of one element.
    pub fn bytes(self) -> u64 {
        self.dtype().size() as u64
    }

    /// `x` in this precision.
    pub fn cast<const D: usize>(self, x: Tensor<D>) -> Tensor<D> {
        if x.dtype() == self.dtype() { x } else { x.cast(self.dtype()) }
    }
}
