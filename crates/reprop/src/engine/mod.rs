//! The engine: one forward and one backward for all strategies.
//!
//! A strategy comes down to a [`Layout`](crate::strategy::Layout): from which piece on saved tensors are kept, and whether the two halves of the
//! backward pass run side by side. Everything else follows from what was kept:
//!
//! ```text
//! backward = fold over the pieces, from the last to the first, of
//!     join( grads of the pieces at hand , recover of the next block below )
//! ```
//! `recover` needs only the streams above it, and `grads` only its own saved tensors and the gradients from above, so
//! neither waits for the other. A piece whose saved tensors were kept is recovered by handing them over, at no cost;
//! with overlap the block below it is recovered in the same breath, so that the overlap goes on across transitions. A
//! stored network is the case in which the first recovery hands over everything. Without overlap a block is
//! [reversed](crate::Block::reverse): recovered and differentiated sub-block by sub-block.
//!
//! Where not even the inputs of transitions fit, the network is a chain of [segments](segments) that a schedule of
//! `reprop-schedule` takes there and back, each by the same forward and backward.

mod backward;
mod beside;
mod forward;
mod plan;
mod segments;
mod sizes;
mod snapshots;
mod stage;
mod trail;
mod walk;

use crate::{BlockFootprint, Context, Pass, Piece};

pub use backward::{Descent, Tape};
pub(crate) use forward::{batch_of, inverse, predict, record, streams};
pub use plan::Prediction;
pub(crate) use plan::predicted;
pub(crate) use segments::{Visits, visits};
pub(crate) use sizes::Sizes;
pub use stage::{Entry, Keep, Stage};
pub use trail::Trail;

/// Bytes of temporaries in one piece, as far as it can tell.
#[derive(Clone, Copy, Default)]
struct Scratch {
    forward: u64,
    recover: u64,
    grads: u64,
}

impl Scratch {
    /// For streams of shape `dims` that enter `piece`.
    fn of<const D: usize>(piece: Piece<'_, D>, dims: [usize; D], context: &Context<'_>) -> Self {
        Self::told(piece, dims, context).into()
    }

    /// The same, for a piece that keeps what it saved as the pass says.
    fn keeping<const D: usize>(
        piece: Piece<'_, D>,
        dims: [usize; D],
        pass: &Pass,
        context: &Context<'_>,
    ) -> Self {
        let told = Self::told(piece, dims, context);
        if pass.stores() { told.stored().into() } else { told.into() }
    }

    fn told<const D: usize>(piece: Piece<'_, D>, dims: [usize; D], context: &Context<'_>) -> BlockFootprint {
        let told = match piece {
            Piece::Block(block) => block.footprint(dims, context),
            Piece::Transition(transition) => transition
                .footprint(dims, context)
                .map(|(dims, told)| BlockFootprint::of_transition(dims, told)),
        };
        told.unwrap_or_default()
    }
}

impl From<BlockFootprint> for Scratch {
    fn from(BlockFootprint { forward, recover, grads, .. }: BlockFootprint) -> Self {
        Self { forward, recover, grads }
    }
}

/// The stem's place in the keys of masks; pieces follow, then the head.
const STEM: usize = 0;
/// The first piece's place.
pub(crate) const FIRST_PIECE: usize = 1;
