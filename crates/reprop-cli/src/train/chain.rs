//! Training over chains: character models through whole sequences.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use burn::grad_clipping::GradientClippingConfig;
use burn::optim::{AdamWConfig, ModuleOptimizer};
use burn::tensor::Device;
use reprop::chain::{Async, ChainReport, Checkpointed, Error as ChainError, point_identity};
use reprop::{Kernels, Trace, named_parameters, parameter_digest};
use reprop_data::Text;
use reprop_models::{CharRnn, CharRnnConfig, CharStep, Sequences};
use reprop_schedule::Revolve;
use reprop_store::{BackgroundStore, Codec, DiskConfig, Durability, Error as StoreError, Store as _};

use crate::failure::Failure;
use crate::memory;
use crate::options::{Format, Global, TrainOptions};
use crate::safetensors_file;
use crate::trace_file;
use crate::whole_file::write_whole;

use super::chain_report::{Sweeps, print};
use super::chain_settings::{ChainSettings, ChainStrategy};
use super::common::{Start, prepare, watch_interrupts};
use super::metrics::{Metrics, MetricsFile};
use super::recipe::Recipe;
use super::report::Outcome;
use super::settings::Settings;
use super::{output_folder, record};

/// Gradients through long chains can be large; each parameter's are cut to this length.
const CLIP: f32 = 1.0;
/// Symbols of the test text that are told, at most.
const TEST_SYMBOLS: usize = 1 << 17;

/// A run that is about to begin or to go on.
pub struct ChainTraining {
    settings: ChainSettings,
    start: Start,
    folder: PathBuf,
    text: Text,
    config: CharRnnConfig,
    device: Device,
    format: Format,
    trace: Option<(PathBuf, Trace)>,
    /// Folder for TensorBoard's events.
    tensorboard: Option<PathBuf>,
}

/// Where snapshots go, and what a killed pass left there.
struct Snapshots {
    store: BackgroundStore,
    point: Option<Vec<u8>>,
}

impl ChainTraining {
    /// The run that the command line asks for, if it is over a chain.
    pub fn new(global: &Global, options: &TrainOptions, device: &Device) -> Result<Option<Self>, Failure> {
        let (settings, folder, start) = match &options.resume {
            Some(folder) => match ChainSettings::load(folder)? {
                Some(settings) => (settings, folder.clone(), Start::Resumed),
                None => return Ok(None),
            },
            None if !CharRnnConfig::NAMES.contains(&options.model.as_str()) => return Ok(None),
            None if options.init.is_some() || options.ema.is_some() => {
                return Err(Failure::usage(format!("{} takes neither --init nor --ema", options.model)));
            }
            None => {
                let start = Start::Fresh { replace: options.out.is_none() };
                (ChainSettings::new(global, options)?, output_folder(options), start)
            }
        };
        let text = settings.text()?;
        settings.windows(&text)?;
        let config = settings.network(text.symbols.len())?;
        let trace = options.trace.clone().map(|path| (path, Trace::new()));
        let (device, format) = (device.clone(), global.format);
        let tensorboard = options.tensorboard.clone();
        Ok(Some(Self { settings, start, folder, text, config, device, format, trace, tensorboard }))
    }

    /// Trains to the end.
    pub fn run(self) -> Result<(), Failure> {
        let ChainSettings { sequence, slots, batch, steps, lr, .. } = self.settings;
        let recipe = Recipe::by_name("text")?;
        let (mut network, mut optimizer, first) = self.begin()?;
        let mut metrics = MetricsFile::open(&self.folder, first, self.tensorboard.as_deref())?;
        let per_epoch = self.settings.windows(&self.text)?;
        let mut snapshots = self.snapshots()?;
        let interrupted = watch_interrupts()?;
        let sweeps = Sweeps::new(sequence);
        let mut plan = Async::new(slots).steps(sequence);
        memory::reset_peak();

        let (mut done, mut stall, mut last, mut inside) = (first, 0.0, None, false);
        for step in first..steps {
            let start = Instant::now();
            let sequences = Sequences::cut(self.text.split().train, sequence, batch, step)?;
            sweeps.say(format!("step {step} of {steps}{}", last_loss(last.as_ref())));
            let how = self.how(&network, &sequences, step, &mut plan, &mut snapshots)?;
            let Some(CharStep { loss, accuracy, gradients, report }) =
                self.pass(&network, &sequences, how, &sweeps, &interrupted)?
            else {
                record::save(&self.folder, &network, &optimizer, None, done)?;
                inside = true;
                break;
            };
            if !loss.is_finite() {
                return Err(Failure::new(format!("the loss is {loss} at step {step}")).hint("lower --lr"));
            }
            network = optimizer.step(recipe.learning_rate(lr, step, steps), network, gradients);
            if let Some(at) = report.resumed_at {
                eprintln!("went on inside the pass of step {step}, from x{at}");
            }
            done = step + 1;
            stall += report.stall_seconds;
            metrics.write(&Metrics {
                step,
                epoch: step / per_epoch,
                loss: loss as f32,
                accuracy,
                samples_per_second: batch as f64 / start.elapsed().as_secs_f64(),
                activation_peak_bytes: report.peak_bytes,
                test_accuracy: None,
                test_loss: None,
                alignment: None,
            })?;
            last = Some((loss, report));
            let stop = interrupted.load(Ordering::Relaxed);
            // With durable points a pass is worth keeping, so each is recorded; else each epoch.
            if stop || self.settings.durable.is_some() || done % per_epoch == 0 || done == steps {
                record::save(&self.folder, &network, &optimizer, None, done)?;
            }
            if stop {
                break;
            }
        }
        sweeps.end();
        // Finishing would remove the durable points of a pass that is to be gone on with.
        if let Some(snapshots) = snapshots.filter(|_| !inside) {
            snapshots.store.finish()?;
        }
        if let Some((path, trace)) = &self.trace {
            trace_file::write(path, trace)?;
        }
        safetensors_file::write(&self.folder.join("weights.safetensors"), &named_parameters(&network))?;
        let outcome = Outcome {
            parameters_digest: parameter_digest(&network),
            test_accuracy: if inside { None } else { Some(self.evaluate(&network)?) },
            peak_bytes: memory::peak(),
            stall_seconds: stall,
            steps: done,
            interrupted: done < steps,
        };
        let stored = (sequence * batch) as u64 * self.config.tape_bytes();
        print(&outcome, last.as_ref().map(|(_, report)| report), stored, &self.folder, self.format)
    }

    /// The state to begin with: fresh, or the record's.
    fn begin(&self) -> Result<(CharRnn, ModuleOptimizer, usize), Failure> {
        if let Start::Fresh { replace } = self.start {
            prepare(&self.folder, replace)?;
            write_whole(&Settings::path(&self.folder), &serde_json::to_vec_pretty(&self.settings)?)?;
        }
        let network = self.config.init(self.settings.seed, &self.device);
        let clipping = Some(GradientClippingConfig::Norm(CLIP));
        let optimizer = AdamWConfig::new().with_weight_decay(0.0).with_grad_clipping(clipping).init();
        if record::exists(&self.folder) {
            record::load(&self.folder, network, optimizer)
        } else {
            Ok((network, optimizer, 0))
        }
    }

    /// Opens the store, with what a killed run left in it if this is one that goes on.
    fn snapshots(&self) -> Result<Option<Snapshots>, Failure> {
        if self.settings.strategy != ChainStrategy::Async {
            return Ok(None);
        }
        let folder = self.settings.store.clone().unwrap_or_else(|| self.folder.join("snapshots"));
        // What waits to be written is in its memory slot anyway.
        let config = DiskConfig::new(&folder).codec(Codec::Auto).queue(self.settings.slots.max(1), u64::MAX);
        let config = match self.settings.durable {
            // Which borders become points is the chain's to say.
            Some(_) => config.durability(Durability::Every(1)),
            None => config,
        };
        let hint = |error: StoreError| match error {
            StoreError::Resumable { .. } => Failure::from(error).hint(resume_hint(&self.folder, &folder)),
            error => error.into(),
        };
        if self.start == Start::Resumed && self.settings.durable.is_some() {
            match config.open_existing() {
                Ok((store, recovered)) => return Ok(Some(Snapshots { store, point: Some(recovered.meta) })),
                Err(StoreError::NothingToResume { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(Snapshots { store: config.create().map_err(hint)?, point: None }))
    }

    /// How a pass gets its states, and from where it goes on.
    fn how<'p>(
        &self,
        network: &CharRnn,
        sequences: &Sequences,
        step: usize,
        plan: &'p mut Async,
        snapshots: &'p mut Option<Snapshots>,
    ) -> Result<Checkpointed<'p>, Failure> {
        Ok(match (self.settings.strategy, snapshots) {
            (ChainStrategy::Stored, _) => Checkpointed::stored(sequences.steps())?,
            (ChainStrategy::Revolve, _) | (ChainStrategy::Async, None) => {
                Checkpointed::schedule(Revolve::new(sequences.steps(), self.settings.slots)?)
            }
            (ChainStrategy::Async, Some(Snapshots { store, point })) => {
                let how = Checkpointed::planner(plan).store(store);
                match self.settings.durable {
                    None => how,
                    Some(every) => {
                        let identity = format!("step {step} of {}", parameter_digest(network)).into_bytes();
                        // What another pass left is of no use to this one.
                        let own = point.take().filter(|point| point_identity(point) == Some(&identity));
                        let how = how.durable(every, identity);
                        match own {
                            Some(point) => how.resume(point),
                            None => how,
                        }
                    }
                }
            }
        })
    }

    /// One pass there and back; nothing if it was interrupted.
    fn pass(
        &self,
        network: &CharRnn,
        sequences: &Sequences,
        how: Checkpointed<'_>,
        sweeps: &Sweeps,
        interrupted: &AtomicBool,
    ) -> Result<Option<CharStep>, Failure> {
        let how = match &self.trace {
            Some((_, trace)) => how.trace(trace),
            None => how,
        };
        let kernels: Kernels = self
            .settings
            .kernels
            .parse()
            .map_err(|error| Failure::new(format!("the run's settings: {error}")))?;
        let how = how.progress(|progress| sweeps.at(progress)).stop(interrupted);
        match network.step(sequences, kernels, how) {
            Err(ChainError::Interrupted { .. }) => Ok(None),
            done => Ok(Some(done?)),
        }
    }

    /// The part of the test text that is told rightly.
    fn evaluate(&self, network: &CharRnn) -> Result<f64, Failure> {
        let test = self.text.split().test;
        let test = &test[..test.len().min(TEST_SYMBOLS)];
        let batch = (test.len() / (self.settings.sequence + 1)).clamp(1, self.settings.batch);
        let sequence = self.settings.sequence.min((test.len() / batch).saturating_sub(1)).max(1);
        if test.len() < 2 {
            return Ok(0.0);
        }
        let windows = Sequences::windows(test.len(), sequence, batch);
        let mut right = 0.0;
        for window in 0..windows {
            right += network.evaluate(&Sequences::cut(test, sequence, batch, window)?).1;
        }
        Ok(right / windows as f64)
    }
}

fn last_loss(last: Option<&(f64, ChainReport)>) -> String {
    last.map_or_else(String::new, |(loss, _)| format!(", loss {loss:.4}"))
}

fn resume_hint(run: &Path, store: &Path) -> String {
    format!("go on with `reprop train --resume {}`, or remove {}", run.display(), store.display())
}
