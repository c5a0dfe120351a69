//! Training of masked language models.

use std::sync::atomic::Ordering;
use std::time::Instant;

use burn::optim::ModuleOptimizer;
use burn::tensor::{Device, Int, Tensor, TensorData};
use reprop::{HiddenKeys, Network, Pass, Side, Strategy, named_parameters, parameter_digest};
use reprop_data::{Bpe, MaskedSequence, MaskedText, NOT_ASKED, order};
use reprop_models::{RevRoberta, RevRobertaConfig};
use serde::Serialize;

use crate::bytes::human;
use crate::failure::Failure;
use crate::images::hits;
use crate::options::{Format, Global, TrainOptions};
use crate::{device, memory, plan, safetensors_file, weights_file};

use super::common::{Common, watch_interrupts};
use super::live::Live;
use super::metrics::{Metrics, MetricsFile};
use super::scaled::Scaled;
use super::settings::Settings;
use super::text_settings::{TextSettings, TextSplit};
use super::{pipeline, record};

/// The epoch whose masks the test is made with: one that no run reaches.
const TEST_EPOCH: u64 = u64::MAX;

/// The last line on stdout.
#[derive(Serialize)]
struct Outcome {
    parameters_digest: String,
    test_loss: f64,
    test_accuracy: f64,
    peak_bytes: u64,
    stall_seconds: f64,
    steps: usize,
    interrupted: bool,
}

/// A run on text that is about to begin or to go on.
pub struct TextRun {
    pub common: Common,
    pub sequence: usize,
    pub split: TextSplit,
    pub bpe: Bpe,
}

/// The state that a run begins or goes on with.
struct Begun {
    network: RevRoberta,
    optimizer: ModuleOptimizer,
    first: usize,
    strategy: Strategy,
}

/// What a network takes, and what it is compared with.
pub struct Batch {
    pub tokens: Tensor<2, Int>,
    pub targets: Tensor<2, Int>,
    pub padding: HiddenKeys,
    /// The tokens asked for, in order.
    asked: Tensor<1, Int>,
}

/// Sequences of a text, with the masks of an epoch.
struct Sequences<'t> {
    text: &'t MaskedText,
    indices: Vec<usize>,
    epoch: u64,
}

impl Sequences<'_> {
    fn padding(&self, device: &Device) -> HiddenKeys {
        let padding: Vec<bool> = self.indices.iter().flat_map(|&index| self.text.padding(index)).collect();
        let shape = [self.indices.len(), padding.len() / self.indices.len().max(1)];
        HiddenKeys(Tensor::from_data(TensorData::new(padding, shape), &device.clone().inner()))
    }

    fn batch(&self, seed: u64, device: &Device) -> Batch {
        let padding = self.padding(device);
        let device = device.clone().inner();
        let sequences: Vec<MaskedSequence> =
            self.indices.iter().map(|&index| self.text.sequence(index, seed, self.epoch)).collect();
        let shape = padding.0.dims();
        let numbers = |of: fn(&MaskedSequence) -> &Vec<i64>| -> Vec<i64> {
            sequences.iter().flat_map(of).copied().collect()
        };
        let targets = numbers(|sequence| &sequence.targets);
        let asked: Vec<i64> = targets.iter().copied().filter(|&target| target != NOT_ASKED).collect();
        let count = asked.len();
        let tensor = |numbers: Vec<i64>| Tensor::from_data(TensorData::new(numbers, shape), &device);
        Batch {
            tokens: tensor(numbers(|sequence| &sequence.tokens)),
            targets: tensor(targets),
            padding,
            asked: Tensor::from_data(TensorData::new(asked, [count]), &device),
        }
    }
}

/// Trains, from the beginning or from a record.
pub fn run(global: &Global, options: &TrainOptions) -> Result<(), Failure> {
    let device = device::by_name(&global.device)?;
    let (settings, bpe, split) = match &options.resume {
        Some(folder) => TextSettings::load(folder)?,
        None => TextSettings::new(global, options)?,
    };
    let TextSettings { run, sequence } = settings;
    let run = TextRun { common: Common::new(global, options, run, &device), sequence, split, bpe };
    let network = run.model()?.init(run.common.settings.seed, &device);
    let network = match &options.init {
        Some(path) => weights_file::begin_with(network, path, options.names)?,
        None => network,
    };
    if let Some(stages) = run.common.settings.pipeline.clone() {
        return pipeline::run(run, stages, &network);
    }
    let begun = run.begin(network)?;
    run.train(begun, global.format)
}

impl TextRun {
    /// What defines it, beside its vocabulary.
    pub fn settings(&self) -> TextSettings {
        TextSettings { run: self.common.settings.clone(), sequence: self.sequence }
    }

    pub fn model(&self) -> Result<RevRobertaConfig, Failure> {
        self.settings().model(&self.bpe)
    }

    /// Makes the folder of a fresh run.
    pub fn prepare(&self) -> Result<(), Failure> {
        self.common.prepare(|folder| {
            if self.common.settings.pipeline.is_some() {
                eprintln!("stages share no parameters: tokens are scored with a table of their own");
            }
            self.settings().save(folder, &self.bpe)
        })
    }

    /// The state to begin with: fresh, or the record's.
    fn begin(&self, network: RevRoberta) -> Result<Begun, Failure> {
        // Told before anything is written.
        let strategy = self.strategy(&network)?;
        self.prepare()?;
        let recipe = &self.common.settings.recipe;
        let (network, optimizer, first) = if record::exists(&self.common.folder) {
            record::load(&self.common.folder, network, recipe.optimizer())?
        } else {
            (network, recipe.optimizer(), 0)
        };
        Ok(Begun { network, optimizer, first, strategy })
    }

    /// Batches of an epoch.
    fn per_epoch(&self) -> usize {
        self.split.train.len().div_ceil(self.common.settings.batch)
    }

    /// The batch of a step.
    pub fn training_batch(&self, step: usize) -> Batch {
        self.training_sequences(step).batch(self.common.settings.seed, &self.common.device)
    }

    /// The padding of that batch.
    pub fn training_padding(&self, step: usize) -> HiddenKeys {
        self.training_sequences(step).padding(&self.common.device)
    }

    fn training_sequences(&self, step: usize) -> Sequences<'_> {
        let Settings { batch, seed, .. } = self.common.settings;
        let (text, per_epoch) = (&self.split.train, self.per_epoch());
        let epoch = (step / per_epoch) as u64;
        let order = order(text.len(), seed, epoch);
        let indices = order.into_iter().skip(step % per_epoch * batch).take(batch).collect();
        Sequences { text, indices, epoch }
    }

    /// A batch of the test, or nothing after the last.
    pub fn testing_batch(&self, position: usize) -> Option<Batch> {
        let sequences = self.testing_sequences(position)?;
        Some(sequences.batch(self.common.settings.seed, &self.common.device))
    }

    /// The padding of that batch.
    pub fn testing_padding(&self, position: usize) -> Option<HiddenKeys> {
        Some(self.testing_sequences(position)?.padding(&self.common.device))
    }

    fn testing_sequences(&self, position: usize) -> Option<Sequences<'_>> {
        let (text, batch) = (&self.split.test, self.common.settings.batch);
        let indices: Vec<usize> = (0..text.len()).skip(position * batch).take(batch).collect();
        (!indices.is_empty()).then_some(Sequences { text, indices, epoch: TEST_EPOCH })
    }

    /// The strategy to run; a sample of the text shows what it costs where that is not told.
    fn strategy(&self, network: &RevRoberta) -> Result<Strategy, Failure> {
        let Settings { batch, .. } = self.common.settings;
        let Batch { tokens, targets, padding, .. } = self.training_batch(0);
        let pass = self.common.pass(0)?.side(Side::new().with(padding));
        plan::resolve(network, batch, &pass, self.common.settings.strategy()?, || (tokens, targets))
    }

    fn train(
        &self,
        Begun { mut network, mut optimizer, first, strategy }: Begun,
        format: Format,
    ) -> Result<(), Failure> {
        let Settings { steps, lr, .. } = self.common.settings;
        let per_epoch = self.per_epoch();
        // Whatever it began with: a run that is killed in its first epoch begins with it again.
        if first == 0 {
            record::save(&self.common.folder, &network, &optimizer, None, first)?;
        }
        let mut scaled = Scaled::begin(&self.common.folder, self.common.settings.numbers()?.precision())?;
        let mut metrics = MetricsFile::open(&self.common.folder, first, self.common.tensorboard.as_deref())?;
        let interrupted = watch_interrupts()?;
        let live = Live::new(steps, first);
        memory::reset_peak();
        let (mut done, mut activation_peak, mut tested) = (first, 0, None);
        for step in first..steps {
            let start = Instant::now();
            let epoch = step / per_epoch;
            let Batch { tokens, targets, padding, asked } = self.training_batch(step);
            let count = tokens.dims()[0];
            let pass = self.common.pass(step as u64)?.side(Side::new().with(padding));
            let result = network.step(tokens, targets, scaled.on(pass), strategy)?;
            if let Some(gradients) = scaled.off(&network, result.gradients) {
                let rate = self.common.settings.recipe.learning_rate(lr, step, steps);
                network = optimizer.step(rate, network, gradients);
            }
            activation_peak = activation_peak.max(result.memory.activation_peak);
            done = step + 1;
            let seconds = start.elapsed().as_secs_f64();
            let stop = interrupted.load(Ordering::Relaxed);
            let whole_epoch = done % per_epoch == 0;
            tested = whole_epoch.then(|| self.evaluate(&network)).transpose()?;
            let line = Metrics {
                step,
                epoch,
                loss: result.loss,
                accuracy: hits(result.output, asked.clone()) as f64 / asked.dims()[0] as f64,
                samples_per_second: count as f64 / seconds,
                activation_peak_bytes: result.memory.activation_peak,
                test_accuracy: tested.map(|(_, accuracy)| accuracy),
                test_loss: tested.map(|(loss, _)| loss),
                alignment: None,
            };
            metrics.write(&line)?;
            live.step(&line, Some(&result.memory));
            if stop || whole_epoch || done == steps {
                let place = record::Place { step: done, loss_scale: scaled.scale() };
                record::save(&self.common.folder, &network, &optimizer, None, place)?;
            }
            if stop {
                break;
            }
        }
        live.finish();
        safetensors_file::write(
            &self.common.folder.join("weights.safetensors"),
            &named_parameters(&network),
        )?;
        let tested = tested.map_or_else(|| self.evaluate(&network), Ok)?;
        self.report(&network, done, tested, activation_peak, format)
    }

    /// Loss and accuracy over all tokens that are asked for in the test's text.
    fn evaluate(&self, network: &RevRoberta) -> Result<(f64, f64), Failure> {
        let numbers = self.common.settings.numbers()?;
        let (mut total, mut right, mut count) = (0.0, 0, 0);
        let batches = (0..).map_while(|position| self.testing_batch(position));
        for Batch { tokens, targets, padding, asked } in batches {
            let pass = numbers.on(Pass::evaluation()).side(Side::new().with(padding));
            let tape = network.record(tokens, targets, pass, Strategy::Reprop)?;
            let here = asked.dims()[0];
            total += f64::from(tape.loss()) * here as f64;
            right += hits(tape.output().clone(), asked);
            count += here;
        }
        Ok((total / count as f64, right as f64 / count as f64))
    }

    fn report(
        &self,
        network: &RevRoberta,
        done: usize,
        (test_loss, test_accuracy): (f64, f64),
        activation_peak: u64,
        format: Format,
    ) -> Result<(), Failure> {
        let outcome = Outcome {
            parameters_digest: parameter_digest(network),
            test_loss,
            test_accuracy,
            peak_bytes: memory::peak(),
            stall_seconds: self.common.stall_seconds(),
            steps: done,
            interrupted: done < self.common.settings.steps,
        };
        if format == Format::Text {
            println!(
                "test loss {test_loss:.4}, accuracy {:.2} % of the tokens asked for, after {done} steps",
                100.0 * test_accuracy
            );
            println!("peak activation memory {} ({})", human(activation_peak), self.common.settings.strategy);
        }
        eprintln!(
            "record, metrics, vocabulary and weights.safetensors are in {}",
            self.common.folder.display()
        );
        if outcome.interrupted {
            eprintln!("interrupted; go on with `reprop train --resume {}`", self.common.folder.display());
        }
        println!("{}", serde_json::to_string(&outcome)?);
        Ok(())
    }
}
