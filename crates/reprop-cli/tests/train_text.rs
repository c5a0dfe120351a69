//! Training of a masked language model on the embedded text.

mod common;

use std::fs;
use std::time::{Duration, Instant};

use common::{command, run, stdout};
use serde_json::Value;

/// A small network on the embedded text, `steps` steps, into `folder`.
fn arguments<'a>(steps: &'a str, folder: &'a str) -> Vec<&'a str> {
    let network = ["train", "--model", "rev-roberta-base", "--depth", "2", "--width", "32", "--data", "sotu"];
    let sizes = ["--vocabulary", "400", "--sequence", "48", "--batch", "16", "--lr", "5e-3"];
    [&network[..], &sizes, &["--steps", steps, "--out", folder]].concat()
}

#[test]
fn the_loss_of_a_masked_language_model_falls() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("run");
    let folder = folder.to_str().expect("a name in UTF-8");
    let last = stdout(&arguments("40", folder));
    assert!(last.contains("parameters_digest") && last.contains("test_loss"), "{last}");
    let metrics = fs::read_to_string(format!("{folder}/metrics.jsonl")).expect("metrics");
    let losses: Vec<f64> = metrics
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON")["loss"].as_f64())
        .map(|loss| loss.expect("a loss"))
        .collect();
    assert_eq!(losses.len(), 40);
    // From the logarithm of the vocabulary, 6.0, to what the frequencies of tokens alone give.
    assert!(losses[39] < losses[0] - 0.3, "{losses:?}");
}

/// Padding comes with the last sequence of an epoch; every stage has to know it.
#[test]
fn stages_train_a_masked_language_model_as_one_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let train = |name: &str, method: &str, stages: &str| -> (String, Vec<Value>) {
        let out = folder.path().join(name);
        let out = out.to_str().expect("a name in UTF-8");
        let pipeline = ["--method", method, "--stages", stages];
        let last = stdout(&[&arguments("40", out)[..], &pipeline].concat());
        let outcome: Value = serde_json::from_str(last.lines().last().expect("a line")).expect("JSON");
        let metrics = fs::read_to_string(format!("{out}/metrics.jsonl")).expect("metrics");
        let lines = metrics.lines().map(|line| serde_json::from_str(line).expect("a line of JSON"));
        (outcome["parameters_digest"].to_string(), lines.collect())
    };
    let (expected, whole) = train("one", "backprop", "1");
    let losses = |lines: &[Value]| lines.iter().map(|line| line["loss"].clone()).collect::<Vec<_>>();
    for (name, method, stages) in [("two", "reversible", "2"), ("four", "backprop", "4")] {
        let (digest, lines) = train(name, method, stages);
        assert_eq!(digest, expected, "{method}, {stages} stages");
        assert_eq!(losses(&lines), losses(&whole), "{method}, {stages} stages");
    }
    let (petra, lines) = train("petra", "petra", "2");
    assert_ne!(petra, expected, "delayed gradients are not today's");
    let loss = |line: &Value| line["loss"].as_f64().expect("a loss");
    assert!(loss(&lines[39]) < loss(&lines[0]) - 0.3, "{:?}", losses(&lines));
}

#[test]
fn a_text_that_is_too_short_is_refused_with_its_numbers() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("short.txt");
    fs::write(&file, "too short").expect("a file");
    let file = file.to_str().expect("a name in UTF-8");
    let output = run(&["train", "--model", "rev-roberta-base", "--data", "text", "--from", file]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("9 tokens") && errors.contains("126") && errors.contains("hint:"), "{errors}");
}

/// Killed without warning, in its first epoch or between two records, and resumed.
#[test]
fn a_killed_run_on_text_ends_with_the_same_parameters() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("short.txt");
    // Enough for some batches an epoch.
    let lines: Vec<String> =
        (0..900).map(|number| format!("line {number} of {} in all.", number * 37 % 101)).collect();
    fs::write(&file, lines.join(" ")).expect("a file");
    let file = file.to_str().expect("a name in UTF-8").to_owned();
    let start = |name: &str| -> (String, Vec<String>) {
        let out = folder.path().join(name).to_str().expect("a name in UTF-8").to_owned();
        let network =
            ["train", "--model", "rev-roberta-base", "--depth", "1", "--width", "16", "--data", "text"];
        let sizes = ["--vocabulary", "300", "--sequence", "24", "--batch", "16", "--steps", "150", "--from"];
        let all = network.iter().chain(&sizes).copied().chain([file.as_str(), "--out", out.as_str()]);
        (out.clone(), all.map(str::to_owned).collect())
    };
    let digest = |arguments: &[&str]| {
        let text = stdout(arguments);
        let line = text.lines().last().expect("a last line");
        let outcome: Value = serde_json::from_str(line).expect("JSON");
        outcome["parameters_digest"].as_str().expect("a digest").to_owned()
    };
    let (_, whole) = start("whole");
    let expected = digest(&whole.iter().map(String::as_str).collect::<Vec<_>>());
    for (name, lines) in [("early", 1), ("late", 90)] {
        let (out, arguments) = start(name);
        let mut child = command(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
            .spawn()
            .expect("the program starts");
        let deadline = Instant::now() + Duration::from_mins(2);
        let written =
            || fs::read_to_string(format!("{out}/metrics.jsonl")).map_or(0, |text| text.lines().count());
        while written() < lines {
            assert!(Instant::now() < deadline, "{} lines of metrics after two minutes", written());
            std::thread::sleep(Duration::from_millis(5));
        }
        child.kill().expect("the program is killed");
        child.wait().expect("the program ends");
        assert_eq!(digest(&["train", "--resume", &out]), expected, "{name}");
    }
}
