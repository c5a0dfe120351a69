//! Which kernels a pass computes with.

use std::fmt;
use std::str::FromStr;

/// Which kernels the layers compute with. The choice changes roundings, and nothing else: under each, all strategies
/// give the same gradients, bit for bit, at any number of threads.
///
/// ```
/// use reprop::{Kernels, Pass};
///
/// let pass = Pass::training(42).kernels(Kernels::Burn);
/// assert_eq!("auto".parse(), Ok(Kernels::Auto));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kernels {
    /// Fused kernels where there are some: in `f32` on the CPU. Burn's operations elsewhere.
    #[default]
    Auto,
    /// Burn's operations everywhere.
    Burn,
}

impl fmt::Display for Kernels {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Auto => "auto",
            Self::Burn => "burn",
        })
    }
}

/// A name that is not one of [`Kernels`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are no kernels called `{0}`: choose auto or burn")]
pub struct UnknownKernels(String);

impl FromStr for Kernels {
    type Err = UnknownKernels;

    fn from_str(name: &str) -> Result<Self, UnknownKernels> {
        match name {
            "auto" => Ok(Self::Auto),
            "burn" => Ok(Self::Burn),
            _ => Err(UnknownKernels(name.to_owned())),
        }
    }
}
