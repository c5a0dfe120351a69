//! Results as one picture for documents: bars of memory and throughput.

use std::fmt::Write as _;

use crate::{Results, Run, escape, human};

const WIDTH: usize = 760;
/// Height of a bar with its gap.
const ROW: usize = 22;
const TITLE: usize = 30;
/// Where bars begin, and the longest.
const LEFT: f64 = 250.0;
const LONGEST: f64 = 400.0;

/// Both sets of bars. Colours are fixed: documents show it on their own ground.
pub(crate) fn svg(results: &Results) -> String {
    let height = TITLE + ROW * results.runs.len();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{WIDTH}\" height=\"{}\" \
         viewBox=\"0 0 {WIDTH} {}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\
         <title>Peak activation memory and throughput by strategy</title>\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>{}{}</svg>\n",
        2 * height + TITLE,
        2 * height + TITLE,
        bars(
            0,
            "Peak activation memory",
            results,
            |run| run.activation_peak_bytes as f64,
            |v| human(v as u64)
        ),
        bars(height + ROW, "Samples a second", results, |run| run.samples_per_second, |v| format!("{v:.1}")),
    )
}

fn bars(
    top: usize,
    title: &str,
    results: &Results,
    value: impl Fn(&Run) -> f64,
    label: impl Fn(f64) -> String,
) -> String {
    let largest = results.runs.iter().map(&value).fold(f64::MIN_POSITIVE, f64::max);
    let mut svg = format!("<text x=\"8\" y=\"{}\" font-weight=\"bold\">{title}</text>", top + 18);
    for (index, run) in results.runs.iter().enumerate() {
        let y = top + TITLE + ROW * index;
        let value = value(run);
        let length = LONGEST * value / largest;
        let _ = write!(
            svg,
            "<text x=\"8\" y=\"{}\">{}, depth {}, batch {}, {}</text>\
             <rect x=\"{LEFT}\" y=\"{}\" width=\"{length:.1}\" height=\"14\" fill=\"{}\"/>\
             <text x=\"{:.1}\" y=\"{}\">{}</text>",
            y + 12,
            escape(&run.model),
            run.depth,
            run.batch,
            escape(&run.way()),
            y + 1,
            colour(&run.strategy),
            LEFT + length + 6.0,
            y + 12,
            label(value)
        );
    }
    svg
}

fn colour(strategy: &str) -> &'static str {
    match strategy {
        "stored" => "#8a8a8a",
        "reprop" => "#4a7fb5",
        "pareprop" => "#c8553d",
        _ => "#0f766e",
    }
}
