//! The promise that `put` hands out.

use std::sync::{Arc, OnceLock};

use crate::Result;

/// The promise of a write: tells whether it has been done, and how it went.
///
/// Nobody has to keep it. The store owns the data whether or not the ticket lives, and an error surfaces at the next call
/// too.
#[derive(Debug, Clone)]
pub struct Ticket {
    outcome: Arc<OnceLock<Result<()>>>,
}

impl Ticket {
    /// A promise for work still to be done.
    pub(crate) fn pending() -> Self {
        Self { outcome: Arc::new(OnceLock::new()) }
    }

    /// A promise kept at once.
    pub(crate) fn kept() -> Self {
        let ticket = Self::pending();
        ticket.settle(Ok(()));
        ticket
    }

    /// Tells the holder how it went. Only the first word counts.
    pub(crate) fn settle(&self, outcome: Result<()>) {
        let _already_settled = self.outcome.set(outcome);
    }

    /// How it went, or `None` while it is under way.
    pub fn outcome(&self) -> Option<Result<()>> {
        self.outcome.get().cloned()
    }

    /// Waits until the work is done.
    ///
    /// # Errors
    /// What kept the data from being stored. [`Error::Missing`](crate::Error::Missing) if the snapshot was removed
    /// before it came to be written.
    pub fn wait(&self) -> Result<()> {
        self.outcome.wait().clone()
    }
}
