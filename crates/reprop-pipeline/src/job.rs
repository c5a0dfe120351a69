//! The caller's side of a pipeline: data, passes, optimizer, records.

use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::Device;
use reprop::{Head, Input, Network, Output, Pass, Stem, Target, Trace};

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
    const EVALUATE: u8 = 4;

    /// What other stages, and records, must know.
    pub(crate) fn flags(self) -> u8 {
        u8::from(self.record) * Self::RECORD
            + u8::from(self.stop) * Self::STOP
            + u8::from(self.evaluate) * Self::EVALUATE
    }

    pub(crate) fn from_flags(flags: u8) -> Self {
        let has = |flag| flags & flag != 0;
        Self { record: has(Self::RECORD), stop: has(Self::STOP), evaluate: has(Self::EVALUATE) }
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

    /// The pass of a training batch in a worker. Workers are counted through the stages of the first replica, then those of
    /// the next.
    fn pass(&self, worker: usize, batch: u64) -> Pass;

    /// Where to note what a worker does, and when; nowhere by default.
    fn trace(&self, worker: usize) -> Option<&Trace> {
        let _ = worker;
        None
    }

    /// The pass of a test batch in any worker.
    fn evaluation_pass(&self, position: u64) -> Pass;

    /// A fresh optimizer for a stage.
    fn optimizer(&self) -> ModuleOptimizer;

    /// The learning rate of the update after a batch, counted by the stage itself.
    fn rate(&self, batch: u64) -> f64;

    /// A training batch; asked of the first stage. With `R` replicas, replica `r` asks for every `R`-th batch from `r` on.
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

    /// Gradients as the optimizer of a stage is to see them, which may clip them.
    fn shape(&self, network: &N, gradients: GradientsParams) -> GradientsParams {
        let _ = network;
        gradients
    }

    /// How well the gradients of a batch agreed with the true ones, if the settings ask for it: the cosine of each stage,
    /// from the first to the last; told to the first stage.
    ///
    /// # Errors
    ///
    /// A sentence; the pipeline stops.
    fn aligned(&self, batch: u64, cosines: &[f64]) -> Result<(), String> {
        let _ = (batch, cosines);
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

    /// Saves a worker's part of a record.
    ///
    /// # Errors
    ///
    /// A sentence; the pipeline stops.
    fn save(&self, worker: usize, batch: u64, record: Vec<u8>) -> Result<(), String> {
        let _ = (worker, batch, record);
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

    /// A worker's part of the record to go on from.
    ///
    /// # Errors
    ///
    /// A sentence; the pipeline does not start.
    fn load(&self, worker: usize) -> Result<Option<Vec<u8>>, String> {
        let _ = worker;
        Ok(None)
    }
}
