//! What defines a run over a chain: with the same settings it ends with the same bits.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use reprop::{Kernels, Storage};
use reprop_data::Text;
use reprop_models::{CharRnnConfig, Sequences};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::options::{Global, PrecisionName, TrainOptions};
use crate::plan::Chain;

use super::settings::Settings;

/// What the command line leaves open.
const BATCH: usize = 64;
const RATE: f64 = 2e-3;
const EPOCHS: usize = 10;

/// How the backward pass over a chain gets its states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChainStrategy {
    Stored,
    Revolve,
    Async,
}

impl ChainStrategy {
    fn by_name(model: &str, name: &str) -> Result<Self, Failure> {
        match name {
            "stored" => Ok(Self::Stored),
            "revolve" => Ok(Self::Revolve),
            "async" => Ok(Self::Async),
            "auto" => Err(Failure::usage("the strategy `auto` needs a budget").hint("add --budget 100MiB")),
            other => Err(Failure::usage(format!("{model} is a chain and cannot run under `{other}`"))
                .hint("choose stored, revolve or async, or give a budget")),
        }
    }
}

/// Everything that a run depends on, kept beside its record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChainSettings {
    pub model: String,
    pub width: Option<usize>,
    pub depth: Option<usize>,
    pub data: String,
    pub from: Option<PathBuf>,
    pub strategy: ChainStrategy,
    pub kernels: String,
    pub sequence: usize,
    pub slots: usize,
    pub store: Option<PathBuf>,
    pub durable: Option<usize>,
    pub batch: usize,
    pub steps: usize,
    pub lr: f64,
    pub seed: u64,
}

impl ChainSettings {
    /// The settings that the command line asks for.
    pub fn new(global: &Global, options: &TrainOptions) -> Result<Self, Failure> {
        let strategy = match (options.strategy.as_str(), options.budget) {
            // What fits best is found below, when everything else is known.
            ("auto", Some(_)) => ChainStrategy::Async,
            (_, None) => ChainStrategy::by_name(&options.model, &options.strategy)?,
            (other, Some(_)) => return Err(Settings::budget_without_auto(other)),
        };
        let unusable = [
            ("--precision", options.numbers.precision != PrecisionName::F32),
            ("--float-streams", options.numbers.float_streams),
            ("--saved", options.numbers.saved != Storage::F32),
            ("--image", options.changes.image.is_some()),
            ("--classes", options.changes.classes.is_some()),
            ("--dropout", options.changes.dropout.is_some()),
            ("--drop-path", options.changes.drop_path.is_some()),
        ];
        if let Some((name, _)) = unusable.into_iter().find(|(_, given)| *given) {
            return Err(Failure::usage(format!(
                "{} is a chain: {name} has no meaning for it",
                options.model
            )));
        }
        if options.chain.durable.is_some() && strategy != ChainStrategy::Async {
            return Err(
                Failure::usage("--durable needs a store, which only async has").hint("add --strategy async")
            );
        }
        let mut settings = Self {
            model: options.model.clone(),
            width: options.changes.width,
            depth: options.depth,
            data: options.data.clone(),
            from: options.from.clone(),
            strategy,
            kernels: options.numbers.kernels.to_string(),
            sequence: options.sequence,
            slots: options.chain.slots,
            store: options.chain.store.clone(),
            durable: options.chain.durable,
            batch: options.batch.unwrap_or(BATCH),
            steps: 0,
            lr: options.lr.unwrap_or(RATE),
            seed: global.seed,
        };
        let text = settings.text()?;
        let windows = settings.windows(&text)?;
        if let Some(budget) = options.budget {
            settings.fit(budget, &text, options.numbers.kernels)?;
        }
        settings.steps = options.steps.unwrap_or(options.epochs.unwrap_or(EPOCHS) * windows);
        Ok(settings)
    }

    /// Takes the strategy and the slots that fit a budget best.
    fn fit(&mut self, budget: u64, text: &Text, kernels: Kernels) -> Result<(), Failure> {
        let config = self.network(text.symbols.len())?;
        let chain = Chain { model: &self.model, config, sequence: self.sequence, batch: self.batch, budget };
        let folder = self.store.clone().unwrap_or_else(std::env::temp_dir);
        let (name, slots) = chain.report(text, kernels, &folder, self.seed)?.taken();
        let taken = slots.map_or(String::new(), |slots| format!(" with {slots} slots"));
        eprintln!("auto: {name}{taken}");
        self.strategy = ChainStrategy::by_name(&self.model, name)?;
        self.slots = slots.unwrap_or(self.slots);
        Ok(())
    }

    /// The settings of the run in `folder`, if that is a run over a chain.
    pub fn load(folder: &Path) -> Result<Option<Self>, Failure> {
        #[derive(Deserialize)]
        struct Model {
            model: String,
        }
        let path = Settings::path(folder);
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("{} holds no run: cannot read {}", folder.display(), path.display()))?;
        let damaged = || format!("{} is damaged", path.display());
        let Model { model } = serde_json::from_str(&text).with_context(damaged)?;
        if !CharRnnConfig::NAMES.contains(&model.as_str()) {
            return Ok(None);
        }
        Ok(Some(serde_json::from_str(&text).with_context(damaged)?))
    }

    pub fn text(&self) -> Result<Text, Failure> {
        match (self.data.as_str(), &self.from) {
            ("sotu", None) => Ok(reprop_data::sotu()),
            ("sotu", Some(_)) => {
                Err(Failure::usage("sotu is embedded and not read from a file").hint("add --data text"))
            }
            ("text", Some(path)) => Ok(Text::read(path)?),
            ("text", None) => Err(Failure::usage("--data text needs a file").hint("add --from FILE")),
            (other, _) => Err(Failure::usage(format!("{} reads text, and `{other}` is none", self.model))
                .hint("choose sotu, or text with --from FILE")),
        }
    }

    /// Steps of one epoch.
    pub fn windows(&self, text: &Text) -> Result<usize, Failure> {
        let symbols = text.split().train.len();
        match Sequences::windows(symbols, self.sequence, self.batch) {
            0 => Err(Failure::usage(format!(
                "{} sequences of {} symbols do not fit into the {symbols} symbols that {} has for training",
                self.batch, self.sequence, self.data
            ))
            .hint("lower --batch or --sequence")),
            windows => Ok(windows),
        }
    }

    pub fn network(&self, symbols: usize) -> Result<CharRnnConfig, Failure> {
        let config = CharRnnConfig::by_name(&self.model, symbols)
            .ok_or_else(|| Failure::usage(format!("there is no chain called `{}`", self.model)))?;
        let config = CharRnnConfig {
            width: self.width.unwrap_or(config.width),
            depth: self.depth.unwrap_or(config.depth),
            ..config
        };
        config.check().map_err(|sentence| Failure::usage(format!("{}: {sentence}", self.model)))?;
        Ok(config)
    }
}
