//! `reprop train`.

mod metrics;
mod recipe;
mod record;
mod report;
mod run;
mod settings;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use reprop::Trace;
use reprop_data::Split;
use reprop_models::ImageShape;

use crate::device;
use crate::failure::Failure;
use crate::images::with_network;
use crate::options::{Global, TrainOptions};
use crate::safetensors_file::write_whole;

use run::Training;
use settings::Settings;

/// Trains, from the beginning or from a record.
pub fn run(global: &Global, options: TrainOptions) -> Result<(), Failure> {
    let device = device::by_name(&global.device)?;
    let (settings, folder) = match &options.resume {
        Some(folder) => (Settings::load(folder)?, folder.clone()),
        None => {
            let data = load_data(&options.data)?;
            let settings = Settings::new(global, &options, data.train.len());
            let folder = output_folder(&options);
            (settings, folder)
        }
    };
    let data = load_data(&settings.data)?;
    let model = settings.model()?;
    settings.check_data(
        &model,
        ImageShape { channels: data.train.channels, side: data.train.side, classes: data.train.classes },
    )?;
    settings.strategy()?;
    if options.resume.is_none() {
        prepare(&folder, options.out.is_some())?;
        write_whole(&Settings::path(&folder), &serde_json::to_vec_pretty(&settings)?)?;
    }
    let seed = settings.seed;
    let training = Training {
        settings,
        folder,
        data,
        device: device.clone(),
        format: global.format,
        trace: options.trace.is_some().then(Trace::new),
        trace_file: options.trace,
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

/// Makes the folder. One that holds a run is replaced only if the user did not name it.
fn prepare(folder: &Path, named: bool) -> Result<(), Failure> {
    if record::exists(folder) {
        if named {
            return Err(Failure::new(format!("{} already holds a run", folder.display())).hint(format!(
                "go on with it by `--resume {}`, or choose another folder",
                folder.display()
            )));
        }
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    Ok(fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?)
}
