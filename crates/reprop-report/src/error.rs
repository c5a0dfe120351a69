//! What can be wrong with a file of results.

/// Why results cannot be read or compared. File names are the caller's to add.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not JSON, or not these fields.
    #[error("it holds no results of `reprop bench`: {0}")]
    NotResults(serde_json::Error),
    /// Not JSON, or not these fields.
    #[error("it holds no comparison with peers: {0}")]
    NotPeers(serde_json::Error),
    /// Not JSON, or not these fields.
    #[error("it holds no measurements of chains: {0}")]
    NotChains(serde_json::Error),
    /// A file with nothing measured.
    #[error("it holds no runs")]
    Empty,
    /// A run whose numbers cannot be.
    #[error("the run {run} has {what}")]
    Impossible {
        /// Which one.
        run: String,
        /// What cannot be.
        what: String,
    },
    /// Two runs of one configuration.
    #[error("the run {0} is there twice")]
    Twice(String),
    /// Two files without a common configuration.
    #[error("no run of the first file ({first} runs) has its like in the second ({second} runs)")]
    NothingInCommon {
        /// Runs of the first file.
        first: usize,
        /// Runs of the second file.
        second: usize,
    },
}
