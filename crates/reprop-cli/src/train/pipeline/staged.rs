//! Runs that can be cut into stages.

use reprop::{Input, Output, Side, Target};
use reprop_pipeline::{Piped, Score};

use crate::failure::Failure;

use super::super::common::Common;

/// A run, as far as its network does not matter.
pub trait Run: Sync {
    fn common(&self) -> &Common;

    fn common_mut(&mut self) -> &mut Common;

    /// Makes the folder of a fresh run.
    fn prepare(&self) -> Result<(), Failure>;

    /// What defines it, as text: ranks with another one are refused.
    fn definition(&self) -> Result<String, Failure>;

    /// Samples to learn from.
    fn samples(&self) -> usize;

    /// Multiplications of every place of the network, where they are known.
    fn costs(&self) -> Result<Option<Vec<f64>>, Failure>;
}

/// What the stages of `N` ask a run for. Everything depends on the arguments alone: each rank asks for itself.
pub trait Staged<const D: usize, N: Piped<D>>: Run {
    /// What the first stage is given, and what goes up with it.
    fn batch(&self, batch: u64) -> (Input<D, N>, Target<D, N>);

    /// What else the last stage, or another one, sees of a batch.
    fn side(&self, batch: u64, last: bool) -> Side;

    /// The batches of a test, until there are no more.
    fn test_batch(&self, position: u64) -> Option<(Input<D, N>, Target<D, N>)>;

    /// What else every stage sees of a batch of a test.
    fn test_side(&self, position: u64) -> Side;

    fn score(&self, output: Output<D, N>, target: Target<D, N>) -> Score;
}
