//! How rows are cut into tasks: by their number and the height of a tile, never by the number of threads.

use std::ops::Range;

use crate::simd::Isa;
use crate::tasks::for_each;

/// Rows of a task, about: enough to pay for reading a weight's panels again, few enough to stay in the second-level cache.
const ROWS: usize = 48;
/// Tasks that few rows make at least, if there are as many tiles.
const TASKS: usize = 8;

/// Tasks of equal work: each takes whole tiles, and no task has more than one tile more than another. A power of two
/// divides their number, so that two, four or eight threads find equal shares.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunks {
    rows: usize,
    tile: usize,
    count: usize,
}

impl Chunks {
    pub(crate) fn new(isa: Isa, rows: usize) -> Self {
        let tile = isa.tile_rows();
        let count = (rows / ROWS / 8 * 8).max(TASKS).min(rows.div_ceil(tile));
        Self { rows, tile, count }
    }

    /// Number of tasks.
    pub(crate) fn count(self) -> usize {
        self.count
    }

    /// Rows of a task.
    pub(crate) fn rows(self, task: usize) -> Range<usize> {
        let tiles = self.rows.div_ceil(self.tile);
        let start = |task: usize| (task * tiles / self.count * self.tile).min(self.rows);
        start(task)..start(task + 1)
    }
}

/// Runs `task` for each chunk of rows, in parallel; `task` gets the chunk's number and its rows.
pub(crate) fn for_chunks(isa: Isa, rows: usize, task: impl Fn(usize, Range<usize>) + Sync) {
    let chunks = Chunks::new(isa, rows);
    for_each(chunks.count(), |i| task(i, chunks.rows(i)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_all_rows_and_differ_by_one_tile_at_most() {
        for isa in Isa::available() {
            let tile = isa.tile_rows();
            for rows in (0..2500).step_by(7).chain([1, 5, 6, 12, 197, 394, 1576]) {
                let chunks = Chunks::new(isa, rows);
                let ranges: Vec<_> = (0..chunks.count()).map(|i| chunks.rows(i)).collect();
                let mut next = 0;
                for range in &ranges {
                    assert!(range.start == next && range.start % tile == 0 && !range.is_empty());
                    next = range.end;
                }
                assert_eq!(next, rows);
                let tiles = ranges.iter().map(|range| range.len().div_ceil(tile));
                let (most, least) = (tiles.clone().max().unwrap_or(0), tiles.min().unwrap_or(0));
                assert!(most - least <= 1, "{rows} rows: {least} to {most} tiles");
            }
        }
    }
}
