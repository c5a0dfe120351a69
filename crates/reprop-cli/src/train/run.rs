//! The training loop.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::Context as _;
use burn::optim::ModuleOptimizer;
use burn::tensor::Device;
use indicatif::{ProgressBar, ProgressStyle};
use reprop::{Meter, Pass, Trace, named_parameters, parameter_digest};
use reprop_data::{Ahead, Augmentation, Images, Split, order, shift};

use crate::failure::Failure;
use crate::images::{Batch, ImageNetwork, Task, hits};
use crate::memory;
use crate::options::Format;
use crate::plan;
use crate::safetensors_file;
use crate::trace_file;
use crate::whole_file::write_whole;

use super::clip::clip;
use super::metrics::{Metrics, MetricsFile};
use super::pipeline;
use super::recipe::AugmentationName;
use super::record;
use super::report::{Outcome, Report};
use super::settings::Settings;

/// Where a run comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// From nothing, in a folder that may be replaced or not.
    Fresh { replace: bool },
    /// From the record in its folder.
    Resumed,
}

/// Threads that make batches ahead.
const LOADERS: usize = 1;

/// A run that is about to begin or to go on.
pub struct Training {
    pub settings: Settings,
    pub start: Start,
    pub folder: PathBuf,
    pub data: Arc<Split>,
    pub device: Device,
    pub format: Format,
    pub trace_file: Option<PathBuf>,
    pub trace: Option<Trace>,
    /// Threads to compute with.
    pub threads: usize,
}

impl Task for Training {
    type Output = Result<(), Failure>;

    fn run<const D: usize, N: ImageNetwork<D>>(self, network: N) -> Self::Output {
        if let Some(settings) = &self.settings.pipeline {
            return pipeline::run(&self, settings, &network);
        }
        let Settings { batch, steps, lr, .. } = self.settings;
        // Told before anything is written.
        let strategy = plan::resolve(&network, batch, &self.pass(0)?, self.settings.strategy()?, || {
            let Batch { images, labels } = self.batch(0);
            (images, labels)
        })?;
        let (mut network, mut optimizer, first) = self.begin(network)?;
        let mut metrics = MetricsFile::open(&self.folder, first)?;
        let per_epoch = self.data.train.len().div_ceil(batch);
        let interrupted = watch_interrupts()?;
        let bar = progress(steps, first);
        memory::reset_peak();

        let mut activation_peak = 0;
        let (mut done, mut test_accuracy) = (first, None);
        let mut ahead = self.batches(first..steps);
        for step in first..steps {
            let start = Instant::now();
            let epoch = step / per_epoch;
            let Some((pixels, labels)) = ahead.next() else { break };
            let train = &self.data.train;
            let samples = Batch::new(pixels, labels, train.channels, train.side, &self.device);
            let count = samples.len();
            let labels = samples.labels.clone();
            let result = network
                .step(samples.images, samples.labels, self.pass(step as u64)?, strategy)
                .map_err(|error| self.stopped(error))?;
            let gradients = match self.settings.recipe.clip {
                Some(largest) => clip(&network, result.gradients, largest),
                None => result.gradients,
            };
            let rate = self.settings.recipe.learning_rate(lr, step, steps);
            network = optimizer.step(rate, network, gradients);
            network = result.statistics.apply(network);
            activation_peak = activation_peak.max(result.memory.activation_peak);
            done = step + 1;
            let seconds = start.elapsed().as_secs_f64();
            let stop = interrupted.load(Ordering::Relaxed);
            let whole_epoch = done % per_epoch == 0;
            test_accuracy = whole_epoch.then(|| self.evaluate(&network)).transpose()?;

            let line = Metrics {
                step,
                epoch,
                loss: result.loss,
                accuracy: hits(result.output, labels) as f64 / count as f64,
                samples_per_second: count as f64 / seconds,
                activation_peak_bytes: result.memory.activation_peak,
                test_accuracy,
                test_loss: None,
            };
            metrics.write(&line)?;
            bar.set_position(done as u64);
            bar.set_message(format!("loss {:.4}, accuracy {:5.1} %", line.loss, 100.0 * line.accuracy));
            if stop || whole_epoch || done == steps {
                record::save(&self.folder, &network, &optimizer, done)?;
            }
            if stop {
                break;
            }
        }
        bar.finish_and_clear();
        if let (Some(path), Some(trace)) = (&self.trace_file, &self.trace) {
            trace_file::write(path, trace)?;
        }

        safetensors_file::write(&self.folder.join("weights.safetensors"), &named_parameters(&network))?;
        let outcome = Outcome {
            parameters_digest: parameter_digest(&network),
            test_accuracy: test_accuracy.map_or_else(|| self.evaluate(&network), Ok)?,
            peak_bytes: memory::peak(),
            // Nothing is fetched from slow storage here, so nothing waits for it.
            stall_seconds: 0.0,
            steps: done,
            interrupted: done < steps,
        };
        let report = Report::new(&network, &self.settings, &self.pass(0)?, activation_peak)?;
        report.print(&outcome, &self.folder, self.format)?;
        Ok(())
    }
}

impl Training {
    /// The state to begin with: fresh, or the record's.
    fn begin<const D: usize, N: ImageNetwork<D>>(
        &self,
        network: N,
    ) -> Result<(N, ModuleOptimizer, usize), Failure> {
        self.prepare()?;
        // A run that was killed before its first record begins anew.
        if record::exists(&self.folder) {
            record::load(&self.folder, network, self.settings.recipe.optimizer())
        } else {
            Ok((network, self.settings.recipe.optimizer(), 0))
        }
    }

    /// Makes the folder of a fresh run.
    pub fn prepare(&self) -> Result<(), Failure> {
        if let Start::Fresh { replace } = self.start {
            prepare(&self.folder, replace)?;
            write_whole(&Settings::path(&self.folder), &serde_json::to_vec_pretty(&self.settings)?)?;
        }
        Ok(())
    }

    /// A step that failed, with a way on.
    pub fn stopped(&self, error: reprop::Error) -> Failure {
        let hint = match (&error, record::exists(&self.folder)) {
            (reprop::Error::LossNotFinite { .. } | reprop::Error::RangeOverflow { .. }, true) => {
                format!("lower --lr; the record of the last whole epoch is in {}", self.folder.display())
            }
            (reprop::Error::LossNotFinite { .. } | reprop::Error::RangeOverflow { .. }, false) => {
                "lower --lr".to_owned()
            }
            _ => return error.into(),
        };
        Failure::from(error).hint(hint)
    }

    fn pass(&self, step: u64) -> Result<Pass, Failure> {
        let numbers = self.settings.numbers()?;
        let pass = Pass::training(self.settings.seed)
            .step(step)
            .arithmetic(numbers.arithmetic())
            .precision(numbers.precision())
            .kernels(numbers.kernels)
            .meter(Meter::new());
        Ok(match &self.trace {
            Some(trace) => pass.trace(trace),
            None => pass,
        })
    }

    /// What is done to images that are judged, and to those that are learned from.
    fn augmentation(&self) -> Augmentation {
        match self.settings.recipe.augmentation {
            AugmentationName::None | AugmentationName::Shift => Augmentation::none(self.data.train.channels),
            AugmentationName::CropFlip => Augmentation::cifar10(),
        }
    }

    /// Pixels and labels of the batches of these steps, made ahead of them.
    fn batches(&self, steps: Range<usize>) -> Ahead<(Vec<f32>, Vec<i32>)> {
        Ahead::new(steps, LOADERS, self.maker())
    }

    /// The batch of a step.
    pub fn batch(&self, step: usize) -> Batch {
        let (pixels, labels) = self.maker()(step);
        let train = &self.data.train;
        Batch::new(pixels, labels, train.channels, train.side, &self.device)
    }

    /// Makes pixels and labels of the batch of a step: they depend on the seed and on the step alone.
    fn maker(&self) -> impl Fn(usize) -> (Vec<f32>, Vec<i32>) + Send + Sync + 'static {
        let Settings { batch, seed, .. } = self.settings;
        let per_epoch = self.data.train.len().div_ceil(batch);
        let (data, augmentation) = (Arc::clone(&self.data), self.augmentation());
        let shifts = self.settings.recipe.augmentation == AugmentationName::Shift;
        let pixels = move |images: &Images, index: usize, epoch: u64| {
            if shifts {
                shift(images, index, seed, epoch)
            } else {
                augmentation.training(images, index, seed, epoch)
            }
        };
        move |step| {
            let images = &data.train;
            let epoch = (step / per_epoch) as u64;
            let order = order(images.len(), seed, epoch);
            let indices: Vec<usize> = order.into_iter().skip(step % per_epoch * batch).take(batch).collect();
            let labels = indices.iter().map(|&index| images.labels[index] as i32).collect();
            (indices.into_iter().flat_map(|index| pixels(images, index, epoch)).collect(), labels)
        }
    }

    /// Images of the test set as they are judged.
    pub fn test_batch(&self, indices: &[usize]) -> Batch {
        let (test, augmentation) = (&self.data.test, self.augmentation());
        Batch::gather(test, indices, &self.device, |index| augmentation.evaluation(test, index))
    }

    /// The part of the test set that is classified rightly.
    fn evaluate<const D: usize, N: ImageNetwork<D>>(&self, network: &N) -> Result<f64, Failure> {
        let numbers = self.settings.numbers()?;
        let pass = Pass::evaluation()
            .arithmetic(numbers.arithmetic())
            .precision(numbers.precision())
            .kernels(numbers.kernels)
            .meter(Meter::new());
        let test = &self.data.test;
        let mut right = 0;
        for indices in (0..test.len()).collect::<Vec<_>>().chunks(self.settings.batch) {
            let batch = self.test_batch(indices);
            right += hits(network.predict(batch.images, &pass)?, batch.labels);
        }
        Ok(right as f64 / test.len() as f64)
    }
}

/// Makes the folder. One that holds a run is replaced only if the user did not name it.
pub(super) fn prepare(folder: &Path, replace: bool) -> Result<(), Failure> {
    if record::exists(folder) {
        if !replace {
            return Err(Failure::new(format!("{} already holds a run", folder.display())).hint(format!(
                "go on with it by `--resume {}`, or choose another folder",
                folder.display()
            )));
        }
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    Ok(fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?)
}

/// Raises a flag when the user presses Ctrl-C; the loop ends after its step, with the record written.
pub(super) fn watch_interrupts() -> Result<Arc<AtomicBool>, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))?;
    Ok(interrupted)
}

/// A bar on a terminal, nothing elsewhere.
pub fn progress(steps: usize, first: usize) -> ProgressBar {
    let bar = ProgressBar::new(steps as u64).with_position(first as u64);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} steps, {elapsed} of {duration}, {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
