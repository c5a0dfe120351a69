//! Where frames end up: the folder of segment files, or a store of blobs.

pub(crate) mod blobs;
mod extents;
pub(crate) mod folder;
mod lock;
mod manifest;
mod segments;

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub(crate) use manifest::{Point, Record};
pub(crate) use segments::full;

/// Where a frame lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) segment: u32,
    pub(crate) offset: u64,
    /// Bytes taken on the medium.
    pub(crate) span: u64,
}

/// What the engine needs of a medium. All calls but `release` may take long, and come without the engine's lock.
pub(crate) trait Medium: Send + Sync {
    /// Bytes a frame of `length` takes: the engine fills up with zeros.
    fn padded(&self, length: usize) -> usize;

    /// Makes room for a frame of a padded length, where that takes longer than a write alone.
    fn make_room(&self, length: usize) -> io::Result<()> {
        let _ = length;
        Ok(())
    }

    /// Writes a frame of a padded length somewhere.
    fn write(&self, sequence: u64, frame: &[u8]) -> io::Result<Place>;

    /// Reads back a frame of the same padded length.
    fn read(&self, place: Place, frame: &mut [u8]) -> io::Result<()>;

    /// Takes a place back. Quick: what takes long is put off.
    fn release(&self, place: Place);

    /// The file, for messages.
    fn path(&self, place: Option<Place>) -> PathBuf;

    /// Makes a point durable, after the frames it names.
    fn commit(&self, point: Point) -> io::Result<()>;

    /// Whether there is a durable point.
    fn resumable(&self) -> bool;

    /// Ends: removes what was made, or leaves it behind.
    fn close(&self, keep: bool) -> io::Result<()>;
}
