//! What the command line says.

use std::path::PathBuf;

use clap::builder::ArgPredicate;
use clap::{Args, Parser, Subcommand, ValueEnum};
use reprop::{Arithmetic, Kernels, Pass, Precision, Storage, Strategy};
use reprop_models::{Changes, CharRnnConfig, LanguageModel, Model};

use crate::bench::BenchOptions;
use crate::bytes::parse_bytes;
use crate::data::DataOptions;
use crate::failure::Failure;
use crate::plan::PlanOptions;
use crate::sample::AnyModel;
use crate::schedule::ScheduleOptions;
use crate::train::PipelineOptions;

/// Train deep networks whose activations do not fit in memory, with gradients equal bit for bit.
#[derive(Debug, Parser)]
#[command(name = "reprop", version, arg_required_else_help = true)]
pub struct Options {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Options of every command.
#[derive(Args, Clone, Debug)]
pub struct Global {
    /// Threads to compute with; all cores by default. No result depends on it.
    #[arg(long, global = true, value_name = "N", value_parser = positive)]
    pub threads: Option<usize>,
    /// The device to compute on: cpu, or what the program was built with (wgpu, vulkan, metal, cuda, rocm), by index where
    /// there are several, as in cuda:1; list shows what there is.
    #[arg(long, global = true, default_value = "cpu", value_name = "NAME")]
    pub device: String,
    /// Everything random follows from this number.
    #[arg(long, global = true, default_value_t = 42, value_name = "N")]
    pub seed: u64,
    /// How results are printed on stdout.
    #[arg(long, global = true, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For scripts.
    Json,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train a network; with no options, a small vision transformer on the embedded digits
    Train(Box<TrainOptions>),
    /// Measure throughput and memory of strategies
    Bench(Box<BenchOptions>),
    /// Tell what every way through a network needs, and which of them fits a budget best
    Plan(PlanOptions),
    /// Compare every strategy's gradients with stored ones and with finite differences
    Verify(VerifyOptions),
    /// Count, list or draw the actions of a snapshot schedule
    Schedule(ScheduleOptions),
    /// List every network with its size
    Models(ModelsOptions),
    /// List data sets, and bring them here
    Data(DataOptions),
}

/// Changes to a named network.
#[derive(Args, Clone, Debug)]
pub struct ModelChanges {
    /// Side of the square image in pixels.
    #[arg(long, value_name = "N")]
    pub image: Option<usize>,
    /// Side of a patch in pixels, in networks that cut images into patches.
    #[arg(long, value_name = "N")]
    pub patch: Option<usize>,
    /// Number of classes.
    #[arg(long, value_name = "N")]
    pub classes: Option<usize>,
    /// Width of the first stage.
    #[arg(long, value_name = "N")]
    pub width: Option<usize>,
    /// Rate of dropout.
    #[arg(long, value_name = "RATE")]
    pub dropout: Option<f64>,
    /// Rate of drop-path in the last block.
    #[arg(long, value_name = "RATE")]
    pub drop_path: Option<f64>,
}

impl ModelChanges {
    /// The network `name` with these changes.
    pub fn apply(&self, name: &str, depth: Option<usize>) -> Result<Model, Failure> {
        let model = named(name)?.change(&self.changes(depth));
        model.check().map_err(|sentence| Failure::usage(format!("{name}: {sentence}")))?;
        Ok(model)
    }

    /// The network `name`, of images or of text, with these changes.
    pub fn apply_any(&self, name: &str, depth: Option<usize>) -> Result<AnyModel, Failure> {
        let Some(model) = LanguageModel::by_name(name) else {
            return self.apply(name, depth).map(AnyModel::Images);
        };
        let model = model.change(&self.changes(depth));
        model.check().map_err(|sentence| Failure::usage(format!("{name}: {sentence}")))?;
        let LanguageModel::RevRoberta(config) = model;
        Ok(AnyModel::Text(config))
    }

    /// As the catalogue takes them.
    pub fn changes(&self, depth: Option<usize>) -> Changes {
        let Self { image, patch, classes, width, dropout, drop_path } = *self;
        Changes { image, patch, classes, depth, width, dropout, drop_path, ..Changes::default() }
    }
}

/// The network of that name, or an error that lists them all.
pub fn named(name: &str) -> Result<Model, Failure> {
    Model::by_name(name).ok_or_else(|| {
        if LanguageModel::by_name(name).is_some() {
            return Failure::usage(format!("{name} takes text, not images"))
                .hint("give it text: `train --data text --from FILE`, or `train --data sotu`");
        }
        if CharRnnConfig::NAMES.contains(&name) {
            return Failure::usage(format!("{name} is a recurrence, and this takes networks of blocks"))
                .hint("`train` and `plan` take it");
        }
        let names = Model::names().chain(LanguageModel::names()).chain(CharRnnConfig::NAMES);
        let names = names.collect::<Vec<_>>().join(", ");
        Failure::usage(format!("there is no model called `{name}`")).hint(format!("choose one of {names}"))
    })
}

/// How F and G compute, and how the streams are added to.
#[derive(Args, Clone, Copy, Debug)]
pub struct Numbers {
    /// Precision of F and G; the streams stay exact.
    #[arg(long, value_enum, default_value_t = PrecisionName::F32)]
    pub precision: PrecisionName,
    /// Plain floating-point streams: recomputed gradients are then close to stored ones, not equal.
    #[arg(long)]
    pub float_streams: bool,
    /// Kernels of the layers: auto (fused ones in f32 on the CPU) or burn (Burn's operations).
    #[arg(long, default_value_t = Kernels::Auto, value_name = "NAME")]
    pub kernels: Kernels,
    /// What blocks save is kept until the backward pass as it is (f32) or in 16 bits (bf16, f16): half the memory of what is
    /// stored, and gradients that are approximations.
    #[arg(long, default_value_t = Storage::F32, value_name = "FORMAT")]
    pub saved: Storage,
}

impl Numbers {
    /// `pass` with these numbers.
    pub fn on(self, pass: Pass) -> Pass {
        pass.arithmetic(self.arithmetic())
            .precision(self.precision())
            .kernels(self.kernels)
            .saved_in(self.saved)
    }

    pub fn arithmetic(self) -> Arithmetic {
        if self.float_streams { Arithmetic::Float } else { Arithmetic::default() }
    }

    pub fn precision(self) -> Precision {
        match self.precision {
            PrecisionName::F32 => Precision::F32,
            PrecisionName::Bf16 => Precision::Bf16,
            PrecisionName::F16 => Precision::F16,
        }
    }
}

/// Precisions by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PrecisionName {
    F32,
    Bf16,
    F16,
}

/// Options of `train`.
#[derive(Args, Clone, Debug)]
pub struct TrainOptions {
    /// The network.
    #[arg(long, default_value = "rev-vit-digits", value_name = "NAME")]
    pub model: String,
    #[command(flatten)]
    pub changes: ModelChanges,
    /// Number of blocks.
    #[arg(long, value_name = "N")]
    pub depth: Option<usize>,
    /// The data set: digits, cifar10, imagenet32 or imagenet; for networks of text, text (a file) or sotu.
    #[arg(long, default_value = "digits", default_value_ifs = chain_default("sotu"), value_name = "NAME")]
    pub data: String,
    /// Where the data is: a text file, or the folder of a set of images; by default where `reprop data get` put it.
    #[arg(long, value_name = "PATH")]
    pub from: Option<PathBuf>,
    /// Optimizer, schedule and augmentation: digits, petra-cifar10, petra-imagenet, rev-mvit-imagenet, rev-swin-imagenet,
    /// rev-vit-imagenet, text or vit-small-images; by default what fits model and data.
    #[arg(long, value_name = "NAME")]
    pub recipe: Option<String>,
    /// Places of a sequence of text; for chains, the symbols that a pass goes back through.
    #[arg(long, default_value_t = 128, default_value_ifs = chain_default("1000"), value_name = "N", value_parser = positive)]
    pub sequence: usize,
    /// Tokens of the vocabulary that is made of the text.
    #[arg(long, default_value_t = 1024, value_name = "N", value_parser = positive)]
    pub vocabulary: usize,
    /// A vocabulary to use instead: a tokenizer.json.
    #[arg(long, value_name = "FILE")]
    pub tokenizer: Option<PathBuf>,
    /// How the backward pass gets its activations: stored, reprop, pareprop or auto; stored, revolve or async for chains.
    /// By default pareprop, or auto where a budget is given.
    #[arg(
        long,
        default_value = "pareprop",
        default_value_if("budget", ArgPredicate::IsPresent, "auto"),
        default_value_ifs = chain_default("async"),
        value_name = "NAME"
    )]
    pub strategy: String,
    /// Bytes of activations that may live at once, such as 2GiB: the fastest way that fits is taken (see `reprop plan`).
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub budget: Option<u64>,
    #[command(flatten)]
    pub numbers: Numbers,
    #[command(flatten)]
    pub chain: ChainOptions,
    /// Samples a step; by default the recipe's.
    #[arg(long, value_name = "N", value_parser = positive)]
    pub batch: Option<usize>,
    /// Times through the data; by default the recipe's.
    #[arg(long, value_name = "N", conflicts_with = "steps", value_parser = positive)]
    pub epochs: Option<usize>,
    /// Steps in all, instead of epochs.
    #[arg(long, value_name = "N", value_parser = positive)]
    pub steps: Option<usize>,
    /// The highest learning rate, reached after the warm-up; by default the recipe's for this batch.
    #[arg(long, value_name = "RATE", value_parser = learning_rate, allow_negative_numbers = true)]
    pub lr: Option<f64>,
    /// Epochs in which the learning rate rises; by default the recipe's, in proportion to the epochs of the run.
    #[arg(long, value_name = "EPOCHS", value_parser = warm_up_epochs, allow_negative_numbers = true)]
    pub rate_warm_up: Option<f64>,
    /// Judge by a moving average of the weights, which keeps this much of itself in a step, such as 0.999.
    #[arg(long, value_name = "DECAY", value_parser = decay, allow_negative_numbers = true)]
    pub ema: Option<f64>,
    /// Begin with the weights in this file: .safetensors, or a PyTorch file (.pt, .pth) of a state dictionary.
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    pub init: Option<PathBuf>,
    /// How that file names its weights: own, pytorch (own names, PyTorch's layouts), min-rev or roberta-prelayernorm.
    #[arg(long, value_name = "NAME", default_value = "own", requires = "init")]
    pub names: reprop_models::WeightNames,
    /// Folder for record, metrics and weights; by default `run/MODEL-DATA`, replaced each time.
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    pub out: Option<PathBuf>,
    /// Go on with the run in this folder, with the settings it was begun with.
    #[arg(long, value_name = "DIR")]
    pub resume: Option<PathBuf>,
    /// Write a trace of forward, recover, grads and I/O for Perfetto and Chrome.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write metrics as event files for TensorBoard into this folder too.
    #[arg(long, value_name = "DIR")]
    pub tensorboard: Option<PathBuf>,
    #[command(flatten)]
    pub pipeline: PipelineOptions,
}

/// Options of `train` for chains: lstm-char and gru-char.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Chains (lstm-char, gru-char), and networks that do not fit")]
pub struct ChainOptions {
    /// Snapshots of the state that may be in memory, for revolve and async.
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = positive)]
    pub slots: usize,
    /// Folder for the snapshots of async; by default in the run's folder. For networks with a budget, a folder on a disk that
    /// inputs of transitions may go to; by default they stay in memory.
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// A durable point every so many intervals: a run that is killed goes on inside its pass.
    #[arg(long, value_name = "N", value_parser = positive)]
    pub durable: Option<usize>,
}

/// What a default is for chains.
fn chain_default(value: &'static str) -> [(&'static str, &'static str, Option<&'static str>); 2] {
    CharRnnConfig::NAMES.map(|name| ("model", name, Some(value)))
}

/// Options of `verify`.
#[derive(Args, Clone, Debug)]
pub struct VerifyOptions {
    /// The network.
    #[arg(long, default_value = "rev-vit-digits", value_name = "NAME")]
    pub model: String,
    #[command(flatten)]
    pub changes: ModelChanges,
    /// Number of blocks.
    #[arg(long, value_name = "N")]
    pub depth: Option<usize>,
    #[command(flatten)]
    pub numbers: Numbers,
    /// Samples of the batch.
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = positive)]
    pub batch: usize,
    /// Write weights, batch, outputs and gradients as safetensors files into this folder.
    #[arg(long, value_name = "DIR")]
    pub dump: Option<PathBuf>,
}

/// Options of `models`.
#[derive(Args, Clone, Debug)]
pub struct ModelsOptions {
    #[command(flatten)]
    pub changes: ModelChanges,
    /// Number of blocks.
    #[arg(long, value_name = "N")]
    pub depth: Option<usize>,
}

/// The strategy of that name.
pub fn strategy(name: &str, budget: Option<u64>) -> Result<Strategy, Failure> {
    match (name, budget) {
        ("auto", Some(budget)) => Ok(Strategy::Auto { budget }),
        ("auto", None) => Err(Failure::usage("the strategy `auto` needs a budget").hint("add --budget 2GiB")),
        (name, _) => name.parse().map_err(|error| Failure::usage(format!("{error}"))),
    }
}

pub fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(error.to_string()),
    }
}

fn warm_up_epochs(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(epochs) if epochs.is_finite() && epochs >= 0.0 => Ok(epochs),
        Ok(epochs) => Err(format!("must be a finite number from 0 on, found {epochs}")),
        Err(error) => Err(error.to_string()),
    }
}

fn decay(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(decay) if (0.0..1.0).contains(&decay) => Ok(decay),
        Ok(decay) => Err(format!("must be in [0, 1), found {decay}")),
        Err(error) => Err(error.to_string()),
    }
}

fn learning_rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate >= 0.0 => Ok(rate),
        Ok(rate) => Err(format!("must be a finite number from 0 on, found {rate}")),
        Err(error) => Err(error.to_string()),
    }
}
