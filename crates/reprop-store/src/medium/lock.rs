//! One run per folder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Error, Result};

/// The lock of a folder: a locked file with the number of the process in it. The system frees it when the process ends,
/// however it ends. When it is let go, the file goes with it.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    path: PathBuf,
    leave: AtomicBool,
}

impl Lock {
    /// Takes the lock, or tells who has it.
    pub(super) fn take(folder: &Path) -> Result<Self> {
        let path = folder.join("lock");
        loop {
            let failed = |action, error| Error::io(action, &path, None, error);
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .map_err(|error| failed("open", error))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let mut text = String::new();
                    let pid = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
                    return Err(Error::Locked { folder: folder.to_path_buf(), pid });
                }
                Err(TryLockError::Error(error)) => return Err(failed("lock", error)),
            }
            // The holder before us may have removed the file between our opening and our locking it; somebody else
            // could then lock a new one.
            let ours = file.metadata().map_err(|error| failed("look at", error))?;
            if path.metadata().is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
                let text = format!("{}\n", std::process::id());
                file.set_len(0)
                    .and_then(|()| file.write_all(text.as_bytes()))
                    .map_err(|error| failed("write", error))?;
                return Ok(Self { file, path, leave: AtomicBool::new(false) });
            }
        }
    }

    /// Lets go of the folder now, and of the file too if `leave` is not set.
    pub(super) fn release(&self, leave: bool) -> std::io::Result<()> {
        if !leave {
            gone(std::fs::remove_file(&self.path))?;
        }
        // From here on the file may be somebody else's.
        self.leave.store(true, Ordering::Relaxed);
        self.file.unlock()
    }
}

/// A folder that could not be opened after all.
impl Drop for Lock {
    fn drop(&mut self) {
        if !self.leave.load(Ordering::Relaxed) {
            // The error that led here is the one to tell.
            let _stays = std::fs::remove_file(&self.path);
        }
    }
}

/// What is not there needs no removing.
pub(super) fn gone(removed: std::io::Result<()>) -> std::io::Result<()> {
    match removed {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
