//! Test accuracy by epoch of several runs, or the agreement of a pipeline's gradients with true ones, drawn into one picture.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
/// Where the plot begins and ends; names of runs stand right of it.
const LEFT: f64 = 50.0;
const RIGHT: f64 = 540.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 380.0;
const COLOURS: [&str; 8] =
    ["#c8553d", "#4a7fb5", "#3f8f5f", "#b08a2e", "#7a5aa6", "#666", "#2a9d9d", "#d07fb0"];

/// At most so many points of a stage are drawn; more are averaged.
const POINTS: usize = 60;

/// One line: its name, and what was found where. Accuracies after epochs, counted from one, or cosines after batches.
struct Curve {
    name: String,
    points: Vec<(f64, f64)>,
}

/// Reads the metrics of runs and writes the picture.
pub fn draw(picture: &str, metrics: &[&str]) -> ExitCode {
    let curves = metrics.iter().map(|path| read(path)).collect();
    write(picture, curves, "Test accuracy by epoch", "epoch")
}

/// Reads the metrics of a pipeline and draws the agreement of each stage's gradients with the true ones.
pub fn draw_alignment(picture: &str, metrics: &str) -> ExitCode {
    let text = fs::read_to_string(metrics).map_err(|error| format!("cannot read {metrics}: {error}"));
    let curves = text.and_then(|text| {
        let curves = alignment(&text);
        if curves.is_empty() { Err(format!("{metrics} has no alignment")) } else { Ok(curves) }
    });
    write(picture, curves, "Cosine of gradients and true gradients", "batch")
}

fn write(picture: &str, curves: Result<Vec<Curve>, String>, title: &str, axis: &str) -> ExitCode {
    let written = curves.and_then(|curves| {
        fs::write(picture, svg(&curves, title, axis))
            .map_err(|error| format!("cannot write {picture}: {error}"))
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

/// A line for each stage.
fn alignment(text: &str) -> Vec<Curve> {
    let row = |line: &str| -> Option<(f64, Vec<f64>)> {
        let (_, after) = line.split_once("\"alignment\":[")?;
        let cosines: Result<Vec<f64>, _> = after.split(']').next()?.split(',').map(str::parse).collect();
        Some((number(line, "step")? + 1.0, cosines.ok()?))
    };
    let rows: Vec<(f64, Vec<f64>)> = text.lines().filter_map(row).collect();
    let stages = rows.first().map_or(0, |(_, cosines)| cosines.len());
    let every = rows.len().div_ceil(POINTS).max(1);
    let mean = |values: &mut dyn Iterator<Item = f64>, count: usize| values.sum::<f64>() / count as f64;
    let line = |stage: usize| {
        let points = rows.chunks(every).map(|some| {
            let step = mean(&mut some.iter().map(|(step, _)| *step), some.len());
            let cosine =
                mean(&mut some.iter().map(|(_, all)| all.get(stage).copied().unwrap_or(0.0)), some.len());
            (step, cosine.max(0.0))
        });
        Curve { name: format!("stage {stage}"), points: points.collect() }
    };
    (0..stages).map(line).collect()
}

/// The epochs of a file that were tested.
fn read(path: &str) -> Result<Curve, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let tested = |line| Some((number(line, "epoch")? + 1.0, number(line, "test_accuracy")?));
    let points: Vec<(f64, f64)> = text.lines().filter_map(tested).collect();
    if points.is_empty() {
        return Err(format!("{path} has no test accuracy"));
    }
    let name = Path::new(path).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    Ok(Curve { name: name.unwrap_or_default(), points })
}

/// The number of a field in a line of JSON that the program wrote.
fn number(line: &str, field: &str) -> Option<f64> {
    let (_, after) = line.split_once(&format!("\"{field}\":"))?;
    after.split([',', '}']).next()?.parse().ok()
}

fn svg(curves: &[Curve], title: &str, across: &str) -> String {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let last = points().map(|point| point.0).fold(1.0, f64::max);
    // Up to the next tenth.
    let highest = (points().map(|point| point.1).fold(0.0, f64::max) * 10.0).ceil().max(1.0) / 10.0;
    let x = |epoch: f64| LEFT + (RIGHT - LEFT) * epoch / last;
    let y = |accuracy: f64| BOTTOM - (BOTTOM - TOP) * accuracy / highest;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\
         <title>{title}</title><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\
         <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{across}</text>",
        RIGHT,
        BOTTOM + 32.0
    );
    for tenth in 0..=(highest * 10.0).round() as usize {
        let (at, percent) = (y(tenth as f64 / 10.0), 10 * tenth);
        let _ = write!(
            svg,
            "<path d=\"M{LEFT} {at:.1}H{RIGHT}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{percent} %</text>",
            LEFT - 6.0,
            at + 4.0
        );
    }
    // At most ten epochs are named.
    let every = (last / 10.0).ceil() as usize;
    for epoch in (0..=last as usize).step_by(every.max(1)) {
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{epoch}</text>",
            x(epoch as f64),
            BOTTOM + 16.0
        );
    }
    for (index, Curve { name, points }) in curves.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let line: Vec<String> =
            points.iter().map(|&(epoch, accuracy)| format!("{:.1},{:.1}", x(epoch), y(accuracy))).collect();
        let row = TOP + 20.0 * index as f64;
        let best = points.last().map_or(0.0, |point| 100.0 * point.1);
        let _ = write!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\
             <rect x=\"{}\" y=\"{}\" width=\"12\" height=\"4\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"{}\">{name} {best:.1} %</text>",
            line.join(" "),
            RIGHT + 12.0,
            row + 4.0,
            RIGHT + 30.0,
            row + 10.0
        );
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tested_epochs_are_read() {
        let line = "{\"step\":9,\"epoch\":1,\"loss\":2.0,\"test_accuracy\":0.25}";
        assert_eq!(number(line, "epoch"), Some(1.0));
        assert_eq!(number(line, "test_accuracy"), Some(0.25));
        assert_eq!(number("{\"epoch\":1}", "test_accuracy"), None);
    }

    #[test]
    fn every_stage_has_a_line_of_its_cosines() {
        let text = "{\"step\":9,\"loss\":2.0,\"alignment\":[0.5,1.0]}\n{\"step\":10}\n{\"step\":19,\"alignment\":[0.25,-0.5]}";
        let curves = alignment(text);
        assert_eq!(curves.len(), 2);
        assert_eq!(curves[0].points, [(10.0, 0.5), (20.0, 0.25)]);
        assert_eq!(curves[1].points, [(10.0, 1.0), (20.0, 0.0)]);
    }

    #[test]
    fn the_highest_accuracy_is_inside_the_picture() {
        let curve = Curve { name: "a".to_owned(), points: vec![(1.0, 0.3), (2.0, 0.55)] };
        let svg = svg(&[curve], "a title", "epoch");
        // 0.55 of at most 0.6, and the last epoch at the right.
        assert!(svg.contains("540.0,50.0"), "{svg}");
        assert!(svg.contains("a 55.0 %"));
    }
}
