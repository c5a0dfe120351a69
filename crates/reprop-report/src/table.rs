//! Results as tables: for a terminal, as CSV, as Markdown.

use std::fmt::Write as _;

use crate::{Results, Run, human};

/// Headings of the columns of every table.
pub const CELLS: [&str; 11] = [
    "model",
    "batch",
    "depth",
    "strategy",
    "threads",
    "median",
    "spread",
    "samples/s",
    "activations",
    "predicted",
    "gradient digest",
];

/// One row of every table.
pub fn cells(run: &Run) -> [String; CELLS.len()] {
    [
        run.model.clone(),
        run.batch.to_string(),
        run.depth.to_string(),
        run.way(),
        run.threads.to_string(),
        format!("{:.2} ms", 1e3 * run.median_seconds),
        format!("{:.1} %", 100.0 * run.spread().relative()),
        format!("{:.2}", run.samples_per_second),
        human(run.activation_peak_bytes),
        run.predicted_activation_bytes.map_or_else(|| "unknown".to_owned(), human),
        run.gradient_digest.chars().take(12).collect(),
    ]
}

/// Columns that are as wide as their widest cell.
pub(crate) fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for row in rows {
        let line: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        let _ = writeln!(text, "{}", line.join("  ").trim_end());
    }
    text
}

/// A table as Markdown has it.
pub(crate) fn piped<const N: usize>(headings: &[&str; N], rows: &[[String; N]]) -> String {
    let mut text = format!("| {} |\n|{}\n", headings.join(" | "), "---|".repeat(N));
    for row in rows {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    text
}

pub(crate) fn text(results: &Results) -> String {
    let rows: Vec<_> =
        std::iter::once(CELLS.map(str::to_owned)).chain(results.runs.iter().map(cells)).collect();
    aligned(&rows)
}

pub(crate) fn markdown(results: &Results) -> String {
    piped(&CELLS, &results.runs.iter().map(cells).collect::<Vec<_>>())
}

pub(crate) fn csv(results: &Results) -> String {
    let mut text = String::from(
        "model,batch,depth,strategy,threads,median_seconds,samples_per_second,peak_bytes,activation_peak_bytes,\
         predicted_activation_bytes,loss,gradient_digest,image,budget,lower_quartile_seconds,upper_quartile_seconds,\
         steps\n",
    );
    let optional = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
    for run in &results.runs {
        let spread = run.spread();
        let row = [
            run.model.clone(),
            run.batch.to_string(),
            run.depth.to_string(),
            run.strategy.clone(),
            run.threads.to_string(),
            run.median_seconds.to_string(),
            run.samples_per_second.to_string(),
            run.peak_bytes.to_string(),
            run.activation_peak_bytes.to_string(),
            optional(run.predicted_activation_bytes),
            run.loss.to_string(),
            run.gradient_digest.clone(),
            optional(run.image.map(|side| side as u64)),
            optional(run.budget),
            spread.low.to_string(),
            spread.high.to_string(),
            run.step_seconds.len().to_string(),
        ];
        let _ = writeln!(text, "{}", row.join(","));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::run;

    #[test]
    fn every_row_of_the_csv_has_as_many_fields_as_its_heading() {
        let runs = vec![
            run("stored", 1, &[0.1]),
            Run { budget: Some(7), predicted_activation_bytes: None, ..run("auto", 1, &[0.2]) },
        ];
        let text = csv(&Results { runs, ..Results::default() });
        let fields: Vec<usize> = text.lines().map(|line| line.split(',').count()).collect();
        assert_eq!(fields, [17, 17, 17]);
        assert!(text.contains("rev-vit-s,1,12,stored,2,0.1,10,0,1048576,1048576,2.5,"), "{text}");
    }

    #[test]
    fn columns_are_aligned() {
        let runs = vec![run("stored", 1, &[0.1]), run("pareprop", 100, &[0.1, 0.2, 0.3])];
        let text = text(&Results { runs, ..Results::default() });
        let starts: Vec<_> = text.lines().map(|line| line.find("  ").unwrap_or(0)).collect();
        assert_eq!(text.lines().count(), 3);
        assert!(text.contains("200.00 ms  50.0 %"), "{text}");
        assert_eq!(starts[1], starts[2]);
    }
}
