//! How rows are cut into tasks: by their number alone.

use std::ops::Range;

use rayon::prelude::*;

/// Rows of one task. Whole tiles of every instruction set; enough rows to pay for reading a weight's panels again, few
/// enough that a short sequence still makes a dozen tasks and that a task's rows stay in the second-level cache.
pub(crate) fn chunk(rows: usize) -> usize {
    rows.div_ceil(16).next_multiple_of(12).clamp(12, 48)
}

/// Runs `task` for each chunk of rows, in parallel; `task` gets the chunk's number and its rows.
pub(crate) fn for_chunks(rows: usize, task: impl Fn(usize, Range<usize>) + Sync) {
    let size = chunk(rows);
    for_each(rows.div_ceil(size), |i| task(i, i * size..((i + 1) * size).min(rows)));
}

/// Runs `task` for each number below `count`, in parallel, each its own unit of stealing.
pub(crate) fn for_each(count: usize, task: impl Fn(usize) + Sync) {
    (0..count).into_par_iter().with_max_len(1).for_each(&task);
}
