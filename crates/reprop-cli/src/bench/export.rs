//! Results as text, JSON, CSV and Markdown; pictures are in [`super::picture`].

use std::fmt::Write as _;
use std::path::Path;

use crate::bytes::human;
use crate::failure::Failure;
use crate::whole_file::write_whole;

use super::{Results, Run, picture};

type Render = fn(&Results) -> Result<String, Failure>;

/// Formats by the ending of the file.
const FORMATS: [(&str, Render); 5] = [
    ("json", |results| Ok(serde_json::to_string_pretty(results)?)),
    ("csv", |results| Ok(csv(results))),
    ("md", |results| Ok(markdown(results))),
    ("html", |results| Ok(picture::html(results))),
    ("svg", |results| Ok(picture::svg(results))),
];

/// An error if the file's ending names no format.
pub fn check(path: &Path) -> Result<(), Failure> {
    format_of(path).map(|_| ())
}

/// Writes the results in the format that the file's ending names.
pub fn write(path: &Path, results: &Results) -> Result<(), Failure> {
    write_whole(path, format_of(path)?(results)?.as_bytes())
}

fn format_of(path: &Path) -> Result<Render, Failure> {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let found = FORMATS.iter().find(|(name, _)| *name == ending).map(|(_, render)| *render);
    found.ok_or_else(|| {
        Failure::usage(format!("{} ends in no format that results can be written in", path.display()))
            .hint("end it in .json, .csv, .md, .html or .svg")
    })
}

/// Headings of the columns of every table.
pub const COLUMNS: [&str; 10] = [
    "model",
    "batch",
    "depth",
    "strategy",
    "threads",
    "median",
    "samples/s",
    "activations",
    "predicted",
    "gradient digest",
];

/// One row of every table.
pub fn cells(run: &Run) -> [String; 10] {
    [
        run.model.clone(),
        run.batch.to_string(),
        run.depth.to_string(),
        run.strategy.clone(),
        run.threads.to_string(),
        format!("{:.2} ms", 1e3 * run.median_seconds),
        format!("{:.2}", run.samples_per_second),
        human(run.activation_peak_bytes),
        run.predicted_activation_bytes.map_or_else(|| "unknown".to_owned(), human),
        run.gradient_digest[..12].to_owned(),
    ]
}

/// Aligned columns for a terminal.
pub fn text(results: &Results) -> String {
    let rows: Vec<[String; 10]> =
        std::iter::once(COLUMNS.map(str::to_owned)).chain(results.runs.iter().map(cells)).collect();
    let widths: [usize; 10] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0));
    let mut text = String::new();
    for row in &rows {
        let line: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        let _ = writeln!(text, "{}", line.join("  ").trim_end());
    }
    text
}

fn csv(results: &Results) -> String {
    let mut text = String::from(
        "model,batch,depth,strategy,threads,median_seconds,samples_per_second,peak_bytes,activation_peak_bytes,\
         predicted_activation_bytes,loss,gradient_digest\n",
    );
    for run in &results.runs {
        let predicted = run.predicted_activation_bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
        let _ = writeln!(
            text,
            "{},{},{},{},{},{},{},{},{},{predicted},{},{}",
            run.model,
            run.batch,
            run.depth,
            run.strategy,
            run.threads,
            run.median_seconds,
            run.samples_per_second,
            run.peak_bytes,
            run.activation_peak_bytes,
            run.loss,
            run.gradient_digest
        );
    }
    text
}

fn markdown(results: &Results) -> String {
    let mut text = format!("| {} |\n|{}\n", COLUMNS.join(" | "), "---|".repeat(COLUMNS.len()));
    for run in &results.runs {
        let _ = writeln!(text, "| {} |", cells(run).join(" | "));
    }
    text
}
