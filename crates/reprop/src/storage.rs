//! How what is saved is kept until its backward: as it was computed, or in 16 bits.

use std::fmt;
use std::str::FromStr;

use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::tensor::{Bytes, DType, Device, Element, Tensor, TensorData, bf16, f16};
use reprop_kernels::heap::{blank, blank_sixteens};
use reprop_kernels::sixteen::{Format, Rounds, narrow, widen};

use crate::Workspace;
use crate::kernels::{Floats, tensor};

/// What saved tensors are kept in between a forward and its backward. All arithmetic is in [`Precision`](crate::Precision),
/// whatever is chosen here, and so are the loss and the streams.
///
/// In 16 bits, what a stored network or a kept block holds takes half the memory, for one pass over it there and one back. Its
/// gradients are then approximations: those of saved tensors rounded to nearest. Streams that blocks are recovered from are
/// never rounded, nor are what recovered blocks save, integers, and the norms' statistics.
///
/// ```
/// use burn::tensor::{Device, Distribution, Int, Tensor};
/// use reprop::{Network, Pass, Storage, Strategy};
/// use reprop_models::RevVitConfig;
///
/// let network = RevVitConfig { depth: 4, ..RevVitConfig::digits() }.init(42, &Device::flex().autodiff());
/// let images = Tensor::<4>::random([8, 1, 8, 8], Distribution::Default, &Device::flex());
/// let labels = Tensor::<1, Int>::zeros([8], &Device::flex());
/// let peak = |storage| {
///     let pass = Pass::training(42).saved_in(storage);
///     let step = network.step(images.clone(), labels.clone(), pass, Strategy::Stored)?;
///     Ok::<_, reprop::Error>(step.memory.activation_peak)
/// };
/// assert!(peak(Storage::Bf16)? < peak(Storage::F32)?);
/// # Ok::<(), reprop::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Storage {
    /// As they were computed. Gradients have the same bits whichever the strategy.
    #[default]
    F32,
    /// Brain floats: the range of `f32` with 8 bits of significand.
    Bf16,
    /// Half floats: 11 bits of significand. Values beyond 65504 become infinite, and with them the gradients; small ones lose
    /// bits below `2^-14`. Networks with norms stay well between the two.
    F16,
}

impl Storage {
    /// Burn's name for it.
    pub fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::Bf16 => DType::BF16,
            Self::F16 => DType::F16,
        }
    }

    fn format(self) -> Option<Format> {
        match self {
            Self::F32 => None,
            Self::Bf16 => Some(Format::Bf16),
            Self::F16 => Some(Format::F16),
        }
    }
}

impl fmt::Display for Storage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        })
    }
}

/// A name that is not one of [`Storage`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("saved tensors cannot be kept in `{0}`: choose f32, bf16 or f16")]
pub struct UnknownStorage(String);

impl FromStr for Storage {
    type Err = UnknownStorage;

    fn from_str(name: &str) -> Result<Self, UnknownStorage> {
        match name {
            "f32" => Ok(Self::F32),
            "bf16" => Ok(Self::Bf16),
            "f16" => Ok(Self::F16),
            _ => Err(UnknownStorage(name.to_owned())),
        }
    }
}

/// Moves saved tensors from four bytes to the two they are kept in, or back. [`Saved::store`](crate::Saved::store) shows it those
/// that may be rounded.
#[derive(Clone, Copy, Debug)]
pub struct Storing<'p> {
    to: Storage,
    workspace: &'p Workspace,
}

impl<'p> Storing<'p> {
    pub(crate) fn new(to: Storage, workspace: &'p Workspace) -> Self {
        Self { to, workspace }
    }

    /// Moves `x`, if it is one of floats off any graph. Who else has the tensor keeps it as it is.
    pub fn tensor<const D: usize>(&self, x: &mut Tensor<D>) {
        let sixteen = |dtype| matches!(dtype, DType::BF16 | DType::F16);
        let moves = if self.to == Storage::F32 { sixteen(x.dtype()) } else { x.dtype() == DType::F32 };
        if !moves || x.is_autodiff() {
            return;
        }
        let old = x.clone();
        *x = match (old.dtype(), self.to.format()) {
            _ if old.device() != Device::flex() => old.cast(self.to.dtype()),
            (_, Some(format)) => self.narrowed(old, format),
            (DType::BF16, None) => self.widened::<D, bf16>(old, Format::Bf16),
            (_, None) => self.widened::<D, f16>(old, Format::F16),
        };
    }

    /// Moves what a kernel saved, and says by how many bytes less it holds; less than none on the way back.
    pub(crate) fn kernel(&self, saved: &mut impl Rounds) -> i64 {
        let mut less = 0;
        for buffer in saved.values() {
            less += buffer.bytes() as i64;
            match self.to.format() {
                Some(format) => buffer.narrow(format),
                None => buffer.widen(),
            }
            less -= buffer.bytes() as i64;
        }
        less
    }

    fn narrowed<const D: usize>(&self, x: Tensor<D>, format: Format) -> Tensor<D> {
        let shape = x.dims();
        let x = Floats::of(x);
        let mut y = blank_sixteens(x.len());
        narrow(format, &x, &mut y, self.workspace.kernels());
        let data = TensorData::from_bytes(Bytes::from_elems(y), shape, self.to.dtype());
        Tensor::from_primitive::<Flex>(FlexTensor::from_data(data))
    }

    fn widened<const D: usize, E: Element + bytemuck::Pod>(&self, x: Tensor<D>, format: Format) -> Tensor<D> {
        let shape = x.dims();
        let x = x.try_into_primitive::<Flex>().expect("a tensor of the CPU");
        let x = bytemuck::cast_slice(x.as_slice::<E>().expect("values that were written in this order"));
        let mut y = blank(x.len());
        widen(format, x, &mut y, self.workspace.kernels());
        tensor(y, shape)
    }
}
