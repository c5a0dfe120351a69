//! Runs with averaged weights, mixed samples and images from files; weights from files; records of earlier versions.

mod common;

use std::fs;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use common::{command, run, stdout};
use serde_json::Value;

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// The last line on stdout, as JSON.
fn last_line(text: &str) -> Value {
    let line = text.lines().last().expect("the program writes a last line");
    serde_json::from_str(line).expect("the last line is JSON")
}

/// Kills the run as soon as it has written so many lines of metrics.
fn killed(mut child: Child, folder: &Path, lines: usize) {
    let deadline = Instant::now() + Duration::from_mins(2);
    let written = || fs::read_to_string(folder.join("metrics.jsonl")).map_or(0, |text| text.lines().count());
    while written() < lines {
        assert!(Instant::now() < deadline, "{} lines of metrics after two minutes", written());
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().expect("the program is killed");
    child.wait().expect("the program ends");
}

#[test]
fn averaged_weights_of_a_killed_run_are_those_of_one_that_was_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let small =
        ["train", "--depth", "1", "--width", "16", "--batch", "16", "--steps", "200", "--ema", "0.98"];
    let [whole, broken] = ["whole", "broken"].map(|name| folder.path().join(name));
    stdout(&[&small[..], &["--out", text(&whole)]].concat());
    let child = command(&[&small[..], &["--out", text(&broken)]].concat()).spawn().expect("it starts");
    killed(child, &broken, 100);
    stdout(&["train", "--resume", text(&broken)]);
    let weights = |out: &Path, name: &str| fs::read(out.join(name)).expect("weights are there");
    assert!(weights(&whole, "average.safetensors") == weights(&broken, "average.safetensors"));
    assert!(weights(&whole, "weights.safetensors") == weights(&broken, "weights.safetensors"));
    assert!(weights(&whole, "average.safetensors") != weights(&whole, "weights.safetensors"));
}

/// A folder of two classes with three images each to learn from.
fn images(folder: &Path) {
    let slopes = include_bytes!("../../reprop-data/tests/files/slopes.jpeg");
    for (part, count) in [("train", 3), ("val", 1)] {
        for class in ["n01", "n02"] {
            fs::create_dir_all(folder.join(part).join(class)).expect("a folder");
            for index in 0..count {
                fs::write(folder.join(part).join(class).join(format!("{index}.JPEG")), slopes)
                    .expect("a file");
            }
        }
    }
}

#[test]
fn images_in_files_are_mixed_erased_and_learned_from_alike_on_any_number_of_threads() {
    let folder = tempfile::tempdir().expect("a folder");
    let set = folder.path().join("set");
    images(&set);
    let digest = |threads: &str, strategy: &str| {
        let out = folder.path().join(format!("run-{threads}-{strategy}"));
        let network = ["train", "--model", "rev-vit-ti", "--image", "32", "--depth", "2", "--width", "16"];
        let data = ["--data", "imagenet", "--from", text(&set), "--batch", "2", "--steps", "7"];
        let how = ["--threads", threads, "--strategy", strategy, "--out", text(&out)];
        let outcome = last_line(&stdout(&[&network[..], &data, &how].concat()));
        let settings = fs::read_to_string(out.join("settings.json")).expect("settings");
        let settings: Value = serde_json::from_str(&settings).expect("JSON");
        assert_eq!(
            (&settings["classes"], &settings["recipe"]["name"]),
            (&2.into(), &"rev-vit-imagenet".into())
        );
        outcome["parameters_digest"].as_str().expect("a digest").to_owned()
    };
    let expected = digest("1", "stored");
    assert_eq!(digest("3", "pareprop"), expected);

    fs::write(set.join("train/n02/1.JPEG"), b"\xff\xd8 and no more").expect("a file");
    let out = folder.path().join("broken");
    let network = ["train", "--model", "rev-vit-ti", "--image", "32", "--depth", "1", "--width", "8"];
    let data =
        ["--data", "imagenet", "--from", text(&set), "--batch", "6", "--steps", "2", "--out", text(&out)];
    let output = run(&[&network[..], &data].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("1.JPEG") && !errors.contains("panicked"), "{errors}");
}

#[test]
fn a_run_begins_with_the_weights_that_another_one_wrote() {
    let folder = tempfile::tempdir().expect("a folder");
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    let small = ["train", "--depth", "1", "--width", "8", "--batch", "64", "--steps", "2", "--out"];
    let written = last_line(&stdout(&[&small[..], &[text(&first)]].concat()));
    let weights = first.join("weights.safetensors");
    // Nothing moves at a rate of zero.
    let again = ["--lr", "0", "--seed", "7", "--init", text(&weights)];
    let read = last_line(&stdout(&[&small[..], &[text(&second)], &again].concat()));
    assert_eq!(read["parameters_digest"], written["parameters_digest"]);

    let other = run(&[
        "train",
        "--depth",
        "2",
        "--width",
        "8",
        "--init",
        text(&weights),
        "--out",
        text(&folder.path().join("third")),
    ]);
    let errors = String::from_utf8_lossy(&other.stderr);
    assert_eq!(other.status.code(), Some(1), "{errors}");
    assert!(errors.contains("blocks.1") && errors.contains("hint:"), "{errors}");
}

/// A finished run of version 0.1, before networks took their shape from the data set: its settings lack what was added since.
#[test]
fn a_record_of_an_earlier_version_loads() {
    let folder = tempfile::tempdir().expect("a folder");
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files/run-0.1");
    fs::create_dir_all(folder.path().join("record")).expect("a folder");
    for file in [
        "settings.json",
        "metrics.jsonl",
        "record/weights.bpk",
        "record/optimizer.bpk",
        "record/position.json",
    ] {
        fs::copy(kept.join(file), folder.path().join(file)).expect("a file");
    }
    let outcome = last_line(&stdout(&["train", "--resume", text(folder.path())]));
    assert_eq!(outcome["parameters_digest"], "febadb80ca857595f70b98b469da226c");
    assert_eq!(outcome["steps"], 2);
}
