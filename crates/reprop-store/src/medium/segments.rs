//! Segment files: few, preallocated, their parts used again and again.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Place;
use super::extents::Extents;
use crate::buffer::ALIGNMENT;
use crate::files::{FileLayer, LayerFile, read_all, write_all};

/// Segments double in size up to this, so that a terabyte is a few hundred open files.
pub(super) const LARGEST: u64 = 4 << 30;

/// How segments are made.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub(super) folder: PathBuf,
    pub(super) layer: Arc<dyn FileLayer>,
    pub(super) direct: bool,
    /// Length of the first segment.
    pub(super) first: u64,
    /// Bytes that all segments may take.
    pub(super) budget: u64,
}

#[derive(Debug)]
struct Segment {
    file: Arc<dyn LayerFile>,
    length: u64,
    extents: Extents,
}

/// The segment files of a folder.
#[derive(Debug)]
pub(super) struct Segments {
    shape: Shape,
    list: Mutex<Vec<Segment>>,
}

/// The file of segment `index`.
pub(super) fn path(folder: &Path, index: usize) -> PathBuf {
    folder.join(format!("segment-{index:05}"))
}

impl Segments {
    pub(super) fn new(shape: Shape) -> Self {
        Self { shape, list: Mutex::default() }
    }

    /// Opens the segments a manifest speaks of, and takes the places in use.
    pub(super) fn reopen(shape: Shape, used: impl Iterator<Item = Place>) -> io::Result<Self> {
        let segments = Self::new(shape);
        {
            let mut list = segments.lock();
            for place in used {
                while list.len() <= place.segment as usize {
                    let name = path(&segments.shape.folder, list.len());
                    // Opening would make it.
                    name.metadata().map_err(|error| {
                        io::Error::new(error.kind(), format!("{}: {error}", name.display()))
                    })?;
                    let file = segments.open(list.len())?;
                    let length = file.length()? / ALIGNMENT as u64 * ALIGNMENT as u64;
                    list.push(Segment { file, length, extents: Extents::new(length) });
                }
                if !list[place.segment as usize].extents.claim(place.offset, place.span) {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        format!(
                            "{} is too short for, or has something else at, bytes {} to {}",
                            path(&segments.shape.folder, place.segment as usize).display(),
                            place.offset,
                            place.offset.saturating_add(place.span)
                        ),
                    ));
                }
            }
        }
        Ok(segments)
    }

    /// A segment is whole at every moment, so a poisoned lock is as good.
    fn lock(&self) -> MutexGuard<'_, Vec<Segment>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, index: usize) -> io::Result<Arc<dyn LayerFile>> {
        Ok(Arc::from(self.shape.layer.open(&path(&self.shape.folder, index), self.shape.direct)?))
    }

    /// Finds room, in a new segment if need be.
    fn take(&self, span: u64) -> io::Result<Place> {
        let mut list = self.lock();
        for (index, segment) in list.iter_mut().enumerate() {
            if let Some(offset) = segment.extents.take(span) {
                return Ok(Place { segment: index as u32, offset, span });
            }
        }
        let index = list.len();
        let mut segment = self.grow(&list, span)?;
        let offset = segment.extents.take(span).unwrap_or(0);
        list.push(segment);
        Ok(Place { segment: index as u32, offset, span })
    }

    /// Makes a new segment if no other has room.
    pub(super) fn make_room(&self, span: u64) -> io::Result<()> {
        let mut list = self.lock();
        if !list.iter().any(|segment| segment.extents.fits(span)) {
            let segment = self.grow(&list, span)?;
            list.push(segment);
        }
        Ok(())
    }

    /// A new segment: twice the last, or as much as there is room for, but not less than `span`.
    fn grow(&self, list: &[Segment], span: u64) -> io::Result<Segment> {
        let taken: u64 = list.iter().map(|segment| segment.length).sum();
        let room = self.shape.budget.saturating_sub(taken) / ALIGNMENT as u64 * ALIGNMENT as u64;
        if room < span {
            let budget = self.shape.budget;
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                format!("{taken} of the {budget} bytes allowed are taken by segments"),
            ));
        }
        let wanted = list.last().map_or(self.shape.first, |last| (last.length * 2).min(LARGEST));
        let length = wanted.max(span).min(room);
        let file = self.open(list.len())?;
        match file.allocate(length) {
            Ok(()) => Ok(Segment { file, length, extents: Extents::new(length) }),
            Err(error) if full(&error) && length > span => {
                file.truncate(0)?;
                file.allocate(span)?;
                Ok(Segment { file, length: span, extents: Extents::new(span) })
            }
            Err(error) => Err(error),
        }
    }

    /// Writes a frame of whole blocks.
    pub(super) fn write(&self, frame: &[u8]) -> io::Result<Place> {
        let place = self.take(frame.len() as u64)?;
        let file = self.file(place.segment);
        let written =
            write_all(&*file, frame, place.offset).and_then(|()| file.write_back(place.offset, place.span));
        // Without room the place is good for a later try. After any other error it may be bad ground: never again.
        if written.as_ref().is_err_and(full) {
            self.release(place);
        }
        written.map(|()| place)
    }

    /// Reads it back.
    pub(super) fn read(&self, place: Place, frame: &mut [u8]) -> io::Result<()> {
        let file = self.file(place.segment);
        read_all(&*file, frame, place.offset)?;
        file.forget(place.offset, place.span)
    }

    fn file(&self, index: u32) -> Arc<dyn LayerFile> {
        self.lock()[index as usize].file.clone()
    }

    pub(super) fn release(&self, place: Place) {
        self.lock()[place.segment as usize].extents.give(place.offset, place.span);
    }

    /// Makes what was written durable.
    pub(super) fn sync(&self, indices: impl Iterator<Item = u32>) -> io::Result<()> {
        for index in indices {
            self.file(index).sync()?;
        }
        Ok(())
    }

    /// How many files there are.
    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }

    /// Closes the files.
    pub(super) fn close(&self) {
        self.lock().clear();
    }
}

/// Whether the system says that there is no room.
pub(crate) fn full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}
