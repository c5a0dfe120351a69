//! What can go wrong, with the numbers in it.

use std::path::PathBuf;

use thiserror::Error;

/// Why a set could not be cut into batches.
///
/// ```
/// use reprop_data::{Batches, Error};
///
/// let error = Batches::new(100, 0, 42, 0).unwrap_err();
/// assert_eq!(error, Error::EmptyBatch { count: 100 });
/// assert_eq!(error.to_string(), "a batch must have at least 1 of the set's 100 samples, found 0");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// A batch of no samples.
    #[error("a batch must have at least 1 of the set's {count} samples, found 0")]
    EmptyBatch {
        /// Samples of the set.
        count: usize,
    },
    /// A set of no samples.
    #[error("the set has 0 samples: there is nothing to make batches of {batch} from")]
    EmptySet {
        /// Samples of a batch.
        batch: usize,
    },
    /// Incomplete batches are dropped, and no batch is complete.
    #[error("incomplete batches are dropped, and the set's {count} samples do not fill one batch of {batch}")]
    NoCompleteBatch {
        /// Samples of the set.
        count: usize,
        /// Samples of a batch.
        batch: usize,
    },
    /// A text in which no symbol follows another.
    #[error("a text needs at least 2 bytes, found {bytes}")]
    ShortText {
        /// Bytes of the text.
        bytes: usize,
    },
    /// A file that cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// A position that the epoch does not have.
    #[error("batch {position} was asked for, but the epoch ends after {batches}")]
    PastTheEnd {
        /// The position asked for.
        position: usize,
        /// Batches of the epoch.
        batches: usize,
    },
    /// Tokens that cannot be made of a text, or a vocabulary that cannot be made, read or written.
    #[error("{0}")]
    Tokens(String),
}

/// The result of cutting a set into batches.
pub type Result<T, E = Error> = std::result::Result<T, E>;
