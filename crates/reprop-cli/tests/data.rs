//! Data sets: where they are looked for, and what is said when they are not there or damaged. Nothing is fetched here.

mod common;

use std::fs;
use std::path::Path;

use common::{command, run, stdout};
use serde_json::Value;

/// What the program says on stdout and stderr, and its exit code, with data sets under `folder`.
fn run_in(folder: &Path, arguments: &[&str]) -> (String, String, Option<i32>) {
    let output = command(arguments).env("REPROP_DATA", folder).output().expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

#[test]
fn the_list_tells_which_sets_are_here() {
    let folder = tempfile::tempdir().expect("a folder");
    let (text, _, code) = run_in(folder.path(), &["data", "list", "--format", "json"]);
    assert_eq!(code, Some(0));
    let sets: Value = serde_json::from_str(&text).expect("JSON");
    let present = |name: &str| {
        let set = sets.as_array().and_then(|sets| sets.iter().find(|set| set["name"] == name));
        set.expect("the set is listed")["present"].as_bool()
    };
    assert_eq!((present("digits"), present("cifar10")), (Some(true), Some(false)));
}

#[test]
fn a_set_that_is_not_here_is_an_error_with_a_way_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_, errors, code) =
        run_in(folder.path(), &["train", "--model", "rev-resnet-18", "--data", "cifar10"]);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("data_batch_1.bin") && errors.contains("hint: bring it by"), "{errors}");
}

#[test]
fn a_source_that_lacks_or_cuts_files_is_refused_and_nothing_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("source");
    fs::create_dir(&source).expect("a folder");
    let get = ["data", "get", "cifar10", "--from", source.to_str().expect("a plain path")];
    let (_, errors, code) = run_in(folder.path(), &get);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("data_batch_1.bin"), "{errors}");
    fs::write(source.join("data_batch_1.bin"), [0; 100]).expect("a file");
    let (_, errors, code) = run_in(folder.path(), &get);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("30730000") && errors.contains("100"), "{errors}");
    assert!(!folder.path().join("cifar10").exists());
}

#[test]
fn sets_and_recipes_that_do_not_exist_are_wrong_usage() {
    assert!(stdout(&["data", "list"]).contains("cifar10"));
    for (arguments, parts) in [
        (vec!["data", "get", "nope"], ["`nope`", "cifar10"]),
        (vec!["data", "get", "digits"], ["digits", "embedded"]),
        (vec!["train", "--recipe", "nope"], ["`nope`", "petra-cifar10"]),
    ] {
        let output = run(&arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        assert!(parts.iter().all(|part| errors.contains(part)), "{arguments:?}: {errors}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}
