//! The caller's side of a pipeline: data, passes, optimizer, records.

use burn::optim::ModuleOptimizer;
use burn::tensor::Device;
use reprop::{Head, Input, Network, Output, Pass, Stem, Target};

use crate::{Report, Wire};

/// A network whose inputs and targets can travel.
pub trait Piped<const D: usize>:
    Network<D, Stem: Stem<D, Input: Wire>, Head: Head<D, Target: Wire>> + Sync
{
}

impl<const D: usize, N> Piped<D> for N where
    N: Network<D, Stem: Stem<D, Input: Wire>, Head: Head<D, Target: Wire>> + Sync
{
}

/// What travels up with a batch: what each stage has to do after its backward of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Orders {
    /// Save a record.
    pub record: bool,
    /// Stop, with batches still in flight: they are in the record.
    pub stop: bool,
    /// Send the test set through the pipeline.
    pub evaluate: bool,
}

impl Orders {
    const RECORD: u8 = 1;
    const STOP: u8 = 2;

    /// What other stages must know.
    pub(crate) fn flags(self) -> u8 {
        u8::from(self.record) * Self::RECORD + u8::from(self.stop) * Self::STOP
    }

    pub(crate) fn from_flags(flags: u8) -> Self {
        Self { record: flags & Self::RECORD != 0, stop: flags & Self::STOP != 0, evaluate: false }
    }
}

/// How many of a batch's samples were right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// Samples that were classified rightly.
    pub right: u64,
    /// All samples.
    pub seen: u64,
}

/// What a pipeline is to do: shared by all stages of a process, each of which asks for what it needs.
///
/// Everything must depend on the arguments alone, so that a resumed run and a run on other machines see the same.
pub trait Job<const D: usize, N: Piped<D>>: Sync {
    /// The device of inputs and messages, off any graph.
    fn device(&self) -> Device;

    /// The pass of a training batch in a stage.
    fn pass(&self, stage: usize, batch: u64) -> Pass;

    /// The pass of a test batch.
    fn evaluation_pass(&self) -> Pass;

    /// A fresh optimizer for a stage.
    fn optimizer(&self) -> ModuleOptimizer;

    /// The learning rate of the update after a batch, counted by the stage itself.
    fn rate(&self, batch: u64) -> f64;

    /// A training batch; asked of the first stage.
    fn batch(&self, batch: u64) -> (Input<D, N>, Target<D, N>);

    /// A test batch, or nothing after the last; asked of the first stage.
    fn test_batch(&self, position: u64) -> Option<(Input<D, N>, Target<D, N>)>;

    /// How good an output is; asked of the last stage.
    fn score(&self, output: Output<D, N>, target: Target<D, N>) -> Score;

    /// The epoch of a batch, for headers.
    fn epoch(&self, batch: u64) -> u64 {
        let _ = batch;
        0
    }

    /// What to do after a batch; asked of the first stage when the batch goes forward.
    fn orders(&self, batch: u64) -> Orders {
        let _ = batch;
        Orders::default()
    }

    /// What is known of a batch that every stage has done; told to the first stage.
    ///
    /// # Errors
    ///
    /// A sentence; the pipeline stops.
    fn report(&self, report: &Report) -> Result<(), String> {
        let _ = report;
        Ok(())
    }

    /// The result of an evaluation that was ordered; told to the first stage.
    ///
    /// # Errors
    ///
    /// A sentence; the pipeline stops.
    fn evaluated(&self, score: Score) -> Result<(), String> {
        let _ = score;
        Ok(())
    }

    /// Saves a stage's part of a record.
    ///
    /// # Errors
    ///
    /// A sentence; the pipeline stops.
    fn save(&self, stage: usize, batch: u64, record: Vec<u8>) -> Result<(), String> {
        let _ = (stage, batch, record);
        Ok(())
    }

    /// Every stage has saved its part of the record after `batch`; told to the first stage.
    ///
    /// # Errors
    ///
    /// A sentence; the pipeline stops.
    fn commit(&self, batch: u64) -> Result<(), String> {
        let _ = batch;
        Ok(())
    }

    /// A stage's part of the record to go on from.
    ///
    /// # Errors
    ///
    /// A sentence; the pipeline does not start.
    fn load(&self, stage: usize) -> Result<Option<Vec<u8>>, String> {
        let _ = stage;
        Ok(None)
    }
}
