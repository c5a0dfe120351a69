//! `reprop train`.

mod chain;
mod chain_report;
mod chain_settings;
mod clip;
mod metrics;
mod pipeline;
mod recipe;
mod record;
mod report;
mod run;
mod settings;
mod text;
mod text_settings;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use reprop::Trace;
use reprop_data::Images;
use reprop_models::{ImageShape, LanguageModel};

use crate::failure::Failure;
use crate::images::with_network;
use crate::options::{Global, TrainOptions};
use crate::{data, device};

pub use pipeline::PipelineOptions;
use pipeline::PipelineSettings;
use recipe::Recipe;
use run::{Start, Training};
use settings::Settings;

/// Trains, from the beginning or from a record.
pub fn run(global: &Global, options: TrainOptions) -> Result<(), Failure> {
    pipeline::check_launch(options.pipeline.method.is_some() || options.resume.is_some());
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
    let (settings, folder) = if let Some(folder) = &options.resume {
        (Settings::load(folder)?, folder.clone())
    } else {
        let recipe = Recipe::chosen(&options)?;
        let train = data::load(&options.data, options.from.as_ref())?.train;
        let mut settings = Settings::new(global, &options, recipe, train.len());
        settings.fit(shape(&train))?;
        settings.pipeline = PipelineSettings::new(&options.pipeline, &settings.model()?)?;
        if settings.pipeline.is_some() && settings.recipe.clip.is_some() {
            return Err(Failure::usage(format!(
                "the recipe {} clips the norm of all gradients, which no stage of a pipeline sees",
                settings.recipe.name
            ))
            .hint("choose a recipe without clipping, such as --recipe petra-cifar10"));
        }
        (settings, output_folder(&options))
    };
    let data = data::load(&settings.data, settings.from.as_ref())?;
    let model = settings.model()?;
    settings.check_data(&model, shape(&data.train))?;
    let start = match (&options.resume, &options.out) {
        (Some(_), _) => Start::Resumed,
        (None, Some(_)) => Start::Fresh { replace: false },
        (None, None) => Start::Fresh { replace: true },
    };
    let seed = settings.seed;
    let training = Training {
        settings,
        start,
        folder,
        data: Arc::new(data),
        device: device.clone(),
        format: global.format,
        trace: options.trace.is_some().then(Trace::new),
        trace_file: options.trace,
        threads: global.threads.unwrap_or_else(rayon::current_num_threads),
    };
    with_network(&model, seed, &device, training)
}

fn shape(images: &Images) -> ImageShape {
    ImageShape { channels: images.channels, side: images.side, classes: images.classes }
}

fn output_folder(options: &TrainOptions) -> PathBuf {
    options
        .out
        .clone()
        .unwrap_or_else(|| Path::new("run").join(format!("{}-{}", options.model, options.data)))
}
