//! `reprop data`: which data sets there are, and how they come here.

mod fetch;
mod place;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use reprop_data::{Samples, Split, cifar10, digits, image_folders, imagenet32, import_cifar10};
use serde::Serialize;

use crate::failure::Failure;
use crate::options::{Format, Global};

pub use place::default_folder;

/// Options of `data`.
#[derive(Args, Clone, Debug)]
pub struct DataOptions {
    #[command(subcommand)]
    pub command: DataCommand,
}

/// What to do with data sets.
#[derive(Clone, Debug, Subcommand)]
pub enum DataCommand {
    /// List data sets, and where they are
    List,
    /// Bring a data set here: cifar10
    Get {
        /// The data set.
        name: String,
        /// Import from a folder or an archive that is already there.
        #[arg(long, value_name = "PATH")]
        from: Option<PathBuf>,
    },
}

/// Data sets by name, with what they are.
const SETS: [(&str, &str); 4] = [
    ("digits", "1,797 handwritten digits of 8x8 pixels, embedded"),
    ("cifar10", "60,000 colour images of 32x32 pixels in ten classes"),
    ("imagenet32", "ImageNet at 32x32 pixels, in its published batch files"),
    ("imagenet", "images of any size: train and val, a folder a class"),
];

/// Means and deviations of channels: CIFAR-10's, and `ImageNet`'s.
const CIFAR10: ([f32; 3], [f32; 3]) = ([0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616]);
const IMAGENET: ([f32; 3], [f32; 3]) = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);

/// Images to learn from and to be judged by, and by what their channels are normalised.
pub struct DataSet {
    pub train: Box<dyn Samples>,
    pub test: Box<dyn Samples>,
    pub mean: Vec<f32>,
    pub deviation: Vec<f32>,
}

impl DataSet {
    fn new<S: Samples + 'static>(
        Split { train, test }: Split<S>,
        (mean, deviation): (&[f32], &[f32]),
    ) -> Self {
        let (mean, deviation) = (mean.to_vec(), deviation.to_vec());
        Self { train: Box::new(train), test: Box::new(test), mean, deviation }
    }
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    description: &'static str,
    present: bool,
    path: Option<PathBuf>,
}

/// Lists or brings.
pub fn run(global: &Global, options: &DataOptions) -> Result<(), Failure> {
    match &options.command {
        DataCommand::List => list(global.format),
        DataCommand::Get { name, from } => get(name, from.clone(), global.format),
    }
}

fn list(format: Format) -> Result<(), Failure> {
    let rows: Vec<Row> = SETS
        .iter()
        .map(|&(name, description)| {
            let path = (name != "digits").then(|| default_folder(name)).transpose()?;
            let present = path.as_ref().is_none_or(|path| path.is_dir());
            Ok(Row { name, description, present, path })
        })
        .collect::<Result<_, Failure>>()?;
    match format {
        Format::Json => println!("{}", serde_json::to_string_pretty(&rows)?),
        Format::Text => {
            for Row { name, description, present, path } in rows {
                let place = match (present, path) {
                    (_, None) => "here".to_owned(),
                    (true, Some(path)) => path.display().to_string(),
                    (false, Some(_)) if name == "cifar10" => format!("bring it by `reprop data get {name}`"),
                    (false, Some(_)) => {
                        format!("name its folder by --from, or put it into {}", path_of(name))
                    }
                };
                println!("{name:<10} {description:<55} {place}");
            }
        }
    }
    Ok(())
}

fn get(name: &str, from: Option<PathBuf>, format: Format) -> Result<(), Failure> {
    match name {
        "cifar10" => {}
        "digits" => return Err(Failure::usage("digits are embedded: there is nothing to get")),
        "imagenet" | "imagenet32" => {
            return Err(Failure::usage(format!(
                "{name} is given out by its makers alone, after registration"
            ))
            .hint("get it there, and name its folder by --from"));
        }
        _ => return Err(unknown(name)),
    }
    let folder = default_folder(name)?;
    match from {
        Some(source) => import_cifar10(&source, &folder)?,
        None => fetch::cifar10(&folder)?,
    }
    match format {
        Format::Json => println!("{}", serde_json::json!({ "name": name, "path": folder })),
        Format::Text => println!("{name} is in {}", folder.display()),
    }
    Ok(())
}

fn unknown(name: &str) -> Failure {
    let names = SETS.map(|(name, _)| name).join(", ");
    Failure::usage(format!("there is no data set called `{name}`")).hint(format!("choose one of {names}"))
}

fn path_of(name: &str) -> String {
    default_folder(name).map_or_else(|_| "its place".to_owned(), |path| path.display().to_string())
}

/// The images of a data set, from `from` or from where `data get` put them; `side` is what a network sees of images that
/// have no size of their own.
pub fn load(name: &str, from: Option<&PathBuf>, side: usize) -> Result<DataSet, Failure> {
    let folder = || from.cloned().map_or_else(|| default_folder(name), Ok);
    let [cifar, large] = [&CIFAR10, &IMAGENET].map(|(mean, deviation)| (&mean[..], &deviation[..]));
    let hint = |error: reprop_data::Error, hint: &str| Failure::from(error).hint(hint);
    match name {
        "digits" => Ok(DataSet::new(digits(), (&[0.0], &[1.0]))),
        "cifar10" => {
            let images = cifar10(&folder()?).map_err(|error| {
                hint(error, "bring it by `reprop data get cifar10`, or name its folder by --from")
            })?;
            Ok(DataSet::new(images, cifar))
        }
        "imagenet32" => {
            let images = imagenet32(&folder()?).map_err(|error| {
                hint(error, "name the folder of train_data_batch_1 to 10 and val_data by --from")
            })?;
            Ok(DataSet::new(images, large))
        }
        "imagenet" => {
            let images = image_folders(&folder()?, side).map_err(|error| {
                hint(error, "name the folder of train and val, each with a folder a class, by --from")
            })?;
            Ok(DataSet::new(images, large))
        }
        _ => Err(unknown(name)),
    }
}
