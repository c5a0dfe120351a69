//! What can go wrong in a pipeline, with the numbers in it.

use std::time::Duration;

use thiserror::Error;

/// Why a pipeline stopped.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Error {
    /// A pass through a stage failed.
    #[error("stage {stage}, batch {batch}: {error}")]
    Pass {
        /// The stage.
        stage: usize,
        /// The batch.
        batch: u64,
        /// What failed.
        error: reprop::Error,
    },
    /// Stages that cannot be cut from the network.
    #[error("{stages} stages cannot be cut from a network of {places} places: use 1 to {places}")]
    Stages {
        /// Stages asked for.
        stages: usize,
        /// Places of the network: stem, pieces, head.
        places: usize,
    },
    /// A message that is not the one that was sent.
    #[error(
        "stage {stage}: a message of {bytes} bytes arrived with checksum {found:016x} instead of {expected:016x}: the \
         link damaged it"
    )]
    Checksum {
        /// Who received it.
        stage: usize,
        /// Bytes of its tensors.
        bytes: u64,
        /// What the sender computed.
        expected: u64,
        /// What arrived.
        found: u64,
    },
    /// A message that was not expected.
    #[error("stage {stage}: expected {expected}, found {found}")]
    Unexpected {
        /// Who received it.
        stage: usize,
        /// What would have fitted.
        expected: String,
        /// What came.
        found: String,
    },
    /// The stage next to this one has stopped.
    #[error("stage {stage} stopped because the stage {} it has stopped", if *above { "above" } else { "below" })]
    Neighbour {
        /// Who noticed.
        stage: usize,
        /// Whether it is the stage above.
        above: bool,
    },
    /// Nothing moved for too long.
    #[error(
        "stage {stage} waited {waited:?} for the stage {} it: it is dead, or the link is; allow more with a longer \
         patience",
        if *above { "above" } else { "below" }
    )]
    Stalled {
        /// Who waited.
        stage: usize,
        /// Whether for the stage above.
        above: bool,
        /// How long.
        waited: Duration,
    },
    /// The same stage of another replica has stopped, or did nothing for too long.
    #[error("stage {stage} {} for its replicas", match waited {
        Some(waited) => format!("waited {waited:?}"),
        None => "has nobody left to wait".to_owned(),
    })]
    Replica {
        /// Who noticed.
        stage: usize,
        /// How long it waited, unless the replica is gone.
        waited: Option<Duration>,
    },
    /// A stage's thread panicked.
    #[error("stage {stage} ended in a panic; the message above tells where")]
    Panicked {
        /// The stage.
        stage: usize,
    },
    /// A record that does not fit.
    #[error("the record of stage {stage} is damaged: {what}")]
    Record {
        /// The stage.
        stage: usize,
        /// What is wrong with it.
        what: String,
    },
    /// A parameter that several stages would change.
    #[error(
        "the parameter {name} belongs to stages {first} and {second}: tied parameters cannot be cut apart"
    )]
    Tied {
        /// The parameter.
        name: String,
        /// One stage.
        first: usize,
        /// The other.
        second: usize,
    },
    /// What the caller's side of a pipeline says: data, records, metrics.
    #[error("stage {stage}: {message}")]
    Job {
        /// The stage.
        stage: usize,
        /// What went wrong.
        message: String,
    },
}

impl Error {
    /// Whether it only tells that another stage stopped, which has an error of its own.
    pub fn is_echo(&self) -> bool {
        matches!(self, Self::Neighbour { .. } | Self::Replica { waited: None, .. })
    }
}

/// The result of a pipeline's part.
pub type Result<T, E = Error> = std::result::Result<T, E>;
