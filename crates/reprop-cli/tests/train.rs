//! Training ends with the same bits whatever the strategy, and after being killed and resumed.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use common::{command, run, stdout};
use serde_json::Value;

/// A small network for some hundred steps, with both kinds of masks on.
const SMALL: [&str; 15] = [
    "train",
    "--depth",
    "3",
    "--width",
    "16",
    "--batch",
    "16",
    "--steps",
    "300",
    "--dropout",
    "0.05",
    "--drop-path",
    "0.1",
    "--lr",
    "3e-3",
];

/// The last line on stdout, as JSON.
fn last_line(text: &str) -> Value {
    let line = text.lines().last().expect("the program writes a last line");
    serde_json::from_str(line).expect("the last line is JSON")
}

fn train(extra: &[&str]) -> String {
    let text = stdout(&[&SMALL[..], extra].concat());
    let outcome = last_line(&text);
    assert!(outcome["test_accuracy"].as_f64().is_some_and(|accuracy| accuracy > 0.2), "{outcome}");
    assert!(outcome["peak_bytes"].as_u64().is_some_and(|bytes| bytes > 0));
    assert!(outcome["stall_seconds"].is_number());
    outcome["parameters_digest"].as_str().expect("a digest is text").to_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// Starts a run and waits until it has written `lines` lines of metrics.
fn start(folder: &Path, lines: usize) -> Child {
    let child = command(&[&SMALL[..], &["--strategy", "pareprop", "--out", text(folder)]].concat())
        .spawn()
        .expect("the program starts");
    let deadline = Instant::now() + Duration::from_mins(2);
    let written = || fs::read_to_string(folder.join("metrics.jsonl")).map_or(0, |text| text.lines().count());
    while written() < lines {
        assert!(Instant::now() < deadline, "{} lines of metrics after two minutes", written());
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

#[test]
fn every_strategy_and_a_killed_run_end_with_the_same_parameters() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let expected = train(&["--strategy", "stored", "--out", text(&path("stored"))]);
    for strategy in ["reprop", "pareprop"] {
        assert_eq!(train(&["--strategy", strategy, "--out", text(&path(strategy))]), expected, "{strategy}");
    }

    let killed = path("killed");
    // Without warning, between two records.
    let mut child = start(&killed, 130);
    child.kill().expect("the program is killed");
    child.wait().expect("the program ends");
    let resumed = last_line(&stdout(&["train", "--resume", text(&killed)]));
    assert_eq!(resumed["parameters_digest"], expected);
    let metrics = |name: &str| -> Vec<String> {
        let text = fs::read_to_string(path(name).join("metrics.jsonl")).expect("metrics are there");
        text.lines()
            .map(|line| line.split(",\"samples_per_second\"").next().unwrap_or(line).to_owned())
            .collect()
    };
    assert_eq!(metrics("killed"), metrics("pareprop"));
    let weights = |name: &str| fs::read(path(name).join("weights.safetensors")).expect("weights are there");
    assert!(weights("killed") == weights("stored"));
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_ends_cleanly_with_its_record_and_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("run");
    let child = start(&out, 20);
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill starts");
    assert!(sent.success());
    let output = child.wait_with_output().expect("the program ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let outcome = last_line(&String::from_utf8_lossy(&output.stdout));
    assert_eq!(outcome["interrupted"], true);
    assert!(outcome["steps"].as_u64().is_some_and(|steps| (20..300).contains(&steps)));
    let resumed = last_line(&stdout(&["train", "--resume", text(&out)]));
    assert_eq!((&resumed["steps"], &resumed["interrupted"]), (&Value::from(300), &Value::from(false)));
}

#[test]
fn a_damaged_record_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("run");
    let short = ["train", "--depth", "1", "--width", "8", "--steps", "2", "--out", text(&out)];
    stdout(&short);
    let refused = |hint: &str, arguments: &[&str]| {
        let output = run(arguments);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.code() == Some(1) && errors.contains(hint) && !errors.contains("panicked"),
            "{errors}"
        );
    };
    refused("--resume", &short);
    for file in ["optimizer.bpk", "weights.bpk", "position.json"] {
        let path = out.join("record").join(file);
        let whole = fs::read(&path).expect("the file is there");
        fs::write(&path, &whole[..whole.len() / 2]).expect("the file is cut");
        refused(file, &["train", "--resume", text(&out)]);
        let mut flipped = whole.clone();
        flipped[whole.len() / 3] ^= 0x40;
        fs::write(&path, &flipped).expect("a bit is flipped");
        refused(file, &["train", "--resume", text(&out)]);
        fs::write(&path, &whole).expect("the file is mended");
    }
    stdout(&["train", "--resume", text(&out)]);
}

#[test]
fn a_loss_that_is_not_a_number_ends_the_run_with_its_step() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("run");
    let output = run(&["train", "--depth", "2", "--steps", "50", "--lr", "1e30", "--out", text(&out)]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("hint: lower --lr") && !errors.contains("panicked"), "{errors}");
}

#[test]
fn nothing_is_written_when_the_budget_cannot_be_met() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("run");
    let output = run(&["train", "--strategy", "auto", "--budget", "1KiB", "--out", text(&out)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(!out.exists());
}

#[test]
fn metrics_are_shown_as_plain_lines_and_written_for_tensorboard() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = |name: &str| folder.path().join(name).to_str().expect("a plain path").to_owned();
    let (out, events) = (place("out"), place("events"));
    let output = run(&["train", "--steps", "3", "--out", &out, "--tensorboard", &events]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    // Nobody watches here: no bars, one line at the end, with what held the memory.
    let line = errors.lines().find(|line| line.starts_with("step 3/3: loss ")).expect("a plain line");
    assert!(line.contains(" samples/s; activations ") && line.contains("streams "), "{line}");

    let files: Vec<_> = fs::read_dir(&events).expect("the folder is there").collect();
    assert_eq!(files.len(), 1);
    let path = files.into_iter().next().and_then(Result::ok).expect("a file").path();
    assert!(path.to_string_lossy().contains("tfevents"), "{}", path.display());
    let bytes = fs::read(&path).expect("the file is there");
    // A version and three steps: length, checksum, data, checksum, until the end.
    let mut records = 0;
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let length = u64::from_le_bytes(rest[..8].try_into().expect("eight bytes")) as usize;
        let data = &rest[12..12 + length];
        let tags = ["loss", "accuracy", "samples_per_second", "activation_peak_bytes"];
        let has = |tag: &str| data.windows(tag.len()).any(|part| part == tag.as_bytes());
        assert_eq!(tags.into_iter().all(has), records > 0);
        rest = &rest[16 + length..];
        records += 1;
    }
    assert_eq!(records, 4);
}
