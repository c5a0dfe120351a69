//! Records of a pipeline: a folder for each batch, a file for each stage, and a file that names the last whole one.
//!
//! Stages write their parts as they reach the batch. When all have, the position is written, and older parts go. A run
//! that is killed at any moment leaves the record that the position names.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::whole_file::write_whole;

/// The last batch that every stage has done and saved.
#[derive(Serialize, Deserialize)]
struct Position {
    batch: u64,
}

fn records(run: &Path) -> PathBuf {
    run.join("pipeline")
}

fn position_file(run: &Path) -> PathBuf {
    records(run).join("position.json")
}

fn part(run: &Path, stage: usize, batch: u64) -> PathBuf {
    records(run).join(format!("batch-{batch}")).join(format!("stage-{stage}.record"))
}

/// The batch of the last whole record.
pub fn position(run: &Path) -> Result<Option<u64>, Failure> {
    let path = position_file(run);
    if !path.exists() {
        return Ok(None);
    }
    let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let position: Position =
        serde_json::from_slice(&text).with_context(|| format!("{} is damaged", path.display()))?;
    Ok(Some(position.batch))
}

/// Saves one stage's part.
pub fn save(run: &Path, stage: usize, batch: u64, record: &[u8]) -> Result<(), Failure> {
    let path = part(run, stage, batch);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    write_whole(&path, record)
}

/// All parts of the record after `batch` are there: it is the one to go on from.
pub fn commit(run: &Path, batch: u64) -> Result<(), Failure> {
    write_whole(&position_file(run), &serde_json::to_vec(&Position { batch })?)?;
    for entry in fs::read_dir(records(run))? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("batch-")).and_then(|n| n.parse().ok());
        if number.is_some_and(|number: u64| number < batch) {
            fs::remove_dir_all(entry.path())
                .with_context(|| format!("cannot remove {}", entry.path().display()))?;
        }
    }
    Ok(())
}

/// One stage's part of the last whole record.
pub fn load(run: &Path, stage: usize) -> Result<Option<Vec<u8>>, Failure> {
    let Some(batch) = position(run)? else { return Ok(None) };
    let path = part(run, stage, batch);
    Ok(Some(fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?))
}
