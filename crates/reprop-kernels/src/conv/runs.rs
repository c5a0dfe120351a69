//! The tiles of a few images, in runs that are transformed and multiplied together.

use std::ops::Range;

use super::Images;
use super::ring::Ring;
use super::tiles::{Layout, Span, Tiling};

/// Some tiles of one strip: a part of a run.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub image: usize,
    pub strip: usize,
    tiles: Range<usize>,
    /// Which row of the run's matrices the first tile is.
    at: usize,
    tiling: Tiling,
}

impl Piece {
    /// Whether no tile of the strip came before.
    pub(super) fn opens(&self) -> bool {
        self.tiles.start == 0
    }

    /// Whether no tile of the strip comes after.
    pub(super) fn closes(&self) -> bool {
        self.tiles.end == self.tiling.across
    }

    /// The piece between a ring and matrices.
    pub(super) fn span(&self, ring: &Ring, layout: Layout) -> Span {
        Span {
            tiling: self.tiling,
            depth: ring.depth(),
            rows: ring.rows(self.strip),
            tiles: self.tiles.clone(),
            at: self.at,
            layout,
        }
    }
}

/// Tiles that are transformed and multiplied together.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub pieces: Vec<Piece>,
    pub tiles: usize,
}

impl Run {
    /// The tiles of some images, in order, in runs of at most `size`.
    pub(super) fn all(images: Images, some: Range<usize>, size: usize) -> Vec<Self> {
        let tiling = Tiling::new(images);
        let (first, last) = (some.start * tiling.count(), some.end * tiling.count());
        let mut runs = Vec::new();
        for start in (first..last).step_by(size) {
            let end = (start + size).min(last);
            let mut pieces = Vec::new();
            let mut tile = start;
            while tile < end {
                let (image, rest) = (tile / tiling.count(), tile % tiling.count());
                let (strip, x) = (rest / tiling.across, rest % tiling.across);
                let count = (tiling.across - x).min(end - tile);
                pieces.push(Piece { image, strip, tiles: x..x + count, at: tile - start, tiling });
                tile += count;
            }
            runs.push(Self { pieces, tiles: end - start });
        }
        runs
    }
}
