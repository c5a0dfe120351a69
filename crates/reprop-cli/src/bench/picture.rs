//! Results as pictures: bars of memory and throughput, alone or in a page with the table.

use std::fmt::Write as _;

use crate::bytes::human;

use super::export::{COLUMNS, cells};
use super::{Results, Run};

const WIDTH: usize = 760;
/// Height of a bar with its gap.
const ROW: usize = 22;
const TITLE: usize = 30;
/// Where bars begin, and the longest.
const LEFT: f64 = 250.0;
const LONGEST: f64 = 400.0;

/// Both sets of bars.
pub fn svg(results: &Results) -> String {
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

/// One file with no outside parts: the bars and the table.
pub fn html(results: &Results) -> String {
    let mut rows = String::new();
    for run in &results.runs {
        let _ = write!(rows, "<tr><td>{}</td></tr>", cells(run).map(|cell| escape(&cell)).join("</td><td>"));
    }
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>reprop bench</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>body{{font:15px sans-serif;margin:2em}}\
         table{{border-collapse:collapse}}td,th{{padding:.3em .7em;border-bottom:1px solid #ccc;text-align:left}}\
         svg{{max-width:100%;height:auto}}</style><h1>reprop bench</h1><p>{}, {} cores, {}</p>{}\
         <table><thead><tr><th>{}</th></tr></thead><tbody>{rows}</tbody></table></html>\n",
        escape(&results.machine.processor),
        results.machine.cores,
        human(results.machine.memory_bytes),
        svg(results),
        COLUMNS.join("</th><th>")
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
            escape(&run.strategy),
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
        _ => "#c8553d",
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
