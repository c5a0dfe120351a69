//! `reprop plan`: what every way through a network needs, and the one that `auto` takes.

mod chain;
mod place;
mod report;
mod resolve;

use std::path::PathBuf;

use burn::tensor::{Device, Int, Tensor, TensorData};
use clap::Args;
use reprop::{Costs, Input, Meter, Network, Pass, Spill, Target};
use reprop_models::{CharRnnConfig, LanguageModel};
use reprop_store::DiskConfig;

use crate::bytes::parse_bytes;
use crate::device;
use crate::failure::Failure;
use crate::images::{Batch, ImageNetwork, Task, with_network};
use crate::options::{Format, Global, ModelChanges, Numbers, positive};

pub use chain::Chain;
use report::Report;
pub use resolve::resolve;
use resolve::{Source, costs, explained};

/// Options of `plan`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = FIELDS)]
pub struct PlanOptions {
    /// The network.
    #[arg(long, default_value = "rev-vit-digits", value_name = "NAME")]
    model: String,
    #[command(flatten)]
    changes: ModelChanges,
    /// Number of blocks.
    #[arg(long, value_name = "N")]
    depth: Option<usize>,
    /// Samples a step.
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = positive)]
    batch: usize,
    /// Bytes of activations that may live at once, such as 4GiB.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    budget: u64,
    /// Plan for the largest batch that fits the budget.
    #[arg(long, conflicts_with = "batch")]
    largest_batch: bool,
    /// Predict costs from shapes, and measure nothing: times are then in forwards of the network.
    #[arg(long)]
    predict: bool,
    /// Print every candidate, and not only those that stand out.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    numbers: Numbers,
    /// Symbols that a pass goes back through, for chains (lstm-char, gru-char).
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = positive)]
    sequence: usize,
    /// Folder on the disk that snapshots of chains would go to; the system's temporary one by default. For networks, the
    /// folder that inputs of transitions may go to; by default they stay in memory.
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
}

/// What `--format json` prints.
const FIELDS: &str = "\
Fields of --format json: model, batch, budget_bytes, threads, costs (measured, cached or predicted), chosen (the place of \
the candidate that auto takes), largest_batch (where asked for), and candidates: a list of name, blocks_kept, overlap, \
recompute_transitions, inputs (of transitions that are recomputed: kept, snapshots or disk), snapshots (how many, or null), \
predicted_activation_bytes, forward_evaluations, predicted_seconds and samples_per_second (of \
forward and backward; null where costs are predicted), predicted_forwards (null where they are measured), fits, refused \
(why it is not taken; null for the one that is). For chains: model, sequence, batch, budget_bytes, chosen, and candidates: \
a list of strategy (stored, revolve or async), slots, predicted_activation_bytes, forward_evaluations, predicted_seconds, \
fits, refused.

Costs are measured once for each network, batch, budget, number of threads, kernels and version, by a few steps that fit \
the budget, and kept in costs.json in the folder that REPROP_CACHE names, or in reprop in the user's cache folder.";

/// Plans, and prints the plan.
pub fn run(global: &Global, options: &PlanOptions) -> Result<(), Failure> {
    let device = device::by_name(&global.device)?;
    if CharRnnConfig::NAMES.contains(&options.model.as_str()) {
        return of_chain(global, options);
    }
    let task = Planning { global, options, device: device.clone() };
    let report = if let Some(model) = LanguageModel::by_name(&options.model) {
        let model = model.change(&options.changes.changes(options.depth));
        model.check().map_err(|sentence| Failure::usage(format!("{}: {sentence}", options.model)))?;
        let LanguageModel::RevRoberta(config) = model;
        let (length, vocabulary) = (config.length, config.vocabulary);
        let sample = |batch| text(batch, length, vocabulary, &device.clone().inner());
        task.report(&config.init(global.seed, &device), sample)?
    } else {
        let model = options.changes.apply(&options.model, options.depth)?;
        with_network(&model, global.seed, &device, (task, model.images()))?
    };
    match global.format {
        Format::Json => println!("{}", serde_json::to_string_pretty(&report)?),
        Format::Text => report.print(options.all),
    }
    Ok(())
}

/// Plans a chain, and prints the plan.
fn of_chain(global: &Global, options: &PlanOptions) -> Result<(), Failure> {
    if options.predict || options.largest_batch {
        return Err(Failure::usage(format!("{} is a chain: its steps are always measured", options.model))
            .hint("leave out --predict and --largest-batch"));
    }
    let text = reprop_data::sotu();
    let PlanOptions { ref model, sequence, batch, budget, .. } = *options;
    let config = CharRnnConfig::by_name(model, text.symbols.len())
        .ok_or_else(|| Failure::usage(format!("there is no chain called `{model}`")))?;
    let config = CharRnnConfig {
        width: options.changes.width.unwrap_or(config.width),
        depth: options.depth.unwrap_or(config.depth),
        ..config
    };
    config.check().map_err(|sentence| Failure::usage(format!("{model}: {sentence}")))?;
    let folder = options.store.clone().unwrap_or_else(std::env::temp_dir);
    let chain = Chain { model, config, sequence, batch, budget };
    let report = chain.report(&text, options.numbers.kernels, &folder, global.seed)?;
    match global.format {
        Format::Json => println!("{}", serde_json::to_string_pretty(&report)?),
        Format::Text => report.print(),
    }
    Ok(())
}

struct Planning<'o> {
    global: &'o Global,
    options: &'o PlanOptions,
    device: Device,
}

impl Task for (Planning<'_>, reprop_models::ImageShape) {
    type Output = Result<Report, Failure>;

    fn run<const D: usize, N: ImageNetwork<D>>(self, network: N) -> Self::Output {
        let (planning, shape) = self;
        planning.report(&network, |batch| {
            let Batch { images, labels } = Batch::noise(batch, shape, planning.global.seed, &planning.device);
            (images, labels)
        })
    }
}

impl Planning<'_> {
    fn report<const D: usize, N: Network<D>>(
        &self,
        network: &N,
        sample: impl FnOnce(usize) -> (Input<D, N>, Target<D, N>),
    ) -> Result<Report, Failure> {
        let PlanOptions { budget, numbers, .. } = *self.options;
        let pass = numbers.on(Pass::training(self.global.seed)).meter(Meter::new());
        let pass = match &self.options.store {
            Some(folder) => pass.spill(&Spill::new(DiskConfig::new(folder))),
            None => pass,
        };
        let told = |error| explained(network, &pass, budget, error);
        let largest = self
            .options
            .largest_batch
            .then(|| network.largest_batch(&pass, budget))
            .transpose()
            .map_err(told)?;
        let batch = largest.unwrap_or(self.options.batch);
        let (costs, source) = if self.options.predict {
            (Costs::predicted(network, batch, &pass).map_err(told)?, Source::Predicted)
        } else {
            costs(network, batch, &pass, budget, || sample(batch)).map_err(told)?
        };
        let plan = network.plan(batch, &pass, budget, &costs).map_err(told)?;
        Ok(Report::new(&self.options.model, &plan, source, largest))
    }
}

/// Tokens and targets for measuring: every seventh place is asked for, about as many as are masked in training.
fn text(batch: usize, length: usize, vocabulary: usize, device: &Device) -> (Tensor<2, Int>, Tensor<2, Int>) {
    let places = 0..(batch * length) as i64;
    let token = |place: i64| place.wrapping_mul(7919) % vocabulary as i64;
    let asked = |place: i64| if place % 7 == 0 { token(place + 1) } else { reprop_data::NOT_ASKED };
    let tensor = |numbers: Vec<i64>| Tensor::from_data(TensorData::new(numbers, [batch, length]), device);
    (tensor(places.clone().map(token).collect()), tensor(places.map(asked).collect()))
}
