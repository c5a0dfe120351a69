//! The real file system.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::{FileLayer, LayerFile};
use crate::buffer::{ALIGNMENT, AlignedBuffer};

/// The files of the operating system. On Linux, direct I/O is used wherever the file system takes it.
///
/// ```
/// use reprop_store::{FileLayer, SystemFiles};
///
/// let folder = tempfile::tempdir()?;
/// let file = SystemFiles.open(&folder.path().join("a"), false)?;
/// assert_eq!(file.write_at(b"bytes", 0)?, 5);
/// assert_eq!(file.length()?, 5);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemFiles;

impl FileLayer for SystemFiles {
    fn open(&self, path: &Path, direct: bool) -> io::Result<Box<dyn LayerFile>> {
        if direct && let Some(file) = open_direct(path) {
            return Ok(Box::new(SystemFile { file, alignment: ALIGNMENT }));
        }
        let file = options().open(path)?;
        only_what_is_asked(&file)?;
        Ok(Box::new(SystemFile { file, alignment: 1 }))
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options
}

/// Opens past the page cache, and reads a block to see whether the file system means it: some accept the flag and
/// refuse the transfer. `None` has a second, ordinary try tell what is wrong.
#[cfg(target_os = "linux")]
fn open_direct(path: &Path) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt;

    let flags = rustix::fs::OFlags::DIRECT.bits();
    let file = options().custom_flags(i32::try_from(flags).ok()?).open(path).ok()?;
    file.read_at(AlignedBuffer::default().first(ALIGNMENT), 0).ok()?;
    Some(file)
}

#[cfg(not(target_os = "linux"))]
fn open_direct(_path: &Path) -> Option<File> {
    None
}

/// The system's own reading ahead would leave in the page cache what nobody lets go of: a frame's neighbours.
#[cfg(target_os = "linux")]
fn only_what_is_asked(file: &File) -> io::Result<()> {
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::Random).map_err(io::Error::from)
}

#[cfg(not(target_os = "linux"))]
fn only_what_is_asked(_file: &File) -> io::Result<()> {
    Ok(())
}

#[derive(Debug)]
struct SystemFile {
    file: File,
    alignment: usize,
}

impl SystemFile {
    fn direct(&self) -> bool {
        self.alignment > 1
    }
}

impl LayerFile for SystemFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(bytes, offset)
    }

    #[cfg(target_os = "linux")]
    fn allocate(&self, length: u64) -> io::Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;

        match fallocate(&self.file, FallocateFlags::empty(), 0, length) {
            Ok(()) => Ok(()),
            // File systems that cannot reserve: the file is as long, and room is found or not as it is written.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.file.set_len(length),
            Err(error) => Err(error.into()),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn allocate(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()?;
        if self.file.metadata()?.nlink() == 0 {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the file has been removed from its folder"));
        }
        Ok(())
    }

    fn write_back(&self, offset: u64, length: u64) -> io::Result<()> {
        if self.direct() {
            return Ok(());
        }
        self.file.sync_data()?;
        self.forget(offset, length)
    }

    #[cfg(target_os = "linux")]
    fn forget(&self, offset: u64, length: u64) -> io::Result<()> {
        use rustix::fs::{Advice, fadvise};

        if !self.direct() {
            fadvise(&self.file, offset, std::num::NonZeroU64::new(length), Advice::DontNeed)?;
        }
        Ok(())
    }

    #[cfg(not(target_os = "linux"))]
    fn forget(&self, _offset: u64, _length: u64) -> io::Result<()> {
        Ok(())
    }

    fn alignment(&self) -> usize {
        self.alignment
    }
}
