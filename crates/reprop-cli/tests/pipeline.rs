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
    let rows = trace["traceEvents"].as_array().expect("events").iter().filter(|event| event["ph"] == "M");
    let names: Vec<&str> = rows.filter_map(|row| row["args"]["name"].as_str()).collect();
    assert_eq!(names, ["stage 0", "stage 1"]);
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
        (&["--method", "petra", "--stages", "3", "--cuts", "4,2"], "2 cuts"),
        (&["--method", "petra", "--accumulate", "5"], "96 batches"),
        (&["--method", "nothing"], "no method called"),
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
