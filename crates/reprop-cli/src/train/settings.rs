//! What defines a run: with the same settings it ends with the same bits.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use reprop::{Storage, Strategy};
use reprop_models::{Changes, ImageShape, Model};
use serde::{Deserialize, Serialize};

use super::pipeline::PipelineSettings;
use super::recipe::Recipe;
use crate::failure::Failure;
use crate::options::{self, Global, ModelChanges, Numbers, PrecisionName, TrainOptions};

/// Everything that a run's result depends on, kept beside its record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    pub model: String,
    pub image: Option<usize>,
    #[serde(default)]
    pub patch: Option<usize>,
    /// Of the data set's images.
    #[serde(default)]
    pub channels: Option<usize>,
    pub classes: Option<usize>,
    pub width: Option<usize>,
    pub depth: Option<usize>,
    pub dropout: Option<f64>,
    pub drop_path: Option<f64>,
    pub data: String,
    pub from: Option<PathBuf>,
    pub recipe: Recipe,
    pub strategy: String,
    pub budget: Option<u64>,
    /// A folder that streams may go to under a budget.
    #[serde(default)]
    pub store: Option<PathBuf>,
    pub precision: String,
    pub float_streams: bool,
    pub kernels: String,
    /// What saved tensors are kept in.
    #[serde(default = "as_computed")]
    pub saved: String,
    pub batch: usize,
    pub steps: usize,
    pub lr: f64,
    pub seed: u64,
    /// Present where training is shared out to stages.
    #[serde(default)]
    pub pipeline: Option<PipelineSettings>,
}

/// In runs of programs that could keep nothing in 16 bits.
fn as_computed() -> String {
    Storage::F32.to_string()
}

impl Settings {
    /// The settings that the command line asks for, for a data set of `samples` samples.
    pub fn new(global: &Global, options: &TrainOptions, mut recipe: Recipe, samples: usize) -> Self {
        recipe.ema = options.ema.or(recipe.ema);
        let ModelChanges { image, patch, classes, width, dropout, drop_path } = options.changes;
        let batch = options.batch.unwrap_or(recipe.batch);
        let epochs = options.epochs.unwrap_or(recipe.epochs);
        // In a pipeline, samples of one batch of each replica, and of one update.
        let replicas = options.pipeline.replicas;
        let update = batch * replicas * options.pipeline.accumulate;
        let steps = options.steps.unwrap_or((epochs * samples.div_ceil(batch)).div_ceil(replicas));
        let steps =
            if options.steps.is_none() { steps.next_multiple_of(options.pipeline.accumulate) } else { steps };
        if let Some(rise) = options.rate_warm_up {
            // Recipes count in epochs of their own run.
            let run = (steps * replicas * batch) as f64 / samples as f64;
            recipe.warm_up_epochs = rise * recipe.epochs as f64 / run;
        }
        let precision = match options.numbers.precision {
            PrecisionName::F32 => "f32",
            PrecisionName::Bf16 => "bf16",
            PrecisionName::F16 => "f16",
        };
        Self {
            model: options.model.clone(),
            image,
            patch,
            channels: None,
            classes,
            width,
            depth: options.depth,
            dropout,
            drop_path: drop_path.or(recipe.drop_path),
            data: options.data.clone(),
            from: options.from.clone(),
            strategy: options.strategy.clone(),
            budget: options.budget,
            store: options.chain.store.clone(),
            precision: precision.to_owned(),
            float_streams: options.numbers.float_streams,
            kernels: options.numbers.kernels.to_string(),
            saved: options.numbers.saved.to_string(),
            batch,
            steps,
            lr: options.lr.unwrap_or_else(|| recipe.peak_rate(update)),
            seed: global.seed,
            recipe,
            pipeline: None,
        }
    }

    /// Makes the network fit the data set in everything that the command line does not say.
    pub fn fit(&mut self, data: ImageShape) -> Result<(), Failure> {
        let Changes { image, channels, classes, patch, .. } = options::named(&self.model)?.fit(data);
        if self.image.is_none() {
            self.patch = self.patch.or(patch);
        }
        self.image = self.image.or(image);
        self.channels = channels;
        self.classes = self.classes.or(classes);
        Ok(())
    }

    /// An error for what a pipeline cannot do.
    pub fn check_stages(&self) -> Result<(), Failure> {
        if self.pipeline.is_none() {
            return Ok(());
        }
        if self.data == "imagenet" {
            return Err(Failure::usage("pipelines take images from memory, and imagenet is read from files")
                .hint("choose --data imagenet32 or cifar10"));
        }
        if self.precision == "f16" {
            return Err(Failure::usage(
                "f16 needs a scaled loss, and the stages of a pipeline share no scale",
            )
            .hint("choose --precision bf16"));
        }
        match self.recipe.beyond_stages() {
            Some(what) => Err(Failure::usage(format!("the recipe {} {what}", self.recipe.name))
                .hint("choose another recipe, such as --recipe petra-cifar10")),
            None => Ok(()),
        }
    }

    /// The settings of the run in `folder`.
    pub fn load(folder: &Path) -> Result<Self, Failure> {
        let path = Self::path(folder);
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("{} holds no run: cannot read {}", folder.display(), path.display()))?;
        Ok(serde_json::from_str(&text).with_context(|| format!("{} is damaged", path.display()))?)
    }

    pub fn path(folder: &Path) -> PathBuf {
        folder.join("settings.json")
    }

    /// The network.
    pub fn model(&self) -> Result<Model, Failure> {
        let Self { image, patch, channels, classes, width, dropout, drop_path, .. } = *self;
        let changes = ModelChanges { image, patch, classes, width, dropout, drop_path };
        let model = changes.apply(&self.model, self.depth)?;
        let label_smoothing = Some(self.recipe.label_smoothing);
        Ok(model.change(&Changes { label_smoothing, channels, ..Changes::default() }))
    }

    /// A budget that nothing would look at.
    pub fn budget_without_auto(strategy: &str) -> Failure {
        Failure::usage(format!("a budget is for the strategy auto, and {strategy} was asked for"))
            .hint("leave out --strategy or --budget")
    }

    pub fn strategy(&self) -> Result<Strategy, Failure> {
        if self.budget.is_some() && self.strategy != "auto" {
            return Err(Self::budget_without_auto(&self.strategy));
        }
        if self.store.is_some() && self.budget.is_none() {
            return Err(Failure::usage("a store is for chains, and for networks that do not fit a budget")
                .hint("add --budget, or leave out --store"));
        }
        options::strategy(&self.strategy, self.budget)
    }

    pub fn numbers(&self) -> Result<Numbers, Failure> {
        let precision = match self.precision.as_str() {
            "f32" => PrecisionName::F32,
            "bf16" => PrecisionName::Bf16,
            "f16" => PrecisionName::F16,
            other => {
                return Err(Failure::new(format!("the run's settings name an unknown precision `{other}`")));
            }
        };
        let kernels =
            self.kernels.parse().map_err(|error| Failure::new(format!("the run's settings: {error}")))?;
        let saved =
            self.saved.parse().map_err(|error| Failure::new(format!("the run's settings: {error}")))?;
        Ok(Numbers { precision, float_streams: self.float_streams, kernels, saved })
    }

    /// An error if the network does not take this data.
    pub fn check_data(&self, model: &Model, data: ImageShape) -> Result<(), Failure> {
        let network = model.images();
        if (network.channels, network.side) != (data.channels, data.side) {
            return Err(Failure::usage(format!(
                "{} takes images of {}x{} pixels and {} channels, but {} has {}x{} and {}",
                self.model,
                network.side,
                network.side,
                network.channels,
                self.data,
                data.side,
                data.side,
                data.channels
            ))
            .hint(format!("say --image {}, or nothing: it follows the data set", data.side)));
        }
        if network.classes < data.classes {
            return Err(Failure::usage(format!(
                "{} tells {} classes apart, but {} has {}",
                self.model, network.classes, self.data, data.classes
            ))
            .hint(format!("say --classes {}, or nothing: they follow the data set", data.classes)));
        }
        Ok(())
    }
}
