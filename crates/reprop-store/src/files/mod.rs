//! The few things the disk tier asks of a file system, behind a trait so that tests can make it fail.

mod system;

use std::fmt::Debug;
use std::io;
use std::path::Path;

pub use system::SystemFiles;

/// A file system, or something that stands in for one.
pub trait FileLayer: Debug + Send + Sync {
    /// Opens a file for reading and writing, and makes it if there is none. With `direct`, past the page cache if the
    /// file system can.
    ///
    /// # Errors
    /// What the system says.
    fn open(&self, path: &Path, direct: bool) -> io::Result<Box<dyn LayerFile>>;
}

/// An open file.
pub trait LayerFile: Debug + Send + Sync {
    /// Writes some of `bytes` at `offset` and tells how many, as `pwrite` does.
    ///
    /// # Errors
    /// What the system says.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Reads some bytes at `offset` and tells how many, 0 at the end of the file, as `pread` does.
    ///
    /// # Errors
    /// What the system says.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Reserves room for `length` bytes from the start.
    ///
    /// # Errors
    /// [`io::ErrorKind::StorageFull`] if there is no room; what else the system says.
    fn allocate(&self, length: u64) -> io::Result<()>;

    /// Cuts the file off.
    ///
    /// # Errors
    /// What the system says.
    fn truncate(&self, length: u64) -> io::Result<()>;

    /// Length in bytes.
    ///
    /// # Errors
    /// What the system says.
    fn length(&self) -> io::Result<u64>;

    /// Returns when all that was written would survive a loss of power.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::NotFound`] if the file has been removed, since then nothing survives.
    fn sync(&self) -> io::Result<()>;

    /// Returns when the bytes written there have left the page cache for the disk, if they ever were in it. Then neither
    /// memory nor time that a snapshot costs is hidden.
    ///
    /// # Errors
    /// What the system says.
    fn write_back(&self, offset: u64, length: u64) -> io::Result<()>;

    /// Lets go of what a read left in the page cache.
    ///
    /// # Errors
    /// What the system says.
    fn forget(&self, offset: u64, length: u64) -> io::Result<()>;

    /// What offsets and lengths have to be multiples of: 1, or the block of direct I/O.
    fn alignment(&self) -> usize;
}

/// Writes all of `bytes`, however few the file takes at a time.
pub(crate) fn write_all(file: &dyn LayerFile, bytes: &[u8], offset: u64) -> io::Result<()> {
    let (mut done, mut stuck) = (0, 0);
    while done < bytes.len() {
        let taken = match file.write_at(&bytes[done..], offset + done as u64) {
            Ok(taken) => taken,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let next = resume(file, done + taken, bytes.len());
        stuck = if next > done { 0 } else { stuck + 1 };
        if taken == 0 || stuck == PATIENCE {
            return Err(io::Error::new(
                io::ErrorKind::WriteZero,
                format!("the file takes {done} of {} bytes and no more", bytes.len()),
            ));
        }
        done = next;
    }
    Ok(())
}

/// Fills all of `bytes`; a file that ends before is an error with both lengths.
pub(crate) fn read_all(file: &dyn LayerFile, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    let (mut done, mut stuck) = (0, 0);
    while done < bytes.len() {
        let got = match file.read_at(&mut bytes[done..], offset + done as u64) {
            Ok(got) => got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let next = resume(file, done + got, bytes.len());
        stuck = if next > done { 0 } else { stuck + 1 };
        if got == 0 || stuck == PATIENCE {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("the file ends {done} bytes after {offset}, {} are expected", bytes.len()),
            ));
        }
        done = next;
    }
    Ok(())
}

/// Transfers of less than a block in a row before direct I/O gives up.
const PATIENCE: u32 = 8;

/// Where to go on after `done` of `all` bytes. Direct I/O cannot start inside a block: it does that block again.
fn resume(file: &dyn LayerFile, done: usize, all: usize) -> usize {
    if done == all { all } else { done / file.alignment() * file.alignment() }
}
