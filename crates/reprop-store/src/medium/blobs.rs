//! One blob for each frame.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Medium, Place, Point};
use crate::Blobs;

/// Frames as blobs, named by the store and the number of the write.
pub(crate) struct BlobMedium {
    blobs: Arc<dyn Blobs>,
    prefix: String,
    names: Mutex<Names>,
}

#[derive(Debug, Default)]
struct Names {
    live: BTreeSet<u64>,
    /// Released, not deleted yet: deleting takes long, and is done by a writer before its next write.
    trash: Vec<u64>,
    /// The first deletion that failed, for `close` to tell.
    failed: Option<io::Error>,
}

impl BlobMedium {
    pub(crate) fn new(blobs: Arc<dyn Blobs>, prefix: String) -> Self {
        Self { blobs, prefix, names: Mutex::default() }
    }

    /// The lists are whole at every moment, so a poisoned lock is as good.
    fn lock(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn name(&self, sequence: u64) -> String {
        format!("{}-{sequence:016x}", self.prefix)
    }

    fn empty_trash(&self) {
        let trash = std::mem::take(&mut self.lock().trash);
        for sequence in trash {
            match self.blobs.delete(&self.name(sequence)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    self.lock().failed.get_or_insert(error);
                }
                _ => {}
            }
        }
    }
}

impl Medium for BlobMedium {
    fn padded(&self, length: usize) -> usize {
        length
    }

    fn write(&self, sequence: u64, frame: &[u8]) -> io::Result<Place> {
        self.empty_trash();
        let written = self.blobs.put(&self.name(sequence), frame);
        let mut names = self.lock();
        if let Err(error) = written {
            // Part of it may be there.
            names.trash.push(sequence);
            return Err(error);
        }
        names.live.insert(sequence);
        Ok(Place { segment: 0, offset: sequence, span: frame.len() as u64 })
    }

    fn read(&self, place: Place, frame: &mut [u8]) -> io::Result<()> {
        let bytes = self.blobs.get(&self.name(place.offset))?;
        if bytes.len() != frame.len() {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("it has {} bytes, {} are expected", bytes.len(), frame.len()),
            ));
        }
        frame.copy_from_slice(&bytes);
        Ok(())
    }

    fn release(&self, place: Place) {
        let mut names = self.lock();
        names.live.remove(&place.offset);
        names.trash.push(place.offset);
    }

    fn path(&self, place: Option<Place>) -> PathBuf {
        place.map_or_else(|| self.prefix.clone(), |place| self.name(place.offset)).into()
    }

    fn commit(&self, _point: Point) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn resumable(&self) -> bool {
        false
    }

    fn close(&self, _keep: bool) -> io::Result<()> {
        let mut names = self.lock();
        let live = std::mem::take(&mut names.live);
        names.trash.extend(live);
        drop(names);
        self.empty_trash();
        self.lock().failed.take().map_or(Ok(()), Err)
    }
}
