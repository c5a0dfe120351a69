//! Digests of `bench` are the same for every strategy, number of threads and process.

mod common;

use std::collections::BTreeSet;

use serde_json::Value;

fn bench(threads: &str) -> Vec<Value> {
    let text = common::stdout(&[
        "bench",
        "--depth",
        "1,2,3,12,13",
        "--batch",
        "5",
        "--dropout",
        "0.1",
        "--drop-path",
        "0.2",
        "--warmup",
        "0",
        "--steps",
        "1",
        "--threads",
        threads,
        "--format",
        "json",
    ]);
    let results: Value = serde_json::from_str(&text).expect("bench writes JSON");
    assert!(results["machine"]["cores"].as_u64().is_some_and(|cores| cores > 0));
    results["runs"].as_array().expect("runs is a list").clone()
}

#[test]
fn digests_are_equal_over_strategies_threads_and_processes() {
    let runs: Vec<Value> = ["1", "2", "2"].into_iter().flat_map(bench).collect();
    assert_eq!(runs.len(), 3 * 5 * 3);
    for depth in [1, 2, 3, 12, 13] {
        let digests: BTreeSet<&str> = runs
            .iter()
            .filter(|run| run["depth"] == depth)
            .map(|run| run["gradient_digest"].as_str().expect("a digest is text"))
            .collect();
        assert_eq!(digests.len(), 1, "depth {depth}: {digests:?}");
    }
}

#[test]
fn every_field_that_scripts_rely_on_is_there() {
    let runs = bench("2");
    for field in [
        "model",
        "batch",
        "depth",
        "strategy",
        "threads",
        "step_seconds",
        "median_seconds",
        "samples_per_second",
        "peak_bytes",
        "activation_peak_bytes",
        "predicted_activation_bytes",
        "loss",
        "gradient_digest",
    ] {
        assert!(runs.iter().all(|run| !run[field].is_null()), "{field}");
    }
    assert!(runs.iter().all(|run| run["peak_bytes"].as_u64() >= run["activation_peak_bytes"].as_u64()));
}

#[test]
fn results_are_written_in_every_format() {
    let folder = tempfile::tempdir().expect("a folder");
    for (ending, part) in [
        ("json", "\"runs\""),
        ("csv", "gradient_digest"),
        ("md", "|---|"),
        ("html", "</table>"),
        ("svg", "</svg>"),
    ] {
        let path = folder.path().join(format!("results.{ending}"));
        let file = path.to_str().expect("a plain path");
        common::stdout(&["bench", "--depth", "1", "--warmup", "0", "--steps", "1", "--export", file]);
        let text = std::fs::read_to_string(&path).expect("the file is there");
        assert!(text.contains(part) && text.contains("pareprop"), "{ending}: {text}");
    }
}

#[test]
fn a_trace_shows_both_halves_of_the_backward_pass() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.json");
    let file = path.to_str().expect("a plain path");
    common::stdout(&[
        "bench",
        "--depth",
        "3",
        "--strategy",
        "pareprop",
        "--warmup",
        "0",
        "--steps",
        "1",
        "--trace",
        file,
    ]);
    let trace: Value =
        serde_json::from_slice(&std::fs::read(&path).expect("the file is there")).expect("JSON");
    let count = |name: &str| {
        trace["traceEvents"]
            .as_array()
            .map_or(0, |events| events.iter().filter(|e| e["name"] == name).count())
    };
    // Three blocks; stem and head have a forward and gradients as well.
    assert_eq!([count("forward"), count("recover"), count("grads")], [5, 3, 5]);
}
