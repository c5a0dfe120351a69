//! What every run has, whatever it learns from.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use burn::tensor::Device;
use reprop::{Meter, Pass, Spill};
use reprop_store::DiskConfig;

use crate::failure::Failure;
use crate::options::{Format, Global, TrainOptions};

use super::settings::Settings;
use super::{output_folder, record};

/// Where a run comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// From nothing, in a folder that may be replaced or not.
    Fresh { replace: bool },
    /// From the record in its folder.
    Resumed,
}

/// What every run has, whatever it learns from.
pub struct Common {
    pub settings: Settings,
    pub start: Start,
    pub folder: PathBuf,
    pub device: Device,
    pub format: Format,
    pub trace_file: Option<PathBuf>,
    /// Folder for TensorBoard's events.
    pub tensorboard: Option<PathBuf>,
    /// Threads to compute with.
    pub threads: usize,
    /// The disk that streams may go to.
    pub spill: Option<Spill>,
}

impl Common {
    /// A run as the command line asks for it.
    pub fn new(global: &Global, options: &TrainOptions, settings: Settings, device: &Device) -> Self {
        Self {
            spill: settings.store.as_ref().map(|folder| Spill::new(DiskConfig::new(folder))),
            settings,
            start: match (&options.resume, &options.out) {
                (Some(_), _) => Start::Resumed,
                (None, Some(_)) => Start::Fresh { replace: false },
                (None, None) => Start::Fresh { replace: true },
            },
            folder: options.resume.clone().unwrap_or_else(|| output_folder(options)),
            device: device.clone(),
            format: global.format,
            trace_file: options.trace.clone(),
            tensorboard: options.tensorboard.clone(),
            threads: global.threads.unwrap_or_else(rayon::current_num_threads),
        }
    }

    /// Makes the folder of a fresh run, and has what defines it written there.
    pub fn prepare(&self, write: impl FnOnce(&Path) -> Result<(), Failure>) -> Result<(), Failure> {
        let Start::Fresh { replace } = self.start else { return Ok(()) };
        prepare(&self.folder, replace)?;
        write(&self.folder)
    }

    /// The pass of a step of training.
    pub fn pass(&self, step: u64) -> Result<Pass, Failure> {
        let numbers = self.settings.numbers()?;
        let pass = numbers.on(Pass::training(self.settings.seed)).step(step).meter(Meter::new());
        Ok(match &self.spill {
            Some(spill) => pass.spill(spill),
            None => pass,
        })
    }

    /// Seconds that training has waited for slow storage.
    pub fn stall_seconds(&self) -> f64 {
        self.spill.as_ref().map_or(0.0, Spill::stall_seconds)
    }

    /// A step that failed, with a way on.
    pub fn stopped(&self, error: reprop::Error) -> Failure {
        let hint = match (&error, record::exists(&self.folder)) {
            (reprop::Error::LossNotFinite { .. } | reprop::Error::RangeOverflow { .. }, true) => {
                format!("lower --lr; the record of the last whole epoch is in {}", self.folder.display())
            }
            (reprop::Error::LossNotFinite { .. } | reprop::Error::RangeOverflow { .. }, false) => {
                "lower --lr".to_owned()
            }
            (reprop::Error::Spill { .. }, _) => {
                "give --store a folder with room on a disk of its own, or raise --budget".to_owned()
            }
            _ => return error.into(),
        };
        Failure::from(error).hint(hint)
    }
}

/// Makes the folder. One that holds a run is replaced only if the user did not name it.
pub fn prepare(folder: &Path, replace: bool) -> Result<(), Failure> {
    if record::exists(folder) {
        if !replace {
            return Err(Failure::new(format!("{} already holds a run", folder.display())).hint(format!(
                "go on with it by `--resume {}`, or choose another folder",
                folder.display()
            )));
        }
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    Ok(fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?)
}

/// Raises a flag when the user presses Ctrl-C; the loop ends after its step, with the record written.
pub fn watch_interrupts() -> Result<Arc<AtomicBool>, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))?;
    Ok(interrupted)
}
