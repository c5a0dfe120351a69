//! A file system that fails on demand, and a slow one: for tests of programs that rely on a store.
//!
//! ```
//! use std::sync::Arc;
//! use reprop_store::testing::{EIO, FaultyFiles};
//! use reprop_store::{DiskConfig, Dtype, Key, Payload, Store};
//!
//! let folder = tempfile::tempdir()?;
//! let files = FaultyFiles::new();
//! let store = DiskConfig::new(folder.path()).layer(Arc::new(files.clone())).create()?;
//! files.set(|faults| faults.write_error = Some((0, EIO)));
//! let ticket = store.put(Key::new(0, 7), Payload::new(Dtype::U8, vec![1; 100]))?;
//! assert!(ticket.wait().is_err());
//! assert!(store.finish().unwrap_err().to_string().contains("step 7"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::files::{FileLayer, LayerFile, SystemFiles};

/// "Input/output error".
pub const EIO: i32 = 5;
/// "No space left on device".
pub const ENOSPC: i32 = 28;

/// What goes wrong from now on, in files whose names start with `file`. Nothing by default.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// The start of the names of the files meant: `segment`, `manifest`, or nothing for all.
    pub file: &'static str,
    /// The most bytes that one transfer moves.
    pub short: Option<usize>,
    /// After so many writes, every write fails with this error of the system.
    pub write_error: Option<(u64, i32)>,
    /// After so many reads, every read fails with this error of the system.
    pub read_error: Option<(u64, i32)>,
    /// Making a write durable fails with this error of the system.
    pub sync_error: Option<i32>,
    /// Bytes that can be reserved or written before the disk is full.
    pub room: Option<u64>,
    /// The next write turns this bit over.
    pub flip_written: Option<u64>,
    /// The next read turns this bit over.
    pub flip_read: Option<u64>,
    /// The next write panics.
    pub panic: bool,
    /// Writes wait for as long as this is set.
    pub hold_writes: bool,
    /// Reads wait for as long as this is set.
    pub hold_reads: bool,
    /// How fast the disk is, reads and writes together.
    pub bytes_per_second: Option<f64>,
}

/// The real file system, with [`Faults`]. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct FaultyFiles {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    faults: Mutex<Faults>,
    changed: Condvar,
    /// A slow disk does one thing at a time.
    disk: Mutex<()>,
}

impl FaultyFiles {
    /// Without a fault yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Changes what goes wrong; the faults that are left are in `Faults`.
    pub fn set(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.shared.lock());
        self.shared.changed.notify_all();
    }

    /// Takes all faults away.
    pub fn heal(&self) {
        self.set(|faults| *faults = Faults::default());
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The faults, once they hold back this kind of transfer no longer.
    fn wait(&self, name: &str, held: fn(&Faults) -> bool) -> MutexGuard<'_, Faults> {
        let faults = self.lock();
        let holds = |faults: &mut Faults| name.starts_with(faults.file) && held(faults);
        self.changed.wait_while(faults, holds).unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes as long as the slow disk would.
    fn pace(&self, bytes: usize, rate: Option<f64>) {
        if let Some(rate) = rate {
            let _one_at_a_time = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
            std::thread::sleep(Duration::from_secs_f64(bytes as f64 / rate));
        }
    }
}

impl FileLayer for FaultyFiles {
    fn open(&self, path: &Path, direct: bool) -> io::Result<Box<dyn LayerFile>> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let file = SystemFiles.open(path, direct)?;
        Ok(Box::new(FaultyFile { name, file, shared: self.shared.clone() }))
    }
}

#[derive(Debug)]
struct FaultyFile {
    name: String,
    file: Box<dyn LayerFile>,
    shared: Arc<Shared>,
}

impl FaultyFile {
    /// Direct I/O moves whole blocks, however few bytes it admits to.
    fn whole(&self, most: usize, length: usize) -> usize {
        most.next_multiple_of(self.file.alignment()).min(length)
    }
}

/// Counts down to an error, and stays at it.
fn due(error: &mut Option<(u64, i32)>) -> io::Result<()> {
    match error {
        Some((0, errno)) => Err(io::Error::from_raw_os_error(*errno)),
        Some((left, _)) => {
            *left -= 1;
            Ok(())
        }
        None => Ok(()),
    }
}

fn flip(bytes: &mut [u8], bit: u64) {
    if let Some(byte) = bytes.get_mut((bit / 8) as usize) {
        *byte ^= 1 << (bit % 8);
    }
}

impl LayerFile for FaultyFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut faults = self.shared.wait(&self.name, |faults| faults.hold_writes);
        if !self.name.starts_with(faults.file) {
            drop(faults);
            return self.file.write_at(bytes, offset);
        }
        due(&mut faults.write_error)?;
        let mut most = faults.short.unwrap_or(usize::MAX).min(bytes.len());
        if let Some(room) = &mut faults.room {
            most = most.min(*room as usize / self.file.alignment() * self.file.alignment());
            if most == 0 {
                return Err(io::Error::from_raw_os_error(ENOSPC));
            }
            *room -= most as u64;
        }
        let (flipped, rate, panic) = (faults.flip_written.take(), faults.bytes_per_second, faults.panic);
        faults.panic = false;
        drop(faults);
        assert!(!panic, "the panic asked for");
        self.shared.pace(most, rate);
        let bytes = &bytes[..self.whole(most, bytes.len())];
        let written = if let Some(bit) = flipped {
            // A copy, at an address that direct I/O takes.
            let mut buffer = crate::buffer::AlignedBuffer::default();
            let copy = buffer.first(bytes.len());
            copy.copy_from_slice(bytes);
            flip(copy, bit);
            self.file.write_at(copy, offset)
        } else {
            self.file.write_at(bytes, offset)
        };
        written.map(|written| written.min(most))
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut faults = self.shared.wait(&self.name, |faults| faults.hold_reads);
        if !self.name.starts_with(faults.file) {
            drop(faults);
            return self.file.read_at(bytes, offset);
        }
        due(&mut faults.read_error)?;
        let most = faults.short.unwrap_or(usize::MAX).min(bytes.len());
        let (flipped, rate) = (faults.flip_read.take(), faults.bytes_per_second);
        drop(faults);
        self.shared.pace(most, rate);
        let end = self.whole(most, bytes.len());
        let got = self.file.read_at(&mut bytes[..end], offset)?.min(most);
        if let Some(bit) = flipped {
            flip(&mut bytes[..got], bit);
        }
        Ok(got)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        let faults = self.shared.lock();
        if self.name.starts_with(faults.file) && faults.room.is_some_and(|room| room < length) {
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        drop(faults);
        self.file.allocate(length)
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.file.truncate(length)
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn sync(&self) -> io::Result<()> {
        let faults = self.shared.lock();
        match faults.sync_error {
            Some(errno) if self.name.starts_with(faults.file) => Err(io::Error::from_raw_os_error(errno)),
            _ => {
                drop(faults);
                self.file.sync()
            }
        }
    }

    fn write_back(&self, offset: u64, length: u64) -> io::Result<()> {
        self.file.write_back(offset, length)
    }

    fn forget(&self, offset: u64, length: u64) -> io::Result<()> {
        self.file.forget(offset, length)
    }

    fn alignment(&self) -> usize {
        self.file.alignment()
    }
}
