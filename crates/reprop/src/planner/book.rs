//! Costs that were measured before, in a small file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Costs;

/// The most entries of a file; the oldest go first.
const MOST_ENTRIES: usize = 64;

/// Measured costs by [key](crate::cost_key), in a JSON file. A file that is missing or damaged is an empty one: costs are
/// then measured anew.
///
/// ```
/// use reprop::CostBook;
///
/// let book = CostBook::open(std::env::temp_dir().join("no such file.json"));
/// assert!(book.get("some key").is_none());
/// ```
#[derive(Clone, Debug)]
pub struct CostBook {
    path: PathBuf,
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    key: String,
    costs: Costs,
}

impl CostBook {
    /// What the file at `path` holds.
    pub fn open(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let read = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Self { path, entries: read.unwrap_or_default() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The costs under `key`.
    pub fn get(&self, key: &str) -> Option<&Costs> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.costs)
    }

    /// Keeps costs under `key`, and writes the file: whole, or not at all.
    ///
    /// # Errors
    ///
    /// The file or its folder cannot be written.
    pub fn put(&mut self, key: impl Into<String>, costs: Costs) -> io::Result<()> {
        let key = key.into();
        self.entries.retain(|entry| entry.key != key);
        self.entries.push(Entry { key, costs });
        let surplus = self.entries.len().saturating_sub(MOST_ENTRIES);
        self.entries.drain(..surplus);
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        // A name of this process's own, so that two that write at once do not mix.
        let beside = self.path.with_extension(format!("{}.part", std::process::id()));
        let written = fs::write(&beside, serde_json::to_vec(&self.entries)?)
            .and_then(|()| fs::rename(&beside, &self.path));
        if written.is_err() {
            let _ = fs::remove_file(&beside);
        }
        written
    }
}
