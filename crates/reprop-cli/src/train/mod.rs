//! `reprop train`.

mod batches;
mod chain;
mod chain_report;
mod chain_settings;
mod clip;
mod common;
mod live;
mod metrics;
mod pipeline;
mod recipe;
mod record;
mod report;
mod run;
mod scaled;
mod settings;
mod tensorboard;
mod text;
mod text_settings;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use reprop::Trace;
use reprop_data::{SampleShape, Samples};
use reprop_models::{CharRnnConfig, ImageShape, LanguageModel};

use crate::failure::Failure;
use crate::images::with_network;
use crate::options::{Global, TrainOptions, named};
use crate::{data, device};

use common::Common;
pub use pipeline::PipelineOptions;
use pipeline::PipelineSettings;
use recipe::Recipe;
use run::Training;
use settings::Settings;

/// Trains, from the beginning or from a record.
pub fn run(global: &Global, options: TrainOptions) -> Result<(), Failure> {
    pipeline::check_launch(options.pipeline.method.is_some() || options.resume.is_some());
    let name = options.model.as_str();
    if options.pipeline.method.is_some() && options.resume.is_none() && CharRnnConfig::NAMES.contains(&name) {
        return Err(Failure::usage(format!("{name} cannot be cut into stages"))
            .hint("choose a network such as rev-vit-cifar or rev-roberta-base for a pipeline"));
    }
    let device = device::by_name(&global.device)?;
    if let Some(chain) = chain::ChainTraining::new(global, &options, &device)? {
        return chain.run();
    }
    let model = match &options.resume {
        Some(folder) => Settings::load(folder)?.model,
        None => options.model.clone(),
    };
    if LanguageModel::by_name(&model).is_some() {
        return text::run(global, &options);
    }
    let settings = if let Some(folder) = &options.resume {
        Settings::load(folder)?
    } else {
        let recipe = Recipe::chosen(&options)?;
        let side = options
            .changes
            .image
            .map_or_else(|| Ok(named(&options.model)?.images().side), Ok::<_, Failure>)?;
        let train = data::load(&options.data, options.from.as_ref(), side)?.train;
        let mut settings = Settings::new(global, &options, recipe, train.len());
        settings.fit(shape(&*train))?;
        settings.pipeline = PipelineSettings::new(&options.pipeline);
        settings.check_stages()?;
        settings
    };
    let model = settings.model()?;
    let data = data::load(&settings.data, settings.from.as_ref(), model.images().side)?;
    settings.check_data(&model, shape(&*data.train))?;
    let seed = settings.seed;
    let training = Training {
        common: Common::new(global, &options, settings, &device),
        data: Arc::new(data),
        trace: options.trace.is_some().then(Trace::new),
        init: options.init.map(|path| (path, options.names)),
    };
    with_network(&model, seed, &device, training)
}

fn shape(images: &dyn Samples) -> ImageShape {
    let SampleShape { channels, side, classes } = images.shape();
    ImageShape { channels, side, classes }
}

fn output_folder(options: &TrainOptions) -> PathBuf {
    options
        .out
        .clone()
        .unwrap_or_else(|| Path::new("run").join(format!("{}-{}", options.model, options.data)))
}
