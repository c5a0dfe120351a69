//! What can go wrong with a snapshot.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use crate::Key;
use crate::medium::full;

/// What went wrong, with the file, the step and the numbers in it.
///
/// Errors of background work name the snapshot they are about ([`Error::key`]), since they surface at a later call
/// that may be about another one. They can be cloned, since the ticket, the next call and `finish` all tell of them.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum Error {
    /// The store does not hold this snapshot.
    #[error("there is no snapshot of {key} in the store")]
    Missing {
        /// The snapshot asked for.
        key: Key,
    },
    /// There is no room. What was stored before can still be read.
    #[error("no room for {key}: {needed} bytes more do not fit into {medium} ({reason})")]
    Full {
        /// The snapshot that was not stored.
        key: Key,
        /// The memory pool, or a folder.
        medium: String,
        /// Bytes it needs.
        needed: u64,
        /// The budget, or what the system said.
        reason: String,
    },
    /// The system refused.
    #[error("could not {action} {}{}: {source}", path.display(), about(*key))]
    Io {
        /// What was tried, to be read after "could not".
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// For which snapshot, if it was for one.
        key: Option<Key>,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// What was read is not what was written.
    #[error("the snapshot of {key} in {} is damaged: {field} should be {expected} and is {found}", path.display())]
    Corrupt {
        /// File, or name of the blob.
        path: PathBuf,
        /// The snapshot asked for.
        key: Key,
        /// What differs.
        field: &'static str,
        /// What was written.
        expected: String,
        /// What was read.
        found: String,
    },
    /// Somebody else is using the folder.
    #[error(
        "the folder {} is in use by {}: give each run a folder of its own",
        folder.display(),
        pid.map_or("another process".into(), |pid| format!("process {pid}"))
    )]
    Locked {
        /// The folder.
        folder: PathBuf,
        /// The process that holds the lock, if it could be read.
        pid: Option<u32>,
    },
    /// A new store was asked for where a killed run can be resumed.
    #[error(
        "the folder {} holds a run that was cut short after {points} durable points: resume it with `open_existing`, \
         or discard it with `discard_stale(true)`",
        folder.display()
    )]
    Resumable {
        /// The folder.
        folder: PathBuf,
        /// Points of its manifest.
        points: u64,
    },
    /// There is nothing to resume.
    #[error("the folder {} holds no durable point to resume from: {reason}", folder.display())]
    NothingToResume {
        /// The folder.
        folder: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// The manifest is damaged before its last line, which no crash can do.
    #[error("line {line} of the manifest {} is damaged: {reason}", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A durable point was asked of a store that has none.
    #[error("this store keeps nothing beyond the process: open a disk store with `Durability::Every`")]
    NotDurable,
    /// A call after `finish`.
    #[error("the store is finished")]
    Finished,
    /// The store was dropped before it came to this snapshot.
    #[error("the store was closed before {key} was written")]
    Closed {
        /// The snapshot that was not stored.
        key: Key,
    },
    /// A bug: work in the background panicked.
    #[error("work on {key} in the background panicked: {message}")]
    Panicked {
        /// The snapshot it was working on.
        key: Key,
        /// The panic's message.
        message: String,
    },
    /// A setting that makes no sense.
    #[error("{name} is {value}: {needed}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it has to be.
        needed: &'static str,
    },
}

impl Error {
    /// The snapshot this is about, if it is about one.
    pub fn key(&self) -> Option<Key> {
        match self {
            Self::Missing { key }
            | Self::Full { key, .. }
            | Self::Corrupt { key, .. }
            | Self::Closed { key }
            | Self::Panicked { key, .. } => Some(*key),
            Self::Io { key, .. } => *key,
            _ => None,
        }
    }

    /// Whether there was no room: a caller can go on with fewer snapshots, or, if it is about none
    /// ([`key`](Self::key)), without that durable point.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Full { .. } => true,
            Self::Io { source, .. } => full(source),
            _ => false,
        }
    }

    /// Wraps what the system said about a file.
    pub(crate) fn io(action: &'static str, path: &Path, key: Option<Key>, source: io::Error) -> Self {
        Self::Io { action, path: path.to_path_buf(), key, source: Arc::new(source) }
    }
}

fn about(key: Option<Key>) -> String {
    key.map_or_else(String::new, |key| format!(" for {key}"))
}

/// The result of asking a store.
pub type Result<T> = std::result::Result<T, Error>;
