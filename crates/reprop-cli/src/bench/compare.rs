//! `reprop bench compare`.

use reprop_report::{Comparison, Results};

use crate::failure::Failure;
use crate::options::Format;

use super::export::read;
use super::options::CompareOptions;

/// Runs without their like that are named, of each file.
const NAMED: usize = 5;

/// Prints ratios of all runs that both files have.
pub fn run(format: Format, options: &CompareOptions) -> Result<(), Failure> {
    let CompareOptions { first, second } = options;
    let comparison =
        Comparison::new(&read(first, Results::parse)?, &read(second, Results::parse)?).map_err(|error| {
            Failure::from(error)
                .hint("runs are alike in model, image, depth, batch, strategy, budget and threads")
        })?;
    for (path, names) in [(first, &comparison.only_first), (second, &comparison.only_second)] {
        for name in names.iter().take(NAMED) {
            eprintln!("only in {}: {name}", path.display());
        }
        if let Some(more @ 1..) = names.len().checked_sub(NAMED) {
            eprintln!("only in {}: {more} more", path.display());
        }
    }
    match format {
        Format::Json => println!("{}", serde_json::to_string_pretty(&comparison.json())?),
        Format::Text => print!("{}", comparison.text()),
    }
    Ok(())
}
