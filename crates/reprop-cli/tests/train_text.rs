//! Training of a masked language model on the embedded text.

mod common;

use std::fs;

use common::{run, stdout};

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
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("a line of JSON")["loss"].as_f64())
        .map(|loss| loss.expect("a loss"))
        .collect();
    assert_eq!(losses.len(), 40);
    // From the logarithm of the vocabulary, 6.0, to what the frequencies of tokens alone give.
    assert!(losses[39] < losses[0] - 0.3, "{losses:?}");
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
