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
        ("txt", "samples/s"),
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
    // Three blocks, of which the last is kept; stem and head have a forward and gradients as well.
    assert_eq!([count("forward"), count("recover"), count("grads")], [5, 2, 5]);
}

/// A quick sweep, kept in `file`.
fn sweep(file: &str, strategies: &str) {
    let sweep =
        ["bench", "--depth", "1,2", "--batch", "1,2", "--threads", "1,2", "--warmup", "0", "--steps", "3"];
    common::stdout(&[&sweep[..], &["--strategy", strategies, "--export", file]].concat());
}

#[test]
fn a_sweep_covers_every_combination_and_results_compare_with_themselves() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("all.json");
    let file = path.to_str().expect("a plain path");
    sweep(file, "stored,pareprop");
    let text = std::fs::read_to_string(&path).expect("the file is there");
    let results: Value = serde_json::from_str(&text).expect("JSON");
    let runs = results["runs"].as_array().expect("runs is a list");
    let combinations: BTreeSet<String> = runs
        .iter()
        .map(|run| format!("{} {} {} {}", run["depth"], run["batch"], run["threads"], run["strategy"]))
        .collect();
    assert_eq!((runs.len(), combinations.len()), (16, 16));
    assert!(runs.iter().all(|run| run["step_seconds"].as_array().is_some_and(|times| times.len() == 3)));
    // At the largest batch, on the most threads: each strategy at each depth.
    assert_eq!(results["timelines"].as_array().map(Vec::len), Some(4));

    let compared = common::stdout(&["bench", "compare", file, file, "--format", "json"]);
    let compared: Value = serde_json::from_str(&compared).expect("JSON");
    let pairs = compared["pairs"].as_array().expect("pairs is a list");
    assert_eq!(pairs.len(), 16);
    assert!(pairs.iter().all(|pair| pair["verdict"] == "same" && pair["same_gradients"] == true));

    let report = folder.path().join("report.html");
    let page = report.to_str().expect("a plain path");
    common::stdout(&["bench", "report", file, "--export", page]);
    assert!(std::fs::read_to_string(&report).expect("the page is there").contains("id=\"timeline\""));
}

#[test]
fn files_that_cannot_be_compared_say_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = |name: &str| folder.path().join(name).to_str().expect("a plain path").to_owned();
    let (stored, reprop, broken) = (place("stored.json"), place("reprop.json"), place("broken.json"));
    sweep(&stored, "stored");
    sweep(&reprop, "reprop");
    std::fs::write(&broken, "{\"machine\": ").expect("a file");
    let missing = place("missing.json");
    for (other, sentence) in [
        (&reprop, "no run of the first file (8 runs) has its like in the second (8 runs)"),
        (&broken, "broken.json cannot be used: it holds no results of `reprop bench`"),
        (&missing, "cannot read"),
    ] {
        let output = common::run(&["bench", "compare", &stored, other]);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains(sentence), "{errors}");
    }
}

#[test]
fn a_budget_that_fits_some_configurations_is_measured_on_those() {
    let bench =
        ["bench", "--depth", "3", "--batch", "1,64", "--warmup", "0", "--steps", "1", "--format", "json"];
    let output = common::run(&[&bench[..], &["--strategy", "auto", "--budget", "1MiB"]].concat());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success() && errors.contains("left out rev-vit-digits, depth 3, batch 64"),
        "{errors}"
    );
    let results: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(results["runs"].as_array().map(Vec::len), Some(1));
    assert_eq!(results["runs"][0]["budget"], 1 << 20);
    let none = common::run(&[&bench[..], &["--strategy", "auto", "--budget", "1KiB"]].concat());
    let errors = String::from_utf8_lossy(&none.stderr).into_owned();
    assert_eq!(none.status.code(), Some(1));
    assert!(
        errors.contains("budget of 1024 bytes") && errors.contains("hint: give --budget at least"),
        "{errors}"
    );
}

#[test]
#[cfg(target_os = "linux")]
fn a_batch_that_the_machine_cannot_hold_is_refused_before_it_is_made() {
    let bench = ["bench", "--warmup", "0", "--steps", "1", "--strategy", "reprop", "--format", "json"];
    let refused = common::run(&[&bench[..], &["--batch", "1000000000"]].concat());
    let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{errors}");
    assert!(errors.contains("a batch of 1000000000 needs") && errors.contains("hint: give --batch at most"));
    // The rest of a sweep is measured.
    let output = common::run(&[&bench[..], &["--batch", "1,1000000000"]].concat());
    let results: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(results["runs"].as_array().map(Vec::len), Some(1));
}
