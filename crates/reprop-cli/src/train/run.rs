//! The training loop.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use burn::optim::ModuleOptimizer;
use reprop::{Average, Meter, Pass, Strategy, Trace, named_parameters, parameter_digest};
use reprop_models::WeightNames;

use crate::data::DataSet;
use crate::failure::Failure;
use crate::images::{Batch, ImageNetwork, Task, hits};
use crate::memory;
use crate::plan;
use crate::safetensors_file;
use crate::trace_file;
use crate::weights_file;
use crate::whole_file::write_whole;

use super::clip::clip;
use super::common::{Common, watch_interrupts};
use super::live::Live;
use super::metrics::{Metrics, MetricsFile};
use super::pipeline;
use super::record;
use super::report::{Outcome, Report};
use super::scaled::Scaled;
use super::settings::Settings;

/// A run on images that is about to begin or to go on.
pub struct Training {
    pub common: Common,
    pub data: Arc<DataSet>,
    pub trace: Option<Trace>,
    /// Weights to begin with, and how they are named.
    pub init: Option<(PathBuf, WeightNames)>,
}

impl Task for Training {
    type Output = Result<(), Failure>;

    fn run<const D: usize, N: ImageNetwork<D>>(self, network: N) -> Self::Output {
        let network = self.initial(network)?;
        if let Some(settings) = self.common.settings.pipeline.clone() {
            return pipeline::run(self, settings, &network);
        }
        let Settings { batch, steps, lr, .. } = self.common.settings;
        let folder = &self.common.folder;
        // Told before anything is written.
        let strategy = self.strategy(&network)?;
        let (mut network, mut optimizer, first) = self.begin(network)?;
        let mut average = self.average(&network)?;
        let mut scaled = Scaled::begin(folder, self.common.settings.numbers()?.precision())?;
        if self.init.is_some() {
            // A run that is killed in its first epoch begins with these weights again.
            record::save(folder, &network, &optimizer, average.as_ref().map(Average::module), first)?;
        }
        let mut metrics = MetricsFile::open(folder, first, self.common.tensorboard.as_deref())?;
        let per_epoch = self.data.train.len().div_ceil(batch);
        let interrupted = watch_interrupts()?;
        let live = Live::new(steps, first);
        memory::reset_peak();

        let mut activation_peak = 0;
        let (mut done, mut test_accuracy) = (first, None);
        let mut ahead = self.batches(first..steps);
        for step in first..steps {
            let start = Instant::now();
            let epoch = step / per_epoch;
            let Some(made) = ahead.next() else { break };
            let (samples, side) = self.on_device(made?);
            let count = samples.len();
            let labels = samples.labels.clone();
            let result = network
                .step(samples.images, samples.labels, scaled.on(self.pass(step as u64)?.side(side)), strategy)
                .map_err(|error| self.common.stopped(error))?;
            if let Some(gradients) = scaled.off(&network, result.gradients) {
                let gradients = clip(&network, gradients, self.common.settings.recipe.clip);
                let rate = self.common.settings.recipe.learning_rate(lr, step, steps);
                network = optimizer.step(rate, network, gradients);
            }
            network = result.statistics.apply(network);
            if let Some(average) = &mut average {
                average.follow(&network, step);
            }
            activation_peak = activation_peak.max(result.memory.activation_peak);
            done = step + 1;
            let seconds = start.elapsed().as_secs_f64();
            let stop = interrupted.load(Ordering::Relaxed);
            let whole_epoch = done % per_epoch == 0;
            test_accuracy =
                whole_epoch.then(|| self.evaluate(judged(&network, average.as_ref()))).transpose()?;

            let line = Metrics {
                step,
                epoch,
                loss: result.loss,
                accuracy: hits(result.output, labels) as f64 / count as f64,
                samples_per_second: count as f64 / seconds,
                activation_peak_bytes: result.memory.activation_peak,
                test_accuracy,
                test_loss: None,
                alignment: None,
            };
            metrics.write(&line)?;
            live.step(&line, Some(&result.memory));
            if stop || whole_epoch || done == steps {
                let place = record::Place { step: done, loss_scale: scaled.scale() };
                let average = average.as_ref().map(Average::module);
                record::save(folder, &network, &optimizer, average, place)?;
            }
            if stop {
                break;
            }
        }
        live.finish();
        if let (Some(path), Some(trace)) = (&self.common.trace_file, &self.trace) {
            trace_file::write(path, trace)?;
        }

        safetensors_file::write(&folder.join("weights.safetensors"), &named_parameters(&network))?;
        if let Some(average) = &average {
            let path = folder.join("average.safetensors");
            safetensors_file::write(&path, &named_parameters(average.module()))?;
        }
        let outcome = Outcome {
            parameters_digest: parameter_digest(&network),
            test_accuracy: Some(
                test_accuracy.map_or_else(|| self.evaluate(judged(&network, average.as_ref())), Ok)?,
            ),
            peak_bytes: memory::peak(),
            stall_seconds: self.common.stall_seconds(),
            steps: done,
            interrupted: done < steps,
        };
        let report = Report::new(&network, &self.common.settings, &self.pass(0)?, activation_peak)?;
        report.print(&outcome, folder, self.common.format)
    }
}

impl Training {
    /// The strategy to run; a batch shows what it costs where that is not told.
    fn strategy<const D: usize, N: ImageNetwork<D>>(&self, network: &N) -> Result<Strategy, Failure> {
        let asked = self.common.settings.strategy()?;
        let sample = match asked {
            Strategy::Auto { .. } => Some(self.batch(0)?),
            _ => None,
        };
        plan::resolve(network, self.common.settings.batch, &self.pass(0)?, asked, || {
            let Batch { images, labels } = sample.expect("a batch is made for `auto`");
            (images, labels)
        })
    }

    /// The state to begin with: fresh, or the record's.
    fn begin<const D: usize, N: ImageNetwork<D>>(
        &self,
        network: N,
    ) -> Result<(N, ModuleOptimizer, usize), Failure> {
        self.prepare()?;
        // A run that was killed before its first record begins anew.
        if record::exists(&self.common.folder) {
            record::load(&self.common.folder, network, self.common.settings.recipe.optimizer())
        } else {
            Ok((network, self.common.settings.recipe.optimizer(), 0))
        }
    }

    /// The network with the weights of the file that it is to begin with.
    fn initial<const D: usize, N: ImageNetwork<D>>(&self, network: N) -> Result<N, Failure> {
        match &self.init {
            Some((path, names)) => weights_file::begin_with(network, path, *names),
            None => Ok(network),
        }
    }

    /// The average of the weights, fresh or the record's.
    fn average<const D: usize, N: ImageNetwork<D>>(
        &self,
        network: &N,
    ) -> Result<Option<Average<N>>, Failure> {
        let Some(decay) = self.common.settings.recipe.ema else { return Ok(None) };
        let kept = if record::exists(&self.common.folder) {
            record::load_average(&self.common.folder, network.clone())?
        } else {
            None
        };
        Ok(Some(kept.map_or_else(|| Average::new(network, decay), |kept| Average::resumed(kept, decay))))
    }

    /// Makes the folder of a fresh run.
    pub fn prepare(&self) -> Result<(), Failure> {
        self.common.prepare(|folder| {
            write_whole(&Settings::path(folder), &serde_json::to_vec_pretty(&self.common.settings)?)
        })
    }

    fn pass(&self, step: u64) -> Result<Pass, Failure> {
        let pass = self.common.pass(step)?;
        Ok(match &self.trace {
            Some(trace) => pass.trace(trace),
            None => pass,
        })
    }

    /// The part of the test set that is classified rightly.
    fn evaluate<const D: usize, N: ImageNetwork<D>>(&self, network: &N) -> Result<f64, Failure> {
        let numbers = self.common.settings.numbers()?;
        let pass = numbers.on(Pass::evaluation()).meter(Meter::new());
        let test = &self.data.test;
        let mut right = 0;
        for indices in (0..test.len()).collect::<Vec<_>>().chunks(self.common.settings.batch) {
            let batch = self.test_batch(indices)?;
            right += hits(network.predict(batch.images, &pass)?, batch.labels);
        }
        Ok(right as f64 / test.len() as f64)
    }
}

/// What a run is judged by.
fn judged<'n, N: burn::module::Module>(network: &'n N, average: Option<&'n Average<N>>) -> &'n N {
    average.map_or(network, Average::module)
}
