//! Stages on the ranks of an MPI job: the bits of a run in one process, and a clear end when something breaks.
//!
//! Needs `mpirun` (Debian: `openmpi-bin libopenmpi-dev libclang-dev`) and the feature `mpi`.
#![cfg(feature = "mpi")]

mod common;

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::stdout;
use serde_json::Value;

const SMALL: [&str; 16] = [
    "train",
    "--depth",
    "8",
    "--width",
    "16",
    "--batch",
    "32",
    "--steps",
    "92",
    "--dropout",
    "0.05",
    "--lr",
    "3e-3",
    "--threads",
    "1",
    "--method",
];

fn last_line(text: &str) -> Value {
    let line = text.lines().rfind(|line| line.starts_with('{')).expect("a last line");
    serde_json::from_str(line).expect("the last line is JSON")
}

/// `mpirun` with `ranks` ranks, more than there are cores if need be.
fn mpirun(ranks: usize) -> Command {
    let found = Command::new("mpirun").arg("--version").output();
    assert!(
        found.is_ok_and(|output| output.status.success()),
        "mpirun is missing: install openmpi-bin, libopenmpi-dev and libclang-dev to test the feature `mpi`"
    );
    let mut command = Command::new("mpirun");
    command.args(["--allow-run-as-root", "--oversubscribe", "-np", &ranks.to_string()]);
    // One machine needs no network; without this Open MPI looks for one.
    command.args(["--mca", "btl", "self,vader", "--mca", "btl_vader_single_copy_mechanism", "none"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn on_ranks(ranks: usize, arguments: &[&str]) -> Output {
    mpirun(ranks).arg(env!("CARGO_BIN_EXE_reprop")).args(arguments).output().expect("mpirun starts")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

#[test]
fn any_number_of_ranks_ends_with_the_parameters_of_one_process() {
    let folder = tempfile::tempdir().expect("a folder");
    for (ranks, method, accumulate) in
        [(2, "petra", "1"), (4, "petra", "4"), (4, "delayed", "1"), (10, "petra", "1")]
    {
        let name = format!("{ranks}-{method}");
        let stages = ranks.to_string();
        let options = [method, "--stages", &stages, "--accumulate", accumulate, "--out"];
        let alone = folder.path().join(format!("alone-{name}"));
        let expected = last_line(&stdout(&[&SMALL[..], &options, &[text(&alone)]].concat()));
        let out = folder.path().join(format!("ranks-{name}"));
        let output = on_ranks(ranks, &[&SMALL[..], &options, &[text(&out)]].concat());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {errors}");
        let found = last_line(&String::from_utf8_lossy(&output.stdout));
        for field in ["parameters_digest", "test_accuracy", "steps"] {
            assert_eq!(found[field], expected[field], "{name}: {field}");
        }
        let weights = |run: &Path| fs::read(run.join("weights.safetensors")).expect("weights are there");
        assert!(weights(&alone) == weights(&out), "{name}");
    }
}

/// Every rank reads the text and learns its vocabulary for itself.
#[test]
fn ranks_train_on_text_as_one_process_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let small = ["train", "--model", "rev-roberta-base", "--depth", "2", "--width", "32", "--data", "sotu"];
    let options =
        ["--vocabulary", "400", "--sequence", "48", "--batch", "16", "--steps", "20", "--lr", "5e-3"];
    let pipeline = ["--threads", "1", "--method", "petra", "--stages", "3", "--out"];
    let arguments = [&small[..], &options, &pipeline].concat();
    let expected = last_line(&stdout(&[&arguments[..], &[text(&folder.path().join("alone"))]].concat()));
    let output = on_ranks(3, &[&arguments[..], &[text(&folder.path().join("ranks"))]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found = last_line(&String::from_utf8_lossy(&output.stdout));
    for field in ["parameters_digest", "test_accuracy", "steps"] {
        assert_eq!(found[field], expected[field], "{field}");
    }
}

#[test]
fn replicas_on_ranks_end_with_the_parameters_of_one_process_and_draw_a_row_each() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace.json");
    let options = ["petra", "--stages", "2", "--replicas", "2", "--queue", "f16", "--out"];
    let alone = folder.path().join("alone");
    let expected = last_line(&stdout(&[&SMALL[..], &options, &[text(&alone)]].concat()));
    let out = folder.path().join("ranks");
    let output = on_ranks(4, &[&SMALL[..], &options, &[text(&out), "--trace", text(&trace)]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found = last_line(&String::from_utf8_lossy(&output.stdout));
    for field in ["parameters_digest", "test_accuracy", "steps"] {
        assert_eq!(found[field], expected[field], "{field}");
    }
    let trace: Value = serde_json::from_slice(&fs::read(trace).expect("a trace")).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    let rows: Vec<&str> = events
        .iter()
        .filter(|event| event["ph"] == "M")
        .filter_map(|row| row["args"]["name"].as_str())
        .collect();
    assert_eq!(
        rows,
        ["replica 0, stage 0", "replica 0, stage 1", "replica 1, stage 0", "replica 1, stage 1"]
    );
    for row in 0..4 {
        assert!(events.iter().any(|event| event["ph"] == "X" && event["tid"] == row), "row {row} is empty");
    }
}

#[test]
fn what_the_first_rank_measures_all_ranks_take() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("run");
    let options = ["petra", "--stages", "3", "--split", "measured", "--warm-up", "auto", "--out", text(&out)];
    let output = on_ranks(3, &[&SMALL[..], &options].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let settings: Value =
        serde_json::from_slice(&fs::read(out.join("settings.json")).expect("settings")).expect("JSON");
    assert_eq!(settings["pipeline"]["stages"].as_array().map(Vec::len), Some(3));
}

/// Processes whose command line ends with `--out FOLDER`, and the rank of each.
fn ranks_of(folder: &Path) -> Vec<(u32, String)> {
    let processes = fs::read_dir("/proc").expect("processes").filter_map(|entry| {
        let path = entry.ok()?.path();
        let number: u32 = path.file_name()?.to_str()?.parse().ok()?;
        let line = fs::read_to_string(path.join("cmdline")).ok()?;
        if !line.contains(text(folder)) || line.starts_with("mpirun") {
            return None;
        }
        let variables = fs::read(path.join("environ")).ok()?;
        let variables = String::from_utf8_lossy(&variables).into_owned();
        let rank = variables.split('\0').find_map(|line| line.strip_prefix("OMPI_COMM_WORLD_RANK="))?;
        Some((number, rank.to_owned()))
    });
    processes.collect()
}

#[test]
fn a_rank_killed_at_any_moment_ends_the_job_and_a_resumed_one_ends_with_the_same_parameters() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = ["petra", "--stages", "3", "--out"];
    let alone = folder.path().join("alone");
    let expected = last_line(&stdout(&[&SMALL[..], &options, &[text(&alone)]].concat()));

    for rank in 0..3 {
        // After the first record, and before the end.
        let moment = 50 + RandomState::new().hash_one(rank) as usize % 35;
        println!("rank {rank} is killed after batch {moment}");
        let out = folder.path().join(format!("killed-{rank}"));
        kill_rank(rank, moment, &out, &[&SMALL[..], &options, &[text(&out)]].concat());
        let resumed = on_ranks(3, &["train", "--resume", text(&out), "--threads", "1"]);
        assert!(resumed.status.success(), "{}", String::from_utf8_lossy(&resumed.stderr));
        let found = last_line(&String::from_utf8_lossy(&resumed.stdout));
        assert_eq!(found["parameters_digest"], expected["parameters_digest"]);
        assert_eq!(found["steps"], 92);
    }
}

/// Starts three ranks, kills one when so many batches are done, and checks how the job ends.
fn kill_rank(rank: usize, moment: usize, out: &Path, arguments: &[&str]) {
    let child = mpirun(3).arg(env!("CARGO_BIN_EXE_reprop")).args(arguments).spawn().expect("mpirun starts");
    let deadline = Instant::now() + Duration::from_mins(2);
    let written = || fs::read_to_string(out.join("metrics.jsonl")).map_or(0, |text| text.lines().count());
    while written() < moment {
        assert!(Instant::now() < deadline, "{} lines of metrics after two minutes", written());
        std::thread::sleep(Duration::from_millis(2));
    }
    let ranks = ranks_of(out);
    let (victim, _) = ranks.iter().find(|(_, name)| *name == rank.to_string()).expect("it is at work");
    let sent = Command::new("kill").args(["-KILL", &victim.to_string()]).status().expect("kill starts");
    assert!(sent.success());
    let killed = Instant::now();
    let output = child.wait_with_output().expect("mpirun ends");
    assert!(killed.elapsed() < Duration::from_secs(10), "{:?}", killed.elapsed());
    assert!(!output.status.success());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(errors.matches(&format!("noticed that process rank {rank}")).count(), 1, "{errors}");
    assert!(ranks_of(out).is_empty(), "ranks live on");
}

/// The job fails, and our message is there once.
fn refused(output: &Output, message: &str) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.matches(message).count() == 1, "{errors}");
    assert_eq!(errors.matches("error:").count(), 1, "{errors}");
}

#[test]
fn ranks_that_do_not_fit_are_refused_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("run");
    let options = ["petra", "--out", text(&out)];
    let more = on_ranks(3, &[&SMALL[..], &options, &["--stages", "2"]].concat());
    refused(&more, "2 stages cannot be shared out to 3 MPI ranks");
    refused(&on_ranks(2, &["train", "--out", text(&out)]), "nothing to share without a method");

    // The second rank has another seed.
    let program = env!("CARGO_BIN_EXE_reprop");
    let mut mixed = mpirun(1);
    mixed.arg(program).args(SMALL).args(options).args(["--stages", "2"]);
    mixed.args([":", "-np", "1", program]).args(SMALL).args(options).args(["--stages", "2", "--seed", "7"]);
    refused(
        &mixed.output().expect("mpirun starts"),
        "rank 1 was started with another program or other settings",
    );
    assert!(!out.exists(), "nothing is written");
}

#[test]
fn a_rank_that_fails_ends_the_job_with_its_own_message() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("run");
    let start = Instant::now();
    let output = on_ranks(
        3,
        &[
            "train",
            "--depth",
            "4",
            "--steps",
            "500",
            "--lr",
            "1e30",
            "--method",
            "petra",
            "--out",
            text(&out),
        ],
    );
    assert!(start.elapsed() < Duration::from_mins(1), "{:?}", start.elapsed());
    refused(&output, "hint: lower --lr");
}

/// A stopped rank is what a dead link looks like: it says nothing more.
#[test]
fn a_silent_rank_is_given_up_after_the_patience() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("silent");
    let options = ["petra", "--stages", "3", "--patience", "2", "--out", text(&out)];
    let arguments = [&SMALL[..], &options].concat();
    let child = mpirun(3).arg(env!("CARGO_BIN_EXE_reprop")).args(arguments).spawn().expect("mpirun starts");
    let deadline = Instant::now() + Duration::from_mins(2);
    while fs::read_to_string(out.join("metrics.jsonl")).map_or(0, |text| text.lines().count()) < 20 {
        assert!(Instant::now() < deadline, "no metrics after two minutes");
        std::thread::sleep(Duration::from_millis(2));
    }
    let ranks = ranks_of(&out);
    let (victim, _) = ranks.iter().find(|(_, rank)| rank == "1").expect("rank 1 is at work");
    let signal =
        |name: &str| Command::new("kill").args([name, &victim.to_string()]).status().expect("kill starts");
    assert!(signal("-STOP").success());
    let stopped = Instant::now();
    let output = child.wait_with_output().expect("mpirun ends");
    assert!(stopped.elapsed() < Duration::from_secs(20), "{:?}", stopped.elapsed());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("waited 2s for the stage"), "{errors}");
    assert!(ranks_of(&out).is_empty(), "ranks live on");
}
