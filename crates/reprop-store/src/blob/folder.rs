//! Blobs as files.

use std::io;
use std::path::PathBuf;

use super::Blobs;

/// Blobs as files of a folder, say on a network share. On a disk of one's own, [`DiskConfig`](crate::DiskConfig) is
/// faster and goes past the page cache, which this does not.
#[derive(Debug, Clone)]
pub struct FolderBlobs {
    folder: PathBuf,
}

impl FolderBlobs {
    /// Files in `folder`, which is made if it is not there.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(folder: impl Into<PathBuf>) -> io::Result<Self> {
        let folder = folder.into();
        std::fs::create_dir_all(&folder)?;
        Ok(Self { folder })
    }
}

impl Blobs for FolderBlobs {
    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.folder.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, bytes)
    }

    fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        std::fs::read(self.folder.join(name))
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.folder.join(name))
    }
}
