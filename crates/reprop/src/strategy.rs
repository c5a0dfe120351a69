//! Strategies: how the backward pass gets the activations it needs.

use std::fmt;
use std::str::FromStr;

/// How the backward pass gets its activations. All give the same gradients, bit for bit.
///
/// | strategy | memory | time, in forwards | choose it |
/// |---|---|---|---|
/// | `Stored` | grows with depth | 3 | when everything fits |
/// | `Reprop` | one block | 4 | when memory is all that counts |
/// | `PaReprop` | two blocks | 3 to 4 | when it does not fit: the default |
/// | `Auto` | the budget given | the least that fits | to let the numbers decide |
///
/// ```
/// use reprop::Strategy;
///
/// assert_eq!("pareprop".parse(), Ok(Strategy::PaReprop));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Keep what every block saved. Fastest, where it fits.
    Stored,
    /// Throw activations away; in the backward pass recover each block's from its outputs, then compute its
    /// gradients.
    Reprop,
    /// As `Reprop`, with the gradients of one block computed beside the recovery of the block below.
    #[default]
    PaReprop,
    /// Keep the saved tensors of as many of the last blocks as a budget allows, and recover the rest.
    Auto {
        /// Bytes of activations that may live at once.
        budget: u64,
    },
}

impl fmt::Display for Strategy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Stored => "stored",
            Self::Reprop => "reprop",
            Self::PaReprop => "pareprop",
            Self::Auto { .. } => "auto",
        })
    }
}

/// A name that is not a strategy's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no strategy called `{0}`: choose stored, reprop or pareprop, or give a budget for auto")]
pub struct UnknownStrategy(String);

impl FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(name: &str) -> Result<Self, UnknownStrategy> {
        match name {
            "stored" => Ok(Self::Stored),
            "reprop" => Ok(Self::Reprop),
            "pareprop" => Ok(Self::PaReprop),
            _ => Err(UnknownStrategy(name.to_owned())),
        }
    }
}

/// What a strategy comes to for one network: the engine knows nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Blocks from here on keep what they saved; those below are recovered.
    pub keep_from: usize,
    /// Whether gradients of one block are computed beside the recovery of the next.
    pub overlap: bool,
    /// Whether stem and transitions keep their inputs and are run again, instead of keeping what they saved.
    pub rerun: bool,
}

impl Plan {
    pub const STORED: Self = Self { keep_from: 0, overlap: false, rerun: false };

    /// The plan that recovers everything.
    pub fn recover_all(pieces: usize, overlap: bool) -> Self {
        Self { keep_from: pieces, overlap, rerun: false }
    }

    /// The plan that recovers blocks and runs everything else again.
    pub fn rerun(pieces: usize, overlap: bool) -> Self {
        Self { keep_from: pieces, overlap, rerun: true }
    }
}
