//! Training of masked language models.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Instant;

use burn::optim::ModuleOptimizer;
use burn::tensor::{Device, Int, Tensor, TensorData};
use reprop::{HiddenKeys, Meter, Network, Pass, Side, Strategy, named_parameters, parameter_digest};
use reprop_data::{Bpe, MaskedSequence, MaskedText, NOT_ASKED, order};
use reprop_models::RevRoberta;
use serde::Serialize;

use crate::bytes::human;
use crate::failure::Failure;
use crate::images::hits;
use crate::options::{Format, Global, TrainOptions};
use crate::{device, memory, plan, safetensors_file, weights_file};

use super::live::Live;
use super::metrics::{Metrics, MetricsFile};
use super::run::{prepare, watch_interrupts};
use super::scaled::Scaled;
use super::settings::Settings;
use super::text_settings::{TextSettings, TextSplit};
use super::{output_folder, record};

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

/// A run that is about to begin or to go on.
struct TextRun {
    settings: TextSettings,
    split: TextSplit,
    folder: PathBuf,
    device: Device,
    /// Folder for TensorBoard's events.
    tensorboard: Option<PathBuf>,
}

/// The state that a run begins or goes on with.
struct Begun {
    network: RevRoberta,
    optimizer: ModuleOptimizer,
    first: usize,
    strategy: Strategy,
}

/// What a network takes, and what it is compared with.
struct Batch {
    tokens: Tensor<2, Int>,
    targets: Tensor<2, Int>,
    padding: HiddenKeys,
    /// The tokens asked for, in order.
    asked: Tensor<1, Int>,
}

impl Batch {
    fn new(text: &MaskedText, indices: &[usize], seed: u64, epoch: u64, device: &Device) -> Self {
        let device = device.clone().inner();
        let sequences: Vec<MaskedSequence> =
            indices.iter().map(|&index| text.sequence(index, seed, epoch)).collect();
        let shape = [sequences.len(), sequences.first().map_or(0, |sequence| sequence.tokens.len())];
        let numbers = |of: fn(&MaskedSequence) -> &Vec<i64>| -> Vec<i64> {
            sequences.iter().flat_map(of).copied().collect()
        };
        let targets = numbers(|sequence| &sequence.targets);
        let asked: Vec<i64> = targets.iter().copied().filter(|&target| target != NOT_ASKED).collect();
        let count = asked.len();
        let padding: Vec<bool> = sequences.iter().flat_map(|sequence| sequence.padding.clone()).collect();
        let tensor = |numbers: Vec<i64>| Tensor::from_data(TensorData::new(numbers, shape), &device);
        Self {
            tokens: tensor(numbers(|sequence| &sequence.tokens)),
            targets: tensor(targets),
            padding: HiddenKeys(Tensor::from_data(TensorData::new(padding, shape), &device)),
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
    let network = settings.model(&bpe)?.init(settings.run.seed, &device);
    let network = match &options.init {
        Some(path) => weights_file::begin_with(network, path, options.names)?,
        None => network,
    };
    let folder = options.resume.clone().unwrap_or_else(|| output_folder(options));
    let run = TextRun { settings, split, folder, device, tensorboard: options.tensorboard.clone() };
    let begun = run.begin(network, &bpe, options)?;
    run.train(begun, global.format)
}

impl TextRun {
    /// The state to begin with: fresh, or the record's.
    fn begin(&self, network: RevRoberta, bpe: &Bpe, options: &TrainOptions) -> Result<Begun, Failure> {
        // Told before anything is written.
        let strategy = self.strategy(&network)?;
        if options.resume.is_none() {
            prepare(&self.folder, options.out.is_none())?;
            self.settings.save(&self.folder, bpe)?;
        }
        let (network, optimizer, first) = if record::exists(&self.folder) {
            record::load(&self.folder, network, self.settings.run.recipe.optimizer())?
        } else {
            (network, self.settings.run.recipe.optimizer(), 0)
        };
        Ok(Begun { network, optimizer, first, strategy })
    }

    /// The strategy to run; a sample of the text shows what it costs where that is not told.
    fn strategy(&self, network: &RevRoberta) -> Result<Strategy, Failure> {
        let Settings { batch, seed, .. } = self.settings.run;
        let text = &self.split.train;
        let indices: Vec<usize> = (0..batch.min(text.len())).collect();
        let Batch { tokens, targets, padding, .. } = Batch::new(text, &indices, seed, 0, &self.device);
        let pass = self.pass(0)?.side(Side::new().with(padding));
        plan::resolve(network, batch, &pass, self.settings.run.strategy()?, || (tokens, targets))
    }

    fn pass(&self, step: u64) -> Result<Pass, Failure> {
        let numbers = self.settings.run.numbers()?;
        Ok(Pass::training(self.settings.run.seed)
            .step(step)
            .arithmetic(numbers.arithmetic())
            .precision(numbers.precision())
            .kernels(numbers.kernels)
            .meter(Meter::new()))
    }

    fn train(
        &self,
        Begun { mut network, mut optimizer, first, strategy }: Begun,
        format: Format,
    ) -> Result<(), Failure> {
        let Settings { batch, steps, lr, seed, .. } = self.settings.run;
        let text = &self.split.train;
        let per_epoch = text.len().div_ceil(batch);
        // Whatever it began with: a run that is killed in its first epoch begins with it again.
        if first == 0 {
            record::save(&self.folder, &network, &optimizer, None, first)?;
        }
        let mut scaled = Scaled::begin(&self.folder, self.settings.run.numbers()?.precision())?;
        let mut metrics = MetricsFile::open(&self.folder, first, self.tensorboard.as_deref())?;
        let interrupted = watch_interrupts()?;
        let live = Live::new(steps, first);
        memory::reset_peak();
        let (mut done, mut activation_peak, mut tested) = (first, 0, None);
        for step in first..steps {
            let start = Instant::now();
            let epoch = step / per_epoch;
            let order = order(text.len(), seed, epoch as u64);
            let indices: Vec<usize> = order.into_iter().skip(step % per_epoch * batch).take(batch).collect();
            let Batch { tokens, targets, padding, asked } =
                Batch::new(text, &indices, seed, epoch as u64, &self.device);
            let pass = self.pass(step as u64)?.side(Side::new().with(padding));
            let result = network.step(tokens, targets, scaled.on(pass), strategy)?;
            if let Some(gradients) = scaled.off(&network, result.gradients) {
                let rate = self.settings.run.recipe.learning_rate(lr, step, steps);
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
                samples_per_second: indices.len() as f64 / seconds,
                activation_peak_bytes: result.memory.activation_peak,
                test_accuracy: tested.map(|(_, accuracy)| accuracy),
                test_loss: tested.map(|(loss, _)| loss),
                alignment: None,
            };
            metrics.write(&line)?;
            live.step(&line, Some(&result.memory));
            if stop || whole_epoch || done == steps {
                let place = record::Place { step: done, loss_scale: scaled.scale() };
                record::save(&self.folder, &network, &optimizer, None, place)?;
            }
            if stop {
                break;
            }
        }
        live.finish();
        safetensors_file::write(&self.folder.join("weights.safetensors"), &named_parameters(&network))?;
        let tested = tested.map_or_else(|| self.evaluate(&network), Ok)?;
        self.report(&network, done, tested, activation_peak, format)
    }

    /// Loss and accuracy over all tokens that are asked for in the test's text.
    fn evaluate(&self, network: &RevRoberta) -> Result<(f64, f64), Failure> {
        let Settings { batch, seed, .. } = self.settings.run;
        let numbers = self.settings.run.numbers()?;
        let text = &self.split.test;
        let (mut total, mut right, mut count) = (0.0, 0, 0);
        for indices in (0..text.len()).collect::<Vec<_>>().chunks(batch) {
            let Batch { tokens, targets, padding, asked } =
                Batch::new(text, indices, seed, TEST_EPOCH, &self.device);
            let pass = Pass::evaluation()
                .arithmetic(numbers.arithmetic())
                .precision(numbers.precision())
                .kernels(numbers.kernels)
                .side(Side::new().with(padding));
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
            // Nothing is fetched from slow storage here, so nothing waits for it.
            stall_seconds: 0.0,
            steps: done,
            interrupted: done < self.settings.run.steps,
        };
        if format == Format::Text {
            println!(
                "test loss {test_loss:.4}, accuracy {:.2} % of the tokens asked for, after {done} steps",
                100.0 * test_accuracy
            );
            println!("peak activation memory {} ({})", human(activation_peak), self.settings.run.strategy);
        }
        eprintln!("record, metrics, vocabulary and weights.safetensors are in {}", self.folder.display());
        if outcome.interrupted {
            eprintln!("interrupted; go on with `reprop train --resume {}`", self.folder.display());
        }
        println!("{}", serde_json::to_string(&outcome)?);
        Ok(())
    }
}
