//! `reprop plan`, and what `auto` makes of it.

mod common;

use common::{command, run, stdout};
use serde_json::Value;

const MODEL: [&str; 4] = ["--depth", "6", "--threads", "2"];

fn plan(arguments: &[&str]) -> Value {
    let all: Vec<&str> =
        ["plan", "--format", "json"].iter().chain(&MODEL).chain(arguments).copied().collect();
    serde_json::from_str(&stdout(&all)).expect("plan writes JSON")
}

fn bytes(candidate: &Value) -> u64 {
    candidate["predicted_activation_bytes"].as_u64().expect("bytes are a number")
}

/// The candidate of that name.
fn named<'p>(plan: &'p Value, name: &str) -> &'p Value {
    let candidates = plan["candidates"].as_array().expect("a list");
    candidates.iter().find(|candidate| candidate["name"] == name).expect("a candidate of that name")
}

fn chosen(plan: &Value) -> &Value {
    &plan["candidates"][plan["chosen"].as_u64().expect("a place") as usize]
}

#[test]
fn every_field_that_scripts_rely_on_is_there_and_the_plan_fits() {
    let everything = plan(&["--predict", "--budget", "1GiB"]);
    assert_eq!(chosen(&everything)["name"], "stored");
    assert!(chosen(&everything)["refused"].is_null());
    let budget = bytes(named(&everything, "pareprop"));
    let tight = plan(&["--budget", &budget.to_string()]);
    assert_eq!((&tight["model"], &tight["batch"]), (&"rev-vit-digits".into(), &8.into()));
    assert_eq!((tight["budget_bytes"].as_u64(), &tight["threads"]), (Some(budget), &2.into()));
    assert!(tight["costs"] == "measured" || tight["costs"] == "cached", "{}", tight["costs"]);
    let candidates = tight["candidates"].as_array().expect("a list");
    assert_eq!(candidates.len(), 12, "all kept, and 0 to 5 blocks without overlap and 1 to 5 with it");
    for candidate in candidates {
        let fits = bytes(candidate) <= budget;
        assert_eq!(candidate["fits"], fits, "{candidate}");
        assert!(candidate["predicted_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{candidate}");
        assert!(candidate["samples_per_second"].as_f64().is_some_and(|rate| rate > 0.0), "{candidate}");
        assert!(candidate["predicted_forwards"].is_null(), "{candidate}");
        for field in ["blocks_kept", "overlap", "recompute_transitions", "forward_evaluations", "refused"] {
            assert!(candidate.get(field).is_some(), "{field}: {candidate}");
        }
        let lacks = candidate["refused"].as_str().is_some_and(|why| why.starts_with("lacks"));
        assert_eq!(lacks, !fits, "{candidate}");
    }
    assert!(bytes(chosen(&tight)) <= budget && chosen(&tight)["refused"].is_null());
}

#[test]
fn costs_are_measured_once_and_a_damaged_cache_is_measured_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("costs.json");
    let source = |budget: &str| {
        let arguments: Vec<&str> =
            ["plan", "--format", "json", "--budget", budget].iter().chain(&MODEL).copied().collect();
        let output = command(&arguments).env("REPROP_CACHE", folder.path()).output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let plan: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        plan["costs"].as_str().expect("a name").to_owned()
    };
    assert_eq!([source("2MiB"), source("2MiB"), source("3MiB")], ["measured", "cached", "measured"]);
    std::fs::write(&file, b"[{\"key\": 3").expect("damaged");
    assert_eq!([source("2MiB"), source("2MiB")], ["measured", "cached"]);
}

#[test]
fn a_budget_below_the_least_names_it_and_the_way_out() {
    let output = run(&["plan", "--batch", "64", "--budget", "1MiB"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    for part in ["1048576 bytes", "hint: give --budget at least", "--batch at most"] {
        assert!(errors.contains(part), "{part}: {errors}");
    }
    let batch = errors.split("--batch at most ").nth(1).map(str::trim).expect("a batch");
    assert_eq!(run(&["plan", "--predict", "--batch", batch, "--budget", "1MiB"]).status.code(), Some(0));
}

#[test]
fn the_largest_batch_is_one_flag_away() {
    let plan = plan(&["--predict", "--largest-batch", "--budget", "4MiB"]);
    let largest = plan["largest_batch"].as_u64().expect("a number");
    assert_eq!(plan["batch"].as_u64(), Some(largest));
    let more = (largest + 1).to_string();
    let refused = run(&["plan", "--depth", "6", "--predict", "--batch", &more, "--budget", "4MiB"]);
    assert_eq!(refused.status.code(), Some(1));
    let text = stdout(&["plan", "--depth", "6", "--predict", "--largest-batch", "--budget", "4MiB"]);
    assert!(text.starts_with(&format!("the largest batch that fits 4.0 MiB is {largest}\n")), "{text}");
}

#[test]
fn text_models_are_planned_too() {
    let text = stdout(&[
        "plan",
        "--model",
        "rev-roberta-base",
        "--depth",
        "2",
        "--width",
        "64",
        "--predict",
        "--batch",
        "1",
        "--budget",
        "2GiB",
    ]);
    assert!(text.contains("* stored"), "{text}");
}

#[test]
fn auto_trains_to_the_same_parameters_as_stored_within_its_budget() {
    let folder = tempfile::tempdir().expect("a folder");
    let budget = bytes(named(&plan(&["--predict", "--budget", "1GiB"]), "pareprop"));
    let train = |name: &str, arguments: &[&str]| -> Value {
        let out = folder.path().join(name);
        let out = out.to_str().expect("plain");
        let all: Vec<&str> = ["train", "--steps", "3", "--batch", "8", "--out", out]
            .iter()
            .chain(&MODEL)
            .chain(arguments)
            .copied()
            .collect();
        let text = stdout(&all);
        let metrics =
            std::fs::read_to_string(folder.path().join(name).join("metrics.jsonl")).expect("metrics");
        for line in metrics.lines() {
            let line: Value = serde_json::from_str(line).expect("JSON");
            let peak = line["activation_peak_bytes"].as_u64().expect("bytes");
            assert!(name != "auto" || peak <= budget, "{peak} of {budget}");
        }
        serde_json::from_str(text.lines().last().expect("a last line")).expect("JSON")
    };
    let stored = train("stored", &["--strategy", "stored"]);
    // A budget alone asks for auto.
    let auto = train("auto", &["--budget", &budget.to_string()]);
    assert_eq!(auto["parameters_digest"], stored["parameters_digest"]);
}

#[test]
fn a_network_trains_within_a_budget_that_its_inputs_alone_would_break() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("streams").to_string_lossy().into_owned();
    let plain = |arguments: &[&str]| plan(&[&["--model", "vit-digits", "--predict"], arguments].concat());
    let everything = plain(&["--budget", "1GiB", "--store", &store]);
    let inputs = |name| bytes(named(&everything, name));
    let [disk, kept] = [inputs("transitions recomputed from disk"), inputs("stored, transitions recomputed")];
    assert!(disk < kept, "{disk} {kept}");
    let few = plain(&["--budget", &disk.to_string()]);
    assert_eq!(
        (&chosen(&few)["inputs"], chosen(&few)["blocks_kept"].as_u64()),
        (&"snapshots".into(), Some(0))
    );
    assert!(chosen(&few)["snapshots"].as_u64().is_some_and(|snapshots| snapshots < 11), "{few}");
    assert!(named(&everything, "stored")["snapshots"].is_null());

    let train = |name: &str, arguments: &[&str]| -> (String, u64) {
        let out = folder.path().join(name);
        let out = out.to_string_lossy();
        let all = ["train", "--model", "vit-digits", "--depth", "6", "--batch", "8", "--steps", "2"];
        let all = [&all[..], &["--threads", "2", "--out", &out], arguments].concat();
        let printed = stdout(&all);
        let last: Value = serde_json::from_str(printed.lines().last().expect("a line")).expect("JSON");
        let metrics =
            std::fs::read_to_string(folder.path().join(name).join("metrics.jsonl")).expect("metrics");
        let step: Value = serde_json::from_str(metrics.lines().next().expect("a step")).expect("JSON");
        let peak = step["activation_peak_bytes"].as_u64().expect("bytes");
        (last["parameters_digest"].as_str().expect("a digest").to_owned(), peak)
    };
    let (stored, most) = train("stored", &["--strategy", "stored"]);
    let budget = disk.to_string();
    for (name, more) in [("few", &[][..]), ("disk", &["--store", &store])] {
        let (digest, peak) = train(name, &[&["--budget", &budget], more].concat());
        assert_eq!(digest, stored, "{name}");
        assert!(peak <= disk && disk < most, "{name}: {peak} of {disk}, {most} stored");
    }
    // Its files are gone with the run.
    assert!(!std::path::Path::new(&store).exists());

    let output = run(&["train", "--model", "vit-digits", "--steps", "1", "--store", &store]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("add --budget, or leave out --store"), "{errors}");
}

#[test]
fn chains_are_planned_between_storing_revolve_and_disk() {
    let chain = |budget: &str| -> Value {
        let arguments =
            ["plan", "--model", "lstm-char", "--sequence", "200", "--batch", "4", "--budget", budget];
        let arguments: Vec<&str> = arguments.iter().chain(&["--format", "json"]).copied().collect();
        serde_json::from_str(&stdout(&arguments)).expect("JSON")
    };
    let names = |plan: &Value| -> Vec<String> {
        let candidates = plan["candidates"].as_array().expect("a list");
        candidates.iter().map(|row| row["strategy"].as_str().expect("a name").to_owned()).collect()
    };
    let all = chain("1GiB");
    let names = names(&all);
    assert!(names.starts_with(&["stored".to_owned(), "revolve".to_owned()]), "{names:?}");
    // As in `schedule`: one forward of all steps but the last, and one more of each when it is reversed.
    assert_eq!((&all["chosen"], &all["candidates"][0]["forward_evaluations"]), (&0.into(), &399.into()));
    let tight = chain("100KiB");
    let taken = chosen(&tight);
    assert!(
        bytes(taken) <= 100 << 10 && taken["fits"] == true && taken["slots"].as_u64() > Some(1),
        "{taken}"
    );
    assert!(taken["forward_evaluations"].as_u64() >= Some(399), "{taken}");
    assert_eq!(tight["candidates"][0]["fits"], false);
    let refused = run(&["plan", "--model", "lstm-char", "--budget", "1KiB"]);
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && errors.contains("hint: give --budget at least"), "{errors}");
}

#[test]
fn a_chain_trains_within_a_budget() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("run");
    let arguments = ["train", "--model", "gru-char", "--sequence", "50", "--batch", "2", "--steps", "1"];
    let out = out.to_str().expect("plain");
    let arguments: Vec<&str> =
        arguments.iter().chain(&["--budget", "30KiB", "--out", out]).copied().collect();
    let output = run(&arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.contains("slots"), "{errors}");
}

#[test]
fn bench_measures_auto_with_the_digest_of_stored() {
    let budget = bytes(named(&plan(&["--predict", "--budget", "1GiB"]), "pareprop")).to_string();
    let arguments =
        ["bench", "--strategy", "stored,auto", "--warmup", "0", "--steps", "1", "--format", "json"];
    let arguments: Vec<&str> =
        arguments.iter().chain(&MODEL).chain(&["--budget", &budget]).copied().collect();
    let results: Value = serde_json::from_str(&stdout(&arguments)).expect("JSON");
    let [stored, auto] = [0, 1].map(|run| &results["runs"][run]);
    assert_eq!(auto["strategy"], "auto");
    assert_eq!(auto["gradient_digest"], stored["gradient_digest"]);
    assert!(auto["activation_peak_bytes"].as_u64() <= budget.parse().ok());
}
