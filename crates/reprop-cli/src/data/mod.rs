//! `reprop data`: which data sets there are, and how they come here.

mod fetch;
mod place;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use reprop_data::{Split, cifar10, digits, import_cifar10};
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
const SETS: [(&str, &str); 2] = [
    ("digits", "1,797 handwritten digits of 8x8 pixels, embedded"),
    ("cifar10", "60,000 colour images of 32x32 pixels in ten classes"),
];

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
                    (false, Some(_)) => format!("bring it by `reprop data get {name}`"),
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

/// The images of a data set, from `from` or from where `data get` put them.
pub fn load(name: &str, from: Option<&PathBuf>) -> Result<Split, Failure> {
    match name {
        "digits" => Ok(digits()),
        "cifar10" => {
            let folder = from.cloned().map_or_else(|| default_folder(name), Ok)?;
            cifar10(&folder).map_err(|error| {
                Failure::from(error)
                    .hint("bring it by `reprop data get cifar10`, or name its folder by --from")
            })
        }
        _ => Err(unknown(name)),
    }
}
