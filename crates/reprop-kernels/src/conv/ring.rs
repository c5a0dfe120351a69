//! The rows of an image that a strip of tiles needs, inside a border of zeros.
//!
//! A *frame* is an image with a border of one pixel and whole tiles: rows of `4 across + 2` pixels of `depth` channels
//! (whole vectors of every instruction set). Transforms then need no case for edges. No frame is ever whole: strip `s`, one
//! row of tiles, covers the six frame rows from `4 s` on, and a ring holds eight rows, so that the two which a strip shares
//! with the next stay where they are and the others are still in the first caches when they are used.

use super::Images;
use super::source::Source;
use super::tiles::{Tiling, frame_depth};
use crate::simd::Isa;
use crate::workspace::{Buffer, Workspace};

/// Rows of a ring.
const ROWS: usize = 8;

/// Some rows of one frame.
pub(super) struct Ring {
    pub(super) data: Buffer,
    images: Images,
    channels: usize,
}

impl Ring {
    /// A ring whose pixels outside the image are zero: only pixels inside are to be written.
    pub(super) fn bordered(images: Images, channels: usize, ws: &Workspace) -> Self {
        let mut ring = Self::blank(images, channels, ws);
        let (depth, row) = (ring.depth(), ring.row_len());
        if depth == channels {
            for row in ring.data.chunks_exact_mut(row) {
                row[..depth].fill(0.0);
                row[(images.width + 1) * depth..].fill(0.0);
            }
        } else {
            // Channels beyond the last are outside too.
            ring.data.fill(0.0);
        }
        ring
    }

    /// A ring that holds anything.
    pub(super) fn blank(images: Images, channels: usize, ws: &Workspace) -> Self {
        let row = Tiling::new(images).frame_width() * frame_depth(channels);
        Self { data: ws.take(ROWS * row), images, channels }
    }

    pub(super) fn depth(&self) -> usize {
        frame_depth(self.channels)
    }

    fn row_len(&self) -> usize {
        Tiling::new(self.images).frame_width() * self.depth()
    }

    /// Where a frame's row begins.
    fn at(&self, row: usize) -> usize {
        row % ROWS * self.row_len()
    }

    /// Where a strip's six rows begin.
    pub(super) fn rows(&self, strip: usize) -> [usize; 6] {
        std::array::from_fn(|i| self.at(4 * strip + i))
    }

    fn row_mut(&mut self, row: usize) -> &mut [f32] {
        let (at, len) = (self.at(row), self.row_len());
        &mut self.data[at..at + len]
    }

    /// Reads the rows of image `image` that the strips before `strip` did not have.
    pub(super) fn fill(&mut self, isa: Isa, source: &Source, image: usize, strip: usize) {
        let (depth, width, height) = (self.depth(), self.images.width, self.images.height);
        let first = if strip == 0 { 0 } else { 4 * strip + 2 };
        for row in first..4 * strip + 6 {
            let to = self.row_mut(row);
            if (1..=height).contains(&row) {
                source.fill(isa, image, row - 1, &mut to[depth..(width + 1) * depth], depth);
            } else {
                to.fill(0.0);
            }
        }
    }

    /// Zeros where a strip's tiles add to what no tile before them wrote: a tile overwrites the pixels which it does not share
    /// with those above and to its left.
    pub(super) fn clear(&mut self, strip: usize) {
        let depth = self.depth();
        if strip == 0 {
            self.row_mut(0).fill(0.0);
            self.row_mut(1).fill(0.0);
        }
        for row in 4 * strip + 2..4 * strip + 6 {
            self.row_mut(row)[..2 * depth].fill(0.0);
        }
    }

    /// The four rows that a strip's outputs are.
    pub(super) fn outputs(&self, strip: usize) -> Lines<'_> {
        self.lines(4 * strip, 4 * strip + 4)
    }

    /// The rows that no strip after `strip` adds to.
    pub(super) fn finished(&self, strip: usize) -> Lines<'_> {
        let last = strip + 1 == Tiling::new(self.images).down;
        self.lines((4 * strip).saturating_sub(1), 4 * strip + if last { 4 } else { 3 })
    }

    fn lines(&self, start: usize, end: usize) -> Lines<'_> {
        Lines { ring: self, start, end: end.min(self.images.height) }
    }
}

/// Finished rows of an image.
pub(crate) struct Lines<'a> {
    ring: &'a Ring,
    /// The first.
    pub start: usize,
    end: usize,
}

impl Lines<'_> {
    /// Distance between pixels.
    pub(crate) fn depth(&self) -> usize {
        self.ring.depth()
    }

    /// Each row's place in the image, and its pixels.
    pub(crate) fn each(&self) -> impl Iterator<Item = (usize, &[f32])> {
        (self.start..self.end).map(|y| (y, self.row(y)))
    }

    fn row(&self, y: usize) -> &[f32] {
        let (at, depth) = (self.ring.at(y + 1), self.depth());
        &self.ring.data[at + depth..at + (self.ring.images.width + 1) * depth]
    }
}
