//! What the workers of a pipeline ask: batches, passes, the recipe, records, metrics.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::Device;
use reprop::{Input, Output, Pass, Target, Trace};
use reprop_pipeline::{Job, Orders, Piped, Report, Score};

use crate::failure::Failure;
use crate::options::Numbers;

use super::super::clip::clip;
use super::super::live::Live;
use super::super::metrics::Metrics;
use super::super::settings::Settings;
use super::files;
use super::lines::Lines;
use super::options::PipelineSettings;
use super::staged::{Run, Staged};

/// A run's side of a pipeline.
pub struct StagedJob<'t, S> {
    pub training: &'t S,
    pub numbers: Numbers,
    pub per_epoch: usize,
    pub interrupted: Arc<AtomicBool>,
    pub lines: Mutex<Lines>,
    pub pipeline: PipelineSettings,
    pub live: Live,
    /// When the last batch came down.
    pub clock: Mutex<Instant>,
    /// One a worker, if there is a trace.
    pub traces: Vec<Trace>,
    pub activation_peak: Mutex<u64>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: Run> StagedJob<'_, S> {
    /// Whether a batch ends an epoch: replicas go through one together.
    fn ends_epoch(&self, batch: u64) -> bool {
        let replicas = self.pipeline.replicas;
        let epochs = |batches: usize| batches * replicas / self.per_epoch;
        epochs(batch as usize + 1) > epochs(batch as usize)
    }

    /// Makes the last record whose lines are written the one to go on from.
    fn settle(&self) -> Result<(), Failure> {
        let record = lock(&self.lines).take_record();
        record.map_or(Ok(()), |batch| files::commit(&self.training.common().folder, batch))
    }
}

impl<const D: usize, N: Piped<D>, S: Staged<D, N>> Job<D, N> for StagedJob<'_, S> {
    fn device(&self) -> Device {
        self.training.common().device.clone().inner()
    }

    fn pass(&self, worker: usize, batch: u64) -> Pass {
        let pass = self.numbers.on(Pass::training(self.training.common().settings.seed).step(batch));
        let last = (worker + 1).is_multiple_of(self.pipeline.stages.len().max(1));
        pass.side(self.training.side(batch, last))
    }

    fn trace(&self, worker: usize) -> Option<&Trace> {
        self.traces.get(worker)
    }

    fn evaluation_pass(&self, position: u64) -> Pass {
        self.numbers.on(Pass::evaluation().side(self.training.test_side(position)))
    }

    fn optimizer(&self) -> ModuleOptimizer {
        self.training.common().settings.recipe.optimizer()
    }

    fn rate(&self, batch: u64) -> f64 {
        let Settings { recipe, lr, steps, .. } = &self.training.common().settings;
        recipe.learning_rate(*lr, batch as usize, *steps)
    }

    fn batch(&self, batch: u64) -> (Input<D, N>, Target<D, N>) {
        self.training.batch(batch)
    }

    fn test_batch(&self, position: u64) -> Option<(Input<D, N>, Target<D, N>)> {
        self.training.test_batch(position)
    }

    fn score(&self, output: Output<D, N>, target: Target<D, N>) -> Score {
        self.training.score(output, target)
    }

    fn epoch(&self, batch: u64) -> u64 {
        batch * self.pipeline.replicas as u64 / self.per_epoch as u64
    }

    fn shape(&self, network: &N, gradients: GradientsParams) -> GradientsParams {
        clip(network, gradients, self.training.common().settings.recipe.clip)
    }

    fn orders(&self, batch: u64) -> Orders {
        // Said once: batches that follow into the pipeline go on when the run is resumed.
        let stop = self.interrupted.swap(false, Ordering::Relaxed);
        let done = batch as usize + 1;
        let (last, whole) = (done == self.training.common().settings.steps, self.ends_epoch(batch));
        // What ends, ends with a test.
        Orders { record: stop || whole || last, stop, evaluate: whole && !last && !stop }
    }

    fn report(&self, report: &Report) -> Result<(), String> {
        let start = std::mem::replace(&mut *lock(&self.clock), Instant::now());
        let Score { right, seen } = report.score;
        *lock(&self.activation_peak) = report.activation_peak;
        let replicas = self.pipeline.replicas;
        let line = Metrics {
            step: report.batch as usize,
            epoch: report.batch as usize * replicas / self.per_epoch,
            loss: report.loss,
            accuracy: right as f64 / seen as f64,
            samples_per_second: (replicas as u64 * seen) as f64 / start.elapsed().as_secs_f64(),
            activation_peak_bytes: report.activation_peak,
            test_accuracy: None,
            test_loss: None,
            alignment: None,
        };
        // Stages measure for themselves; what comes here is the sum.
        self.live.step(&line, None);
        let PipelineSettings { alignment, accumulate, .. } = self.pipeline;
        let aligns = alignment > 0 && (report.batch + 1).is_multiple_of(alignment * accumulate);
        let pushed = lock(&self.lines).push(line, self.ends_epoch(report.batch), aligns);
        pushed.and_then(|()| self.settle()).map_err(|failure| failure.to_string())
    }

    fn aligned(&self, batch: u64, cosines: &[f64]) -> Result<(), String> {
        let noted = lock(&self.lines).aligned(batch, cosines);
        noted.and_then(|()| self.settle()).map_err(|failure| failure.to_string())
    }

    fn evaluated(&self, Score { right, seen }: Score) -> Result<(), String> {
        let noted = lock(&self.lines).tested(right as f64 / seen.max(1) as f64);
        noted.and_then(|()| self.settle()).map_err(|failure| failure.to_string())
    }

    fn save(&self, worker: usize, batch: u64, record: Vec<u8>) -> Result<(), String> {
        files::save(&self.training.common().folder, worker, batch, &record)
            .map_err(|failure| failure.to_string())
    }

    fn commit(&self, batch: u64) -> Result<(), String> {
        lock(&self.lines).record(batch);
        self.settle().map_err(|failure| failure.to_string())
    }

    fn load(&self, worker: usize) -> Result<Option<Vec<u8>>, String> {
        files::load(&self.training.common().folder, worker).map_err(|failure| failure.to_string())
    }
}
