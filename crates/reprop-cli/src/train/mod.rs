//! `reprop train`.

mod metrics;
mod pipeline;
mod recipe;
mod record;
mod report;
mod run;
mod settings;

use std::path::{Path, PathBuf};

use reprop::Trace;
use reprop_data::Split;
use reprop_models::ImageShape;

use crate::device;
use crate::failure::Failure;
use crate::images::with_network;
use crate::options::{Global, TrainOptions};

pub use pipeline::PipelineOptions;
use pipeline::PipelineSettings;
use run::{Start, Training};
use settings::Settings;

/// Trains, from the beginning or from a record.
pub fn run(global: &Global, options: TrainOptions) -> Result<(), Failure> {
    pipeline::check_launch(options.pipeline.method.is_some() || options.resume.is_some());
    let device = device::by_name(&global.device)?;
    let (settings, folder) = if let Some(folder) = &options.resume {
        (Settings::load(folder)?, folder.clone())
    } else {
        let samples = load_data(&options.data)?.train.len();
        let mut settings = Settings::new(global, &options, samples);
        settings.pipeline = PipelineSettings::new(&options.pipeline, &settings.model()?)?;
        (settings, output_folder(&options))
    };
    let data = load_data(&settings.data)?;
    let model = settings.model()?;
    settings.check_data(
        &model,
        ImageShape { channels: data.train.channels, side: data.train.side, classes: data.train.classes },
    )?;
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
        data,
        device: device.clone(),
        format: global.format,
        trace: options.trace.is_some().then(Trace::new),
        trace_file: options.trace,
        threads: global.threads.unwrap_or_else(rayon::current_num_threads),
    };
    with_network(&model, seed, &device, training)
}

fn load_data(name: &str) -> Result<Split, Failure> {
    match name {
        "digits" => Ok(reprop_data::digits()),
        _ => Err(Failure::usage(format!("there is no data set called `{name}`")).hint("choose digits")),
    }
}

fn output_folder(options: &TrainOptions) -> PathBuf {
    options
        .out
        .clone()
        .unwrap_or_else(|| Path::new("run").join(format!("{}-{}", options.model, options.data)))
}
