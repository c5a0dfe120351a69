//! Training in stages, as the program does it.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{command, run, stdout};
use serde_json::Value;

/// A small network, with both kinds of masks on; two epochs and a bit.
const SMALL: [&str; 15] = [
    "train",
    "--depth",
    "4",
    "--width",
    "16",
    "--batch",
    "32",
    "--steps",
    "96",
    "--dropout",
    "0.05",
    "--drop-path",
    "0.1",
    "--lr",
    "3e-3",
];

fn last_line(text: &str) -> Value {
    serde_json::from_str(text.lines().last().expect("a last line")).expect("the last line is JSON")
}

fn train(folder: &Path, extra: &[&str]) -> Value {
    let out = ["--out", folder.to_str().expect("a plain path")];
    last_line(&stdout(&[&SMALL[..], &out, extra].concat()))
}

#[test]
fn synchronous_methods_end_with_the_parameters_and_the_accuracy_of_ordinary_training() {
    let folder = tempfile::tempdir().expect("a folder");
    let expected = train(&folder.path().join("plain"), &["--strategy", "stored"]);
    for method in ["backprop", "reversible"] {
        let found = train(&folder.path().join(method), &["--method", method, "--stages", "3"]);
        for field in ["parameters_digest", "test_accuracy", "steps"] {
            assert_eq!(found[field], expected[field], "{method}: {field}");
        }
    }
    let one = train(&folder.path().join("one"), &["--method", "petra", "--stages", "1"]);
    assert_eq!(one["parameters_digest"], expected["parameters_digest"]);
    let petra = train(&folder.path().join("petra"), &["--method", "petra", "--stages", "3"]);
    assert_ne!(petra["parameters_digest"], expected["parameters_digest"]);
    let metrics = fs::read_to_string(folder.path().join("petra").join("metrics.jsonl")).expect("metrics");
    assert_eq!(metrics.lines().count(), 96);
}

#[test]
fn a_pipeline_learns_and_tells_what_each_stage_held_and_draws_a_row_for_each() {
    let folder = tempfile::tempdir().expect("a folder");
    let (out, trace) = (folder.path().join("run"), folder.path().join("trace.json"));
    let paths = [out.to_str().expect("plain"), trace.to_str().expect("plain")];
    let text = stdout(&[
        "train",
        "--depth",
        "3",
        "--width",
        "16",
        "--batch",
        "16",
        "--steps",
        "1600",
        "--lr",
        "3e-3",
        "--method",
        "petra",
        "--stages",
        "2",
        "--accumulate",
        "2",
        "--out",
        paths[0],
        "--trace",
        paths[1],
    ]);
    assert!(last_line(&text)["test_accuracy"].as_f64().is_some_and(|accuracy| accuracy > 0.5), "{text}");
    assert!(text.contains("kept inputs"), "{text}");
    let trace: Value = serde_json::from_slice(&fs::read(trace).expect("a trace")).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    let rows = events.iter().filter(|event| event["ph"] == "M");
    let names: Vec<&str> = rows.filter_map(|row| row["args"]["name"].as_str()).collect();
    assert_eq!(names, ["stage 0", "stage 1"]);
    // Each stage sends and receives one message a batch, and some more when it ends.
    for stage in 0..2 {
        let messages = events.iter().filter(|event| event["tid"] == stage && event["name"] == "message");
        assert!(messages.count() >= 2 * 1600, "stage {stage}");
    }
}

/// Starts a run and waits until it has written `lines` lines of metrics.
fn start(folder: &Path, lines: usize) -> std::process::Child {
    let out = [
        "--out",
        folder.to_str().expect("a plain path"),
        "--method",
        "petra",
        "--stages",
        "3",
        "--accumulate",
        "4",
    ];
    let child = command(&[&SMALL[..], &out].concat()).spawn().expect("the program starts");
    let deadline = Instant::now() + Duration::from_mins(2);
    let written = || fs::read_to_string(folder.join("metrics.jsonl")).map_or(0, |text| text.lines().count());
    while written() < lines {
        assert!(Instant::now() < deadline, "{} lines of metrics after two minutes", written());
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

#[test]
fn a_pipeline_that_is_killed_or_interrupted_goes_on_to_the_same_parameters() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = ["--method", "petra", "--stages", "3", "--accumulate", "4"];
    let expected = train(&folder.path().join("whole"), &options);
    for signal in ["KILL", "INT"] {
        let out = folder.path().join(signal);
        let mut child = start(&out, 60);
        let sent = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
        assert!(sent.expect("kill starts").success());
        child.wait().expect("the program ends");
        let resumed = last_line(&stdout(&["train", "--resume", out.to_str().expect("plain")]));
        for field in ["parameters_digest", "test_accuracy", "steps"] {
            assert_eq!(resumed[field], expected[field], "{signal}: {field}");
        }
        let metrics = fs::read_to_string(out.join("metrics.jsonl")).expect("metrics");
        assert_eq!(metrics.lines().count(), 96, "{signal}");
    }
}

#[test]
fn what_cannot_be_a_pipeline_is_refused_with_its_numbers() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("run");
    let path = out.to_str().expect("a plain path");
    for (options, word) in [
        (&["--method", "petra", "--stages", "9"][..], "9 stages"),
        (&["--method", "petra", "--stages", "3", "--split", "4,2"], "2 cuts"),
        (&["--method", "petra", "--split", "half"], "measured"),
        (&["--method", "petra", "--queue", "u4"], "no queue of"),
        (&["--method", "petra", "--accumulate", "5"], "96 batches"),
        (&["--method", "nothing"], "no method called"),
        (&["--method", "petra", "--model", "lstm-char"], "cannot be cut into stages"),
        (&["--stages", "2"], "--method"),
        (&["--method", "petra", "--warm-up", "0.5"], "from 1 to 64"),
    ] {
        let output = run(&[&SMALL[..], options, &["--out", path]].concat());
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && errors.contains(word), "{options:?}: {errors}");
        assert!(!out.exists());
    }
    train(&out, &["--method", "petra", "--stages", "2"]);
    let again = run(&[&SMALL[..], &["--method", "petra", "--out", path]].concat());
    let errors = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(again.status.code() == Some(1) && errors.contains("--resume"), "{errors}");
}

fn metrics(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("metrics.jsonl")).expect("metrics");
    text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

#[test]
fn measured_stages_are_kept_with_the_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("measured");
    let options = ["--method", "petra", "--stages", "2", "--warm-up"];
    let measured = train(&out, &[&options[..], &["auto", "--split", "measured"]].concat());
    let settings: Value =
        serde_json::from_slice(&fs::read(out.join("settings.json")).expect("settings")).expect("JSON");
    let pipeline = &settings["pipeline"];
    let cut = pipeline["stages"][0]["end"].as_u64().expect("a cut");
    assert!((1..6).contains(&cut) && pipeline["stages"][1]["end"] == 6, "{pipeline}");
    let depth = pipeline["warm_up"].as_f64().expect("a depth");
    assert!(depth >= 1.0, "{pipeline}");
    // The same by hand.
    let (cut, depth) = (cut.to_string(), depth.to_string());
    let by_hand = [&options[..], &[&depth, "--split", &cut]].concat();
    let by_hand = train(&folder.path().join("by-hand"), &by_hand);
    assert_eq!(measured["parameters_digest"], by_hand["parameters_digest"]);
}

#[test]
fn metrics_tell_tests_after_epochs_and_how_well_gradients_agree() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = ["--method", "petra", "--stages", "3", "--alignment", "10"];
    let done = train(folder.path(), &options);
    let lines = metrics(folder.path());
    assert_eq!(lines.len(), 96);
    // 1437 digits in batches of 32: 45 of them are an epoch.
    let tested: Vec<u64> = lines
        .iter()
        .filter(|line| line["test_accuracy"].is_f64())
        .filter_map(|line| line["step"].as_u64())
        .collect();
    assert_eq!(tested, [44, 89]);
    let compared: Vec<&Value> = lines.iter().filter(|line| line["alignment"].is_array()).collect();
    assert_eq!(compared.len(), 9);
    for line in compared {
        let cosines: Vec<f64> =
            line["alignment"].as_array().expect("cosines").iter().filter_map(Value::as_f64).collect();
        assert!(cosines.len() == 3 && cosines.iter().all(|cosine| cosine.abs() <= 1.0), "{cosines:?}");
    }
    let plain = train(&folder.path().join("plain"), &options[..4]);
    assert_eq!(done["parameters_digest"], plain["parameters_digest"]);
}

#[test]
fn a_test_after_an_epoch_is_that_of_ordinary_training() {
    let folder = tempfile::tempdir().expect("a folder");
    let tests = |name: &str, options: &[&str]| {
        let out = folder.path().join(name);
        train(&out, options);
        metrics(&out).iter().map(|line| line["test_accuracy"].clone()).collect::<Vec<_>>()
    };
    let expected = tests("plain", &["--strategy", "stored"]);
    assert_eq!(tests("stages", &["--method", "backprop", "--stages", "3"]), expected);
}

/// A recipe that mixes samples and clips gradients.
#[test]
fn mixing_and_clipping_in_one_stage_are_those_of_ordinary_training() {
    let folder = tempfile::tempdir().expect("a folder");
    let recipe = ["--recipe", "rev-vit-imagenet"];
    let of = |name: &str, options: &[&str]| {
        train(&folder.path().join(name), &[&recipe[..], options].concat())["parameters_digest"].clone()
    };
    let expected = of("plain", &["--strategy", "stored"]);
    assert_eq!(of("one", &["--method", "petra", "--stages", "1"]), expected);
    // Each of three stages clips by itself.
    assert_ne!(of("three", &["--method", "backprop", "--stages", "3"]), expected);
}

#[test]
fn rates_grow_with_what_an_update_sees() {
    let folder = tempfile::tempdir().expect("a folder");
    let rate = |name: &str, options: &[&str]| {
        let out = folder.path().join(name);
        let path = out.to_str().expect("a plain path");
        let steps = [
            "train",
            "--model",
            "rev-resnet-18",
            "--width",
            "4",
            "--recipe",
            "petra-cifar10",
            "--batch",
            "16",
        ];
        stdout(&[&steps[..], &["--steps", "4", "--method", "petra", "--out", path], options].concat());
        let settings: Value =
            serde_json::from_slice(&fs::read(out.join("settings.json")).expect("settings")).expect("JSON");
        settings["lr"].as_f64().expect("a rate")
    };
    let one = rate("one", &["--rate-warm-up", "0.01"]);
    for (name, options) in
        [("k", &["--accumulate", "4"][..]), ("r", &["--accumulate", "2", "--replicas", "2"])]
    {
        let more = rate(name, options);
        assert!((more - 4.0 * one).abs() < 1e-12, "{name}: {more} {one}");
    }
}

/// What a run of five times as many steps may hold at most, in peaks of the short one: how much stages hold at once hangs on
/// when they run, but anything that stays behind a step would be there five times as often.
const GROWTH: f64 = 1.5;

#[test]
fn many_stages_on_few_cores_hold_no_more_bytes_the_longer_they_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let peak = |steps: &str| {
        let out = folder.path().join(steps);
        let path = out.to_str().expect("a plain path");
        let options = [
            "train", "--depth", "12", "--width", "16", "--batch", "32", "--method", "petra", "--stages", "8",
        ];
        let done = last_line(&stdout(&[&options[..], &["--steps", steps, "--out", path]].concat()));
        done["peak_bytes"].as_f64().expect("a peak")
    };
    let (short, long) = (peak("60"), peak("300"));
    assert!(long < GROWTH * short, "{short} {long}");
}

/// Open MPI tells its ranks who they are by these variables.
#[cfg(not(feature = "mpi"))]
#[test]
fn a_program_without_mpi_says_so_under_mpirun() {
    let started = |rank: &str| {
        let mut program = command(&["train", "--method", "petra"]);
        program.env("OMPI_COMM_WORLD_SIZE", "2").env("OMPI_COMM_WORLD_RANK", rank);
        program.output().expect("the program starts")
    };
    let first = started("0");
    let errors = String::from_utf8_lossy(&first.stderr).into_owned();
    assert!(first.status.code() == Some(2) && errors.contains("built without MPI"), "{errors}");
    let second = started("1");
    assert_eq!((second.status.code(), second.stderr.as_slice()), (Some(2), &[][..]));
}
