//! What the workers of a pipeline ask: images, passes, the recipe, records, metrics.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use burn::optim::ModuleOptimizer;
use burn::tensor::{Device, Int, Tensor};
use indicatif::ProgressBar;
use reprop::{Pass, Trace};
use reprop_pipeline::{Job, Orders, Report, Score};

use crate::images::{Batch, ImageNetwork, hits};
use crate::options::Numbers;

use super::super::metrics::{Metrics, MetricsFile};
use super::super::run::Training;
use super::super::settings::Settings;
use super::files;

/// A run's side of a pipeline.
pub struct ImageJob<'t> {
    pub training: &'t Training,
    pub numbers: Numbers,
    pub per_epoch: usize,
    pub interrupted: Arc<AtomicBool>,
    pub metrics: Mutex<Option<MetricsFile>>,
    pub bar: ProgressBar,
    /// When the last batch came down.
    pub clock: Mutex<Instant>,
    /// One a stage, if there is a trace.
    pub traces: Vec<Trace>,
    pub activation_peak: Mutex<u64>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ImageJob<'_> {
    fn numbered(&self, pass: Pass) -> Pass {
        let Numbers { kernels, .. } = self.numbers;
        pass.arithmetic(self.numbers.arithmetic()).precision(self.numbers.precision()).kernels(kernels)
    }
}

impl<const D: usize, N: ImageNetwork<D>> Job<D, N> for ImageJob<'_> {
    fn device(&self) -> Device {
        self.training.device.clone().inner()
    }

    fn pass(&self, stage: usize, batch: u64) -> Pass {
        let pass = self.numbered(Pass::training(self.training.settings.seed).step(batch));
        match self.traces.get(stage) {
            Some(trace) => pass.trace(trace),
            None => pass,
        }
    }

    fn evaluation_pass(&self) -> Pass {
        self.numbered(Pass::evaluation())
    }

    fn optimizer(&self) -> ModuleOptimizer {
        self.training.settings.recipe.optimizer()
    }

    fn rate(&self, batch: u64) -> f64 {
        let Settings { recipe, lr, steps, .. } = &self.training.settings;
        recipe.learning_rate(*lr, batch as usize, *steps)
    }

    fn batch(&self, batch: u64) -> (Tensor<4>, Tensor<1, Int>) {
        let Batch { images, labels } = self.training.batch(batch as usize);
        (images, labels)
    }

    fn test_batch(&self, position: u64) -> Option<(Tensor<4>, Tensor<1, Int>)> {
        let test = &self.training.data.test;
        let size = self.training.settings.batch;
        let indices: Vec<usize> = (0..test.len()).skip(position as usize * size).take(size).collect();
        let gather = || self.training.test_batch(&indices);
        (!indices.is_empty()).then(gather).map(|Batch { images, labels }| (images, labels))
    }

    fn score(&self, output: Tensor<2>, target: Tensor<1, Int>) -> Score {
        let seen = target.dims()[0] as u64;
        Score { right: hits(output, target) as u64, seen }
    }

    fn epoch(&self, batch: u64) -> u64 {
        batch / self.per_epoch as u64
    }

    fn orders(&self, batch: u64) -> Orders {
        // Said once: batches that follow into the pipeline go on when the run is resumed.
        let stop = self.interrupted.swap(false, Ordering::Relaxed);
        let done = batch as usize + 1;
        let record = stop || done.is_multiple_of(self.per_epoch) || done == self.training.settings.steps;
        Orders { record, stop, evaluate: false }
    }

    fn report(&self, report: &Report) -> Result<(), String> {
        let start = std::mem::replace(&mut *lock(&self.clock), Instant::now());
        let Score { right, seen } = report.score;
        *lock(&self.activation_peak) = report.activation_peak;
        let line = Metrics {
            step: report.batch as usize,
            epoch: report.batch as usize / self.per_epoch,
            loss: report.loss,
            accuracy: right as f64 / seen as f64,
            samples_per_second: seen as f64 / start.elapsed().as_secs_f64(),
            activation_peak_bytes: report.activation_peak,
            test_accuracy: None,
            test_loss: None,
        };
        self.bar.set_position(report.batch + 1);
        self.bar.set_message(format!("loss {:.4}, accuracy {:5.1} %", line.loss, 100.0 * line.accuracy));
        match &mut *lock(&self.metrics) {
            Some(metrics) => metrics.write(&line).map_err(|failure| failure.to_string()),
            None => Ok(()),
        }
    }

    fn save(&self, stage: usize, batch: u64, record: Vec<u8>) -> Result<(), String> {
        files::save(&self.training.folder, stage, batch, &record).map_err(|failure| failure.to_string())
    }

    fn commit(&self, batch: u64) -> Result<(), String> {
        files::commit(&self.training.folder, batch).map_err(|failure| failure.to_string())
    }

    fn load(&self, stage: usize) -> Result<Option<Vec<u8>>, String> {
        files::load(&self.training.folder, stage).map_err(|failure| failure.to_string())
    }
}
