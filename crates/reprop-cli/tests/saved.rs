//! `--saved`: what blocks save, kept in 16 bits.

mod common;

use common::{run, stdout};
use serde_json::Value;

fn json(arguments: &[&str]) -> Value {
    let all: Vec<&str> = arguments.iter().chain(&["--format", "json"]).copied().collect();
    serde_json::from_str(&stdout(&all)).expect("the program writes JSON")
}

#[test]
fn plans_and_measurements_agree_on_the_bytes_that_are_spared() {
    let peaks = |saved: &str| {
        let small = ["--depth", "6", "--batch", "8", "--saved", saved];
        let plan = json(&[&["plan", "--predict", "--budget", "1GiB"][..], &small].concat());
        let bench = ["bench", "--strategy", "stored", "--steps", "1", "--warmup", "0"];
        let bench = json(&[&bench[..], &["--model", "rev-vit-digits"], &small].concat());
        let run = &bench["runs"][0];
        let bytes = |value: &Value| value.as_u64().expect("bytes are a number");
        let told = bytes(&plan["candidates"][0]["predicted_activation_bytes"]);
        assert_eq!(told, bytes(&run["activation_peak_bytes"]), "{saved}");
        assert_eq!(told, bytes(&run["predicted_activation_bytes"]), "{saved}");
        told
    };
    let [whole, bf16, f16] = ["f32", "bf16", "f16"].map(peaks);
    assert!(bf16 == f16 && 4 * bf16 < 3 * whole, "{whole} bytes, {bf16} in 16 bits");
}

#[test]
fn verify_says_how_near_gradients_are_and_to_what() {
    let text = stdout(&["verify", "--depth", "2", "--saved", "bf16"]);
    assert!(text.contains("saved tensors in bf16: gradients within"), "{text}");
    let verdict = json(&["verify", "--depth", "2", "--saved", "f16"]);
    assert_eq!((&verdict["passed"], &verdict["saved"]["format"]), (&true.into(), &"f16".into()));
    let strategies = verdict["strategies"].as_array().expect("a list");
    let names: Vec<_> = strategies.iter().map(|strategy| strategy["strategy"].clone()).collect();
    assert_eq!(names, ["stored", "reprop", "pareprop"]);
    let error = strategies[0]["farthest"]["error"].as_f64().expect("a number");
    assert!(error > 0.0 && error < verdict["saved"]["at_most"].as_f64().expect("a number"), "{error}");
    // Nothing is said of it where it is not asked for.
    let plain = json(&["verify", "--depth", "2"]);
    assert!(plain.get("saved").is_none() && plain["strategies"][0].get("farthest").is_none(), "{plain}");
}

/// The digits are learnt as well as with saved tensors in four bytes.
#[test]
fn training_reaches_the_same_accuracy() {
    let accuracy = |saved: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        let out = folder.path().join("run");
        let out = out.to_str().expect("a path in UTF-8");
        let last = stdout(&[
            "train",
            "--strategy",
            "stored",
            "--epochs",
            "20",
            "--saved",
            saved,
            "--out",
            out,
            "--format",
            "json",
        ]);
        let last: Value = serde_json::from_str(last.lines().last().expect("a line")).expect("JSON");
        last["test_accuracy"].as_f64().expect("a number")
    };
    let [whole, bf16] = ["f32", "bf16"].map(accuracy);
    println!("test accuracy {whole}, with saved tensors in bf16 {bf16}");
    assert!(whole > 0.9 && (whole - bf16).abs() < 0.02, "{whole}, with saved tensors in bf16 {bf16}");
}

#[test]
fn an_unknown_format_is_refused_with_those_there_are() {
    let output = run(&["plan", "--budget", "1GiB", "--saved", "f8"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("f32, bf16 or f16"), "{errors}");
    let output = run(&["train", "--model", "lstm-char", "--saved", "bf16", "--steps", "1"]);
    assert_eq!(output.status.code(), Some(2));
}
