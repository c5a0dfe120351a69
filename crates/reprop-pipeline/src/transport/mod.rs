//! How messages get from one stage to the next.
//!
//! A link between two stages holds few messages in each direction, its *credits*. Let stage `j` do `c` more warm-up
//! forwards than stage `j + 1`. It is never more than `c` forwards ahead in what it has to send before it turns to the
//! messages from above, and stage `j + 1` is never more than `c` backwards ahead; with `c` credits both always find
//! room, so that no two stages wait for each other.
//!
//! Beside batches, tests and comparisons of gradients go up, and their results come down. What goes up may wait, since the
//! stage above takes it before its next batch; what comes down may not, since the stage below may be waiting to send up.
//! So links have room for more on their way down: for the results of a test and a comparison after each batch in flight.

mod in_process;
#[cfg(feature = "mpi")]
mod mpi;

use crate::{Message, Result};

pub(crate) use in_process::replicated;
pub use in_process::{InProcess, links};
#[cfg(feature = "mpi")]
pub use mpi::{Ranks, Universe};

/// A neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The stage before this one: nearer to the data.
    Below,
    /// The stage after this one: nearer to the loss.
    Above,
}

/// What a stage needs of the world: messages to and from its neighbours, in order.
pub trait Transport {
    /// Sends; waits while the link has no credit left.
    ///
    /// # Errors
    ///
    /// A neighbour that has stopped, or did nothing for too long.
    fn send(&mut self, to: Side, message: Message) -> Result<()>;

    /// The next message from a neighbour.
    ///
    /// # Errors
    ///
    /// A neighbour that has stopped, or did nothing for too long.
    fn receive(&mut self, from: Side) -> Result<Message>;

    /// What all replicas of this stage say, in the order of replicas, of which this is number `replica`. Where there are no
    /// others, it is what this one says.
    ///
    /// # Errors
    ///
    /// A replica that has stopped, or did nothing for too long.
    fn gather(&mut self, replica: usize, message: Message) -> Result<Vec<Message>> {
        let _ = replica;
        Ok(vec![message])
    }
}

/// Messages on their way down a link of a row of `stages` stages, with `credits` on their way up. The first stage has at most
/// `credits * stages` batches in flight.
pub(crate) fn room_down(stages: usize, credits: usize) -> usize {
    credits + 2 * (credits * stages + 2)
}

/// Credits of a link between stages whose warm-ups differ by `depth`.
pub fn credits(depth: f64) -> usize {
    (depth.ceil() as usize).max(2)
}
