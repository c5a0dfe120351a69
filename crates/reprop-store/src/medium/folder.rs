//! The disk folder: lock, segments and manifest together.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::lock::{Lock, gone};
use super::manifest::{self, Contents, Manifest, sync_folder};
use super::segments::{self, Segments, Shape};
use super::{Medium, Place, Point, Record};
use crate::buffer::padded;
use crate::files::FileLayer;
use crate::{Error, Result};

/// What a folder is opened with.
#[derive(Debug, Clone)]
pub(crate) struct FolderSettings {
    pub(crate) folder: PathBuf,
    pub(crate) layer: Arc<dyn FileLayer>,
    pub(crate) direct: bool,
    pub(crate) segment_bytes: u64,
    pub(crate) budget: u64,
    pub(crate) durable: bool,
    pub(crate) discard_stale: bool,
}

/// A folder in use by this process.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// Whether the folder was made by us, and is to go with its files.
    made: bool,
    lock: Lock,
    segments: Segments,
    manifest: Option<Mutex<Manifest>>,
    /// Segment files whose names are durable.
    named: Mutex<usize>,
}

/// What a killed run left.
pub(crate) struct Left {
    pub(crate) store: u64,
    pub(crate) records: Vec<Record>,
    pub(crate) meta: Vec<u8>,
    pub(crate) points: u64,
    pub(crate) torn: u64,
}

impl Folder {
    /// Starts anew.
    pub(crate) fn create(settings: &FolderSettings, store: u64) -> Result<Self> {
        let folder = &settings.folder;
        let failed = |action, error| Error::io(action, folder, None, error);
        let made = !folder.exists();
        std::fs::create_dir_all(folder).map_err(|error| failed("make", error))?;
        let lock = Lock::take(folder)?;
        if !settings.discard_stale
            && let Some(contents) = Contents::load(&manifest::path(folder))?
        {
            return Err(Error::Resumable { folder: folder.clone(), points: contents.points });
        }
        remove_files(folder).map_err(|error| failed("clean up", error))?;
        let manifest = if settings.durable {
            let new = Manifest::create(folder, settings.layer.clone(), store);
            Some(Mutex::new(new.map_err(|error| failed("start a manifest in", error))?))
        } else {
            None
        };
        let segments = Segments::new(shape(settings));
        Ok(Self { path: folder.clone(), made, lock, segments, manifest, named: Mutex::default() })
    }

    /// Goes on where a killed run was.
    pub(crate) fn open_existing(settings: &FolderSettings) -> Result<(Self, Left)> {
        let folder = &settings.folder;
        let failed = |action, error| Error::io(action, folder, None, error);
        let nothing = |reason: &str| Error::NothingToResume { folder: folder.clone(), reason: reason.into() };
        if !folder.is_dir() {
            return Err(nothing("there is no such folder"));
        }
        let lock = Lock::take(folder)?;
        let contents =
            Contents::load(&manifest::path(folder))?.ok_or_else(|| nothing("its manifest has no point"))?;
        let left = Left {
            store: contents.store,
            records: contents.records.values().cloned().collect(),
            meta: contents.meta.clone(),
            points: contents.points,
            torn: contents.torn,
        };
        let used = left.records.iter().map(|record| record.place);
        let segments =
            Segments::reopen(shape(settings), used).map_err(|error| failed("reopen segments in", error))?;
        let manifest = Manifest::resume(folder, settings.layer.clone(), contents)
            .map_err(|error| failed("reopen the manifest in", error))?;
        let named = Mutex::new(segments.count());
        let manifest = Some(Mutex::new(manifest));
        Ok((Self { path: folder.clone(), made: false, lock, segments, manifest, named }, left))
    }
}

fn shape(settings: &FolderSettings) -> Shape {
    Shape {
        folder: settings.folder.clone(),
        layer: settings.layer.clone(),
        direct: settings.direct,
        first: padded(settings.segment_bytes.min(segments::LARGEST) as usize) as u64,
        budget: settings.budget,
    }
}

/// Removes what a store makes, and nothing else.
fn remove_files(folder: &Path) -> io::Result<()> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        let segment = name
            .strip_prefix("segment-")
            .is_some_and(|n| n.len() >= 5 && n.bytes().all(|b| b.is_ascii_digit()));
        if segment || name == "manifest" || name == "manifest.new" {
            gone(std::fs::remove_file(folder.join(&*name)))?;
        }
    }
    Ok(())
}

impl Medium for Folder {
    fn padded(&self, length: usize) -> usize {
        padded(length)
    }

    fn make_room(&self, length: usize) -> io::Result<()> {
        self.segments.make_room(length as u64)
    }

    fn write(&self, _sequence: u64, frame: &[u8]) -> io::Result<Place> {
        self.segments.write(frame)
    }

    fn read(&self, place: Place, frame: &mut [u8]) -> io::Result<()> {
        self.segments.read(place, frame)
    }

    fn release(&self, place: Place) {
        self.segments.release(place);
    }

    fn path(&self, place: Option<Place>) -> PathBuf {
        place.map_or_else(|| self.path.clone(), |place| segments::path(&self.path, place.segment as usize))
    }

    fn commit(&self, point: Point) -> io::Result<()> {
        let Some(manifest) = &self.manifest else { return Err(io::ErrorKind::Unsupported.into()) };
        let touched: BTreeSet<u32> = point.added.iter().map(|record| record.place.segment).collect();
        self.segments.sync(touched.into_iter())?;
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let count = self.segments.count();
        if count > *named {
            sync_folder(&self.path)?;
            *named = count;
        }
        manifest.lock().unwrap_or_else(PoisonError::into_inner).point(point)
    }

    fn close(&self, keep: bool) -> io::Result<()> {
        self.segments.close();
        if keep {
            let whole = self
                .manifest
                .as_ref()
                .map_or(Ok(()), |manifest| manifest.lock().unwrap_or_else(PoisonError::into_inner).verify());
            return self.lock.release(true).and(whole);
        }
        let removed = remove_files(&self.path).and(self.lock.release(false));
        if self.made {
            // Somebody else's files may be in it by now; then it stays.
            let _not_empty = std::fs::remove_dir(&self.path);
        }
        removed
    }

    fn resumable(&self) -> bool {
        let points =
            |manifest: &Mutex<Manifest>| manifest.lock().unwrap_or_else(PoisonError::into_inner).points();
        self.manifest.as_ref().is_some_and(|manifest| points(manifest) > 0)
    }
}
