//! What can go wrong with a chain, with the numbers in it.

use reprop_schedule::{Action, Slot};
use thiserror::Error;

use super::Unreadable;

/// Why a chain could not be reversed.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// An action starts from a state that is not the working state.
    #[error("the schedule says \"{action}\", but the working state is {}", held.map_or("none".to_owned(), |step| format!("x{step}")))]
    Elsewhere {
        /// The action.
        action: Action,
        /// The working state.
        held: Option<usize>,
    },
    /// An action needs a slot in another condition than it is in.
    #[error("the schedule says \"{action}\", but {slot} {found}")]
    Slot {
        /// The action.
        action: Action,
        /// The slot.
        slot: Slot,
        /// What is there.
        found: &'static str,
    },
    /// A step is reversed out of order.
    #[error("the schedule says \"{action}\", but {} is to be reversed next", next.map_or("no step".to_owned(), |step| format!("step {step}")))]
    OutOfOrder {
        /// The action.
        action: Action,
        /// The step that is due; unknown before the first.
        next: Option<usize>,
    },
    /// The schedule ended early.
    #[error("the schedule ended with {} not reversed", left.map_or("anything".to_owned(), |left| format!("{left} steps")))]
    Unfinished {
        /// Steps not reversed, if any was.
        left: Option<usize>,
    },
    /// A schedule that writes to disk was given no store.
    #[error("the schedule says \"{action}\", but no store was given: add one with `Checkpointed::store`")]
    NoStore {
        /// The action.
        action: Action,
    },
    /// A snapshot's bytes are not those of a state.
    #[error("the snapshot of x{step} is not a state of this chain: {source}")]
    Foreign {
        /// The state.
        step: usize,
        /// What is wrong with it.
        source: Unreadable,
    },
    /// A durable point of another chain.
    #[error("the durable point in the store is not one of this chain: {reason}")]
    ForeignPoint {
        /// What differs.
        reason: &'static str,
    },
    /// The flag of [`Checkpointed::stop`](super::Checkpointed::stop) was set.
    #[error(
        "the pass was interrupted at {}, with {}",
        at.map_or("no state".to_owned(), |step| format!("x{step}")),
        front.map_or("nothing reversed yet".to_owned(), |front| format!("{front} steps left to reverse"))
    )]
    Interrupted {
        /// The working state.
        at: Option<usize>,
        /// Steps not reversed, if any was.
        front: Option<usize>,
    },
    /// A schedule that cannot be made.
    #[error(transparent)]
    Schedule(#[from] reprop_schedule::Error),
    /// A snapshot that could not be written or read.
    #[error(transparent)]
    Store(#[from] reprop_store::Error),
}

/// The result of a chain.
pub type Result<T, E = Error> = std::result::Result<T, E>;
