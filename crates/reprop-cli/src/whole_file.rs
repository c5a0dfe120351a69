//! Files that are written whole or not at all.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::failure::Failure;

/// Writes a file so that a reader sees the old one or the new one, never a part: into a file beside it, then to disk,
/// then in its place.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    let beside = PathBuf::from(beside);
    let write = || -> std::io::Result<()> {
        let mut file = fs::File::create(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    write().with_context(|| format!("cannot write {} ({} bytes)", path.display(), bytes.len())).map_err(
        |error| {
            // What cannot be written whole is not left behind in part.
            let _ = fs::remove_file(&beside);
            Failure::from(error)
        },
    )
}
