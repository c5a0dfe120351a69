//! `schedule` prints counts, actions and pictures.

mod common;

use common::{run, stdout};
use serde_json::Value;

#[test]
fn counts_have_the_fields_that_scripts_rely_on() {
    let text =
        stdout(&["schedule", "--method", "revolve", "--steps", "100", "--slots", "10", "--format", "json"]);
    let report: Value = serde_json::from_str(&text).expect("schedule writes JSON");
    for (field, value) in [
        ("steps", 100),
        ("slots", 10),
        ("advances", 222),
        ("forward_evaluations", 322),
        ("snapshots_written", 55),
        ("disk_writes", 0),
        ("disk_reads", 0),
        ("peak_slots", 10),
    ] {
        assert_eq!(report[field], value, "{field}");
    }
    assert_eq!(report["method"], "revolve");
    assert_eq!(report["makespan"].as_f64(), Some(322.0));
    assert_eq!(report["lower_bound"].as_f64(), Some(322.0));
}

#[test]
fn a_billion_steps_are_counted_at_once_and_listed_one_by_one() {
    let text = stdout(&[
        "schedule",
        "--method",
        "revolve",
        "--steps",
        "1000000000",
        "--slots",
        "30",
        "--format",
        "json",
    ]);
    let report: Value = serde_json::from_str(&text).expect("schedule writes JSON");
    assert!(report["advances"].as_u64().is_some_and(|advances| advances > 1_000_000_000));
}

#[test]
fn actions_are_a_line_each_and_pictures_are_whole() {
    let base = ["schedule", "--method", "revolve", "--steps", "10", "--slots", "3"];
    let with = |extra: &[&str]| stdout(&[&base[..], extra].concat());
    let actions = with(&["--actions"]);
    let json = with(&["--actions", "--format", "json"]);
    assert!(actions.lines().count() > 20 && actions.lines().count() == json.lines().count());
    assert!(json.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    assert!(with(&["--draw", "svg"]).trim_end().ends_with("</svg>"));
    assert!(with(&["--draw", "text"]).lines().count() > 8);
}

#[test]
fn what_cannot_be_planned_is_told_with_exit_codes() {
    for (arguments, code, part) in [
        (vec!["--method", "nope", "--steps", "3"], 2, "nope"),
        (vec!["--method", "revolve", "--steps", "3"], 2, "slots"),
        (vec!["--method", "revolve", "--steps", "0", "--slots", "2"], 2, "step"),
        (vec!["--method", "revolve", "--steps", "3", "--slots", "0"], 2, "slot"),
        (vec!["--method", "async", "--steps", "3", "--slots", "2"], 2, "--write"),
        (vec!["--method", "async", "--steps", "3", "--slots", "2", "--write", "nan"], 2, "NaN"),
    ] {
        let output = run(&[&["schedule"], &arguments[..]].concat());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
        assert!(errors.contains(part) && !errors.contains("panicked"), "{arguments:?}: {errors}");
    }
}
