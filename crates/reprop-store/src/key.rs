//! The name of a snapshot.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The name of a snapshot: which sequence it belongs to, and which step of it.
///
/// One store can hold several sequences side by side, say the states of a chain and its gradient accumulators,
/// under different `run`s.
///
/// ```
/// use reprop_store::Key;
///
/// assert_eq!(Key::new(1, 40).to_string(), "step 40 of run 1");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// The sequence.
    pub run: u64,
    /// The step within it.
    pub step: u64,
}

impl Key {
    /// Step `step` of sequence `run`.
    pub fn new(run: u64, step: u64) -> Self {
        Self { run, step }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {} of run {}", self.step, self.run)
    }
}
