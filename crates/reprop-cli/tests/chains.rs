//! Chains end with the same bits whatever the strategy, and after being killed at any moment.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{command, run, stdout};
use serde_json::Value;

/// The last line on stdout, as JSON.
fn last_line(text: &str) -> Value {
    let line = text.lines().last().expect("the program writes a last line");
    serde_json::from_str(line).expect("the last line is JSON")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// A text with something to learn in it.
fn write_text(folder: &Path) -> PathBuf {
    let words = ["state", "of", "the", "union", "people", "work", "and", "peace"];
    let mut text = String::new();
    let mut number = 1u64;
    while text.len() < 20_000 {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        text.push_str(words[(number >> 33) as usize % words.len()]);
        text.push(' ');
    }
    let path = folder.join("text.txt");
    fs::write(&path, text).expect("the text is written");
    path
}

fn train<'a>(model: &'a str, text: &'a str, extra: &[&'a str]) -> Vec<&'a str> {
    let common =
        ["train", "--model", model, "--data", "text", "--from", text, "--width", "8", "--lr", "1e-2"];
    [&common[..], extra].concat()
}

fn digest(line: &Value) -> String {
    line["parameters_digest"].as_str().expect("a digest is text").to_owned()
}

#[test]
fn every_strategy_ends_with_the_same_parameters_and_says_what_it_took() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = write_text(folder.path());
    for model in ["lstm-char", "gru-char"] {
        let mut expected = None;
        for (strategy, slots) in
            [("stored", "1"), ("revolve", "3"), ("revolve", "20"), ("async", "2"), ("async", "8")]
        {
            let out = folder.path().join(format!("{model}-{strategy}-{slots}"));
            let trace = out.with_extension("trace");
            let arguments = train(
                model,
                text(&path),
                &[
                    "--strategy",
                    strategy,
                    "--slots",
                    slots,
                    "--sequence",
                    "300",
                    "--batch",
                    "4",
                    "--steps",
                    "6",
                    "--out",
                    text(&out),
                    "--trace",
                    text(&trace),
                ],
            );
            let output = stdout(&arguments);
            for row in [
                "forward evaluations",
                "snapshots in memory",
                "written, read",
                "compression",
                "of them stalled",
                "predicted",
                "lower bound",
            ] {
                assert!(output.contains(&format!("\n{row} ")), "{row}: {output}");
            }
            let line = last_line(&output);
            assert!(line["test_accuracy"].as_f64().is_some_and(|accuracy| accuracy > 0.0), "{line}");
            assert!(line["peak_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{line}");
            assert!(line["stall_seconds"].as_f64().is_some_and(|seconds| seconds >= 0.0), "{line}");
            assert_eq!(
                *expected.get_or_insert_with(|| digest(&line)),
                digest(&line),
                "{model} {strategy} {slots}"
            );
            let metrics = fs::read_to_string(out.join("metrics.jsonl")).expect("metrics are there");
            let losses: Vec<f64> = metrics
                .lines()
                .map(|line| {
                    serde_json::from_str::<Value>(line).expect("JSON")["loss"].as_f64().expect("a loss")
                })
                .collect();
            assert!(losses.len() == 6 && losses[5] < losses[0], "{losses:?}");
            let spans = fs::read_to_string(&trace).expect("a trace is there");
            assert!(spans.contains("\"grads\"") && spans.contains("\"forward\""));
            // The store's folder goes with the run.
            assert!(!out.join("snapshots").exists());
        }
    }
}

/// How many durable points the store in `folder` has, at least.
fn points(folder: &Path) -> usize {
    fs::read_to_string(folder.join("manifest")).map_or(0, |text| text.lines().count())
}

#[test]
fn a_run_killed_at_twenty_moments_goes_on_inside_its_pass_and_ends_with_the_same_bits() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = write_text(folder.path());
    let arguments = |out: &Path| -> Vec<String> {
        let settings = ["--strategy", "async", "--slots", "3", "--durable", "1", "--sequence", "8000"];
        let more = ["--batch", "1", "--steps", "2", "--out", text(out)];
        train("lstm-char", text(&path), &[&settings[..], &more].concat())
            .into_iter()
            .map(ToOwned::to_owned)
            .collect()
    };
    let whole = folder.path().join("whole");
    let whole = arguments(&whole);
    let expected = digest(&last_line(&stdout(&whole.iter().map(String::as_str).collect::<Vec<_>>())));
    let mut inside = 0;
    for moment in 0..20usize {
        let out = folder.path().join(format!("killed-{moment}"));
        let arguments = arguments(&out);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut child = command(&arguments).spawn().expect("the program starts");
        // Some are killed in the middle of a point, some before the first, whatever the machine's speed.
        let wanted = moment * 7 % 20;
        let deadline = Instant::now() + Duration::from_mins(1);
        while points(&out.join("snapshots")) < wanted
            && child.try_wait().expect("the child is there").is_none()
            && Instant::now() < deadline
        {
            std::thread::sleep(Duration::from_micros(500));
        }
        std::thread::sleep(Duration::from_micros((moment * 331 % 1000) as u64));
        child.kill().expect("the program is killed");
        child.wait().expect("the program ends");
        if !out.join("settings.json").exists() {
            // Killed before it had written a thing: it begins anew.
            assert_eq!(digest(&last_line(&stdout(&arguments))), expected, "moment {moment}");
            continue;
        }
        let output = run(&["train", "--resume", text(&out)]);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "moment {moment}: {errors}");
        let line = last_line(&String::from_utf8_lossy(&output.stdout));
        assert_eq!(digest(&line), expected, "moment {moment}");
        inside += usize::from(errors.contains("went on inside the pass"));
    }
    assert!(inside > 0, "no run was resumed inside a pass");
}

/// Ctrl-C does not wait for the end of a pass, however long that is: the durable points stay, and the run goes on from them.
#[cfg(unix)]
#[test]
fn an_interrupt_ends_a_run_inside_its_pass_which_goes_on_to_the_same_bits() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = write_text(folder.path());
    let arguments = |out: &str| -> Vec<String> {
        let out = folder.path().join(out);
        let settings = ["--strategy", "async", "--slots", "3", "--durable", "1", "--sequence", "8000"];
        let more = ["--batch", "1", "--steps", "2", "--out", text(&out)];
        let all = train("lstm-char", text(&path), &[&settings[..], &more].concat());
        all.into_iter().map(ToOwned::to_owned).collect()
    };
    let whole = arguments("whole");
    let expected = digest(&last_line(&stdout(&whole.iter().map(String::as_str).collect::<Vec<_>>())));
    let mut inside = 0;
    for wanted in [2, 3, 5, 9, 15] {
        let name = format!("interrupted-{wanted}");
        let (out, arguments) = (folder.path().join(&name), arguments(&name));
        let mut command = command(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let runs = |child: &mut Child| child.try_wait().expect("a state").is_none();
        let deadline = Instant::now() + Duration::from_mins(1);
        while runs(&mut child) && points(&out.join("snapshots")) < wanted && Instant::now() < deadline {
            std::thread::sleep(Duration::from_micros(500));
        }
        if runs(&mut child) {
            // It may end before the signal comes, and then there is nobody to get it.
            let _ =
                Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill starts");
        }
        let output = child.wait_with_output().expect("the program ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let outcome = last_line(&String::from_utf8_lossy(&output.stdout));
        if outcome["interrupted"] == false {
            // A fast machine was at the end before so many points were seen.
            assert_eq!(digest(&outcome), expected, "{wanted} points");
            continue;
        }
        if outcome["test_accuracy"].is_null() {
            assert!(out.join("snapshots/manifest").exists());
        }
        let output = run(&["train", "--resume", text(&out)]);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{errors}");
        assert_eq!(digest(&last_line(&String::from_utf8_lossy(&output.stdout))), expected, "{wanted} points");
        inside += usize::from(errors.contains("went on inside the pass"));
        assert_eq!(points(&out.join("snapshots")), 0);
    }
    assert!(inside > 0, "no run went on inside a pass");
}

#[test]
fn what_has_no_meaning_for_a_chain_is_refused_with_a_way_out() {
    for (arguments, hint) in [
        (&["--model", "lstm-char", "--strategy", "pareprop"][..], "stored, revolve or async"),
        (&["--model", "lstm-char", "--data", "digits"], "sotu"),
        (&["--model", "gru-char", "--data", "text"], "--from FILE"),
        (&["--model", "gru-char", "--sequence", "10000000"], "lower --batch or --sequence"),
        (&["--model", "lstm-char", "--strategy", "revolve", "--durable", "2"], "--strategy async"),
        (&["--model", "lstm-char", "--dropout", "0.1"], "no meaning"),
    ] {
        let output = run(&[&["train"], arguments].concat());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        assert!(errors.contains(hint), "{arguments:?}: {errors}");
    }
}

#[test]
fn a_store_in_use_by_another_run_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = write_text(folder.path());
    let store = folder.path().join("store");
    let arguments = |out: &str| -> Vec<String> {
        train(
            "lstm-char",
            text(&path),
            &["--sequence", "8000", "--batch", "1", "--steps", "1000", "--store", text(&store), "--out"],
        )
        .into_iter()
        .map(ToOwned::to_owned)
        .chain([text(&folder.path().join(out)).to_owned()])
        .collect()
    };
    let first = arguments("first");
    let mut child =
        command(&first.iter().map(String::as_str).collect::<Vec<_>>()).spawn().expect("it starts");
    let deadline = Instant::now() + Duration::from_mins(1);
    while !folder.path().join("first/metrics.jsonl").exists() || !store.exists() {
        assert!(Instant::now() < deadline, "the first run does not begin");
        std::thread::sleep(Duration::from_millis(2));
    }
    // Its store is open when its first step is done.
    let stepped =
        || fs::read_to_string(folder.path().join("first/metrics.jsonl")).is_ok_and(|text| !text.is_empty());
    while !stepped() {
        assert!(Instant::now() < deadline, "the first run does not step");
        std::thread::sleep(Duration::from_millis(2));
    }
    let second = arguments("second");
    let output = run(&second.iter().map(String::as_str).collect::<Vec<_>>());
    child.kill().expect("the first run is killed");
    child.wait().expect("the first run ends");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && errors.contains("in use"), "{errors}");
}

#[test]
fn chains_are_listed_with_the_other_networks() {
    let list: Value = serde_json::from_str(&stdout(&["models", "--format", "json"])).expect("JSON");
    for name in ["lstm-char", "gru-char"] {
        let row =
            list.as_array().expect("a list").iter().find(|row| row["name"] == name).expect("it is listed");
        assert!(row["parameters"].as_u64().is_some_and(|parameters| parameters > 80_000), "{row}");
    }
}
