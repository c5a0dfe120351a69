//! What can go wrong, with the numbers in it.

use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a set could not be read, or not be cut into batches.
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
    /// A file that cannot be written.
    #[error("cannot write {}: {reason}", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// A source that lacks a file of the set.
    #[error("{} holds no {name}", source_path.display())]
    MissingFile {
        /// The file.
        name: String,
        /// Where it was looked for.
        source_path: PathBuf,
    },
    /// A file of another length.
    #[error("{} is truncated or of another kind: expected {expected} {unit}, found {found}", path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// What is counted.
        unit: &'static str,
        /// How many there should be.
        expected: usize,
        /// How many there are.
        found: usize,
    },
    /// A file whose contents make no sense.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A label that is no class.
    #[error("{}: the label of sample {sample} is {label}, but there are {classes} classes", path.display())]
    NotAClass {
        /// The file.
        path: PathBuf,
        /// The sample, from 0.
        sample: usize,
        /// Its label.
        label: usize,
        /// The number of classes.
        classes: usize,
    },
    /// A folder of classes without a class in it.
    #[error("{} holds no folders of images, one a class", path.display())]
    NoClasses {
        /// The folder.
        path: PathBuf,
    },
    /// The folder of a class without an image in it.
    #[error("{} holds no images, neither JPEG nor PNG: the class would never be seen", path.display())]
    EmptyClass {
        /// The folder.
        path: PathBuf,
    },
    /// A class to be judged by that was never learned from.
    #[error("{} is a class that {} does not have", path.display(), train.display())]
    StrangeClass {
        /// The folder.
        path: PathBuf,
        /// Where classes to learn from are.
        train: PathBuf,
    },
    /// A file that is not the published one.
    #[error("{} is damaged: its MD5 is {found}, the published file's {expected}", path.display())]
    Checksum {
        /// The file.
        path: PathBuf,
        /// The published file's.
        expected: &'static str,
        /// This file's.
        found: String,
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

pub(crate) fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    Error::Unreadable { path: path.into(), reason: error.to_string() }
}

pub(crate) fn unwritable(path: &Path, error: &std::io::Error) -> Error {
    Error::Unwritable { path: path.into(), reason: error.to_string() }
}

/// The result of reading a set, or of cutting it into batches.
pub type Result<T, E = Error> = std::result::Result<T, E>;
