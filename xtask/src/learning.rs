//! What archived trainings came to, as a table.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Folders of archived trainings of whole networks, under `bench/runs`.
pub const SETS: [&str; 2] = ["cifar10", "sotu"];
/// The same of trainings in stages.
pub const STAGED: [&str; 1] = ["petra-cifar10"];

/// A row for each training in the folders `sets`, from the metrics of its epochs.
pub fn table(runs: &Path, sets: &[&str]) -> Result<String, String> {
    let mut table = String::from("| training | data | epochs | test accuracy |\n|---|---|---:|---:|\n");
    for set in sets {
        for path in metrics_of(&runs.join(set))? {
            row(&mut table, set, &path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    Ok(table)
}

fn metrics_of(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    // Compared gradients lie beside what was tested, in files with one more dot.
    let is_test = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extension == "jsonl")
            && path.file_stem().is_some_and(|stem| !stem.to_string_lossy().contains('.'))
    };
    let mut metrics: Vec<PathBuf> = paths.filter(is_test).collect();
    metrics.sort();
    Ok(metrics)
}

fn row(table: &mut String, set: &str, path: &Path) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let lines = text.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>();
    let lines = lines.map_err(|error| error.to_string())?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let last = lines.last().ok_or("no epochs")?;
    let accuracy = last["test_accuracy"].as_f64().ok_or("no accuracy")?;
    let (epochs, data) = (lines.len(), set.trim_start_matches("petra-"));
    let loss = last["test_loss"].as_f64().map_or_else(String::new, |loss| format!(", loss {loss:.2}"));
    let _ = writeln!(table, "| {name} | {data} | {epochs} | {:.1} %{loss} |", 100.0 * accuracy);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_training_without_epochs_is_named_and_one_with_some_has_a_row() {
        let runs = tempfile::tempdir().expect("a folder");
        for set in SETS {
            fs::create_dir(runs.path().join(set)).expect("a folder");
        }
        let write = |name: &str, text: &str| fs::write(runs.path().join(name), text).expect("a file");
        write("sotu/small.jsonl", "");
        write("sotu/small.alignment.jsonl", "no epoch");
        let table = || table(runs.path(), &SETS);
        let refused = table().expect_err("there is nothing to tell");
        assert!(refused.contains("small.jsonl") && refused.contains("no epochs"), "{refused}");
        let line = |accuracy| format!(r#"{{"test_accuracy": {accuracy}, "test_loss": 3.014}}"#);
        write("sotu/small.jsonl", &[line(0.25), line(0.5)].join("\n"));
        let table = table().expect("a table");
        assert!(table.ends_with("| small | sotu | 2 | 50.0 %, loss 3.01 |\n"), "{table}");
    }
}
