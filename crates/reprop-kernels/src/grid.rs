//! The residual streams' addition on an exact grid, and its inverse.
//!
//! A grid with `k` fraction bits is the set of `f32` values that are multiples of `2^-k` and smaller than `2^(24-k)`: integers
//! `|n| < 2^24` over `2^k`, all exact in `f32`. `Q(f)` is the multiple of `2^-k` nearest to `f` (ties to even). For `x` and
//! `Q(f)` on the grid, `x + Q(f)` is a multiple of `2^-k`, and exact as long as it is below `2^(24-k)`: then `(x + Q(f)) - Q(f)`
//! is `x`, bit for bit, at any depth. Beyond that range addition rounds, so reaching it is an error.
//!
//! Negative zero never arises from a sum or difference of unequal numbers, and `-0 + Q(f)` is repaired by [`Grid::snap`],
//! which maps it to `+0`: equal values on the grid are equal bits.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::rows::for_chunks;
use crate::share::Shared;
use crate::simd::Isa;
use crate::simd::dispatch;
use crate::sweep::sweep;
use crate::workspace::Workspace;

/// Multiples of `2^-bits` below `2^(24 - bits)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Fraction bits `k`, at most 23.
    pub bits: u32,
}

/// Whether a stream gains or gives back a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// `stream + Q(f)`: the forward.
    Add,
    /// `stream - Q(f)`: its inverse.
    Subtract,
}

/// A stream left its grid's range: the sum is not exact, so it cannot be inverted.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "stream value {value} at element {index} is outside the exact range ±{limit} of a grid with {bits} fraction bits"
)]
pub struct GridOverflow {
    /// The first such value.
    pub value: f32,
    /// Where it is.
    pub index: usize,
    /// Values must stay below this.
    pub limit: f32,
    /// The grid's fraction bits.
    pub bits: u32,
}

/// Values of a part of a stream: long enough that a task outweighs its start.
const PART: usize = 4096;

impl Grid {
    /// `2^(24 - k)`: values must stay below.
    pub fn limit(self) -> f32 {
        assert!(self.bits <= 23, "at most 23 fraction bits, not {}", self.bits);
        ((1u32 << (24 - self.bits)) as f32).min(f32::MAX)
    }

    /// Rounds every value to the grid.
    ///
    /// # Errors
    /// If a value is outside the range.
    pub fn snap(self, x: &mut [f32], ws: &Workspace) -> Result<(), GridOverflow> {
        self.each_part(x, |_, x| snap_part(ws.isa(), self, x))
    }

    /// `stream ± Q(f)`, in place.
    ///
    /// # Errors
    /// If a result is outside the range.
    ///
    /// # Panics
    /// If lengths differ.
    pub fn apply(
        self,
        stream: &mut [f32],
        f: &[f32],
        direction: Direction,
        ws: &Workspace,
    ) -> Result<(), GridOverflow> {
        assert_eq!(stream.len(), f.len(), "stream and term differ in length");
        self.each_part(stream, |at, part| {
            let f = &f[at..at + part.len()];
            apply_part(ws.isa(), self, None, part, f, direction)
        })
    }

    /// Whether all values are inside the range.
    pub fn holds(self, x: &[f32], ws: &Workspace) -> bool {
        let left_range = AtomicBool::new(false);
        for_chunks(ws.isa(), x.len().div_ceil(PART), |_, r| {
            if !inside(ws.isa(), self, &x[r.start * PART..(r.end * PART).min(x.len())]) {
                left_range.store(true, Ordering::Relaxed);
            }
        });
        !left_range.into_inner()
    }

    /// `part` gets a part of the stream and its place, and says whether all stayed in range.
    fn each_part(
        self,
        stream: &mut [f32],
        part: impl Fn(usize, &mut [f32]) -> bool + Sync,
    ) -> Result<(), GridOverflow> {
        let left_range = AtomicBool::new(false);
        let len = stream.len();
        let shared = Shared::new(stream);
        for_chunks(Isa::portable(), len.div_ceil(PART), |_, r| {
            let span = r.start * PART..(r.end * PART).min(len);
            // SAFETY: parts do not overlap.
            if !part(span.start, unsafe { shared.slice(span.clone()) }) {
                left_range.store(true, Ordering::Relaxed);
            }
        });
        if left_range.into_inner() { Err(self.overflow(stream)) } else { Ok(()) }
    }

    /// The error for a stream that is known to have left the range.
    pub(crate) fn overflow(self, stream: &[f32]) -> GridOverflow {
        let limit = self.limit();
        let outside = |v: &f32| v.abs() >= limit || v.is_nan();
        let index = stream.iter().position(outside).unwrap_or(0);
        GridOverflow { value: stream.get(index).copied().unwrap_or(f32::NAN), index, limit, bits: self.bits }
    }

    /// `(2^k, 2^-k)`.
    fn scales(self) -> (f32, f32) {
        let up = (1u32 << self.bits) as f32;
        (up, 1.0 / up)
    }
}

dispatch! {
    fn inside(s: Isa, grid: Grid, x: &[f32]) -> bool {
        let limit = s.splat(grid.limit());
        let mut outside = s.zero();
        sweep!(s, x.len(), i, load, store, {
            outside = s.add(outside, s.select_gt(limit, s.abs(load(s, x, i, 0.0)), s.zero(), s.splat(1.0)));
        });
        s.sum(outside) == 0.0
    }
}

dispatch! {
    /// A part of a stream rounded to the grid; false if a value is outside its range.
    pub(crate) fn snap_part(s: Isa, grid: Grid, x: &mut [f32]) -> bool {
        let (up, down) = grid.scales();
        let limit = s.splat(grid.limit());
        let mut outside = s.zero();
        sweep!(s, x.len(), i, load, store, {
            // Adding zero turns -0 into +0.
            let q = s.add(s.mul(s.round(s.mul(load(s, x, i, 0.0), s.splat(up))), s.splat(down)), s.zero());
            // Not "is above": NaN must count too.
            outside = s.add(outside, s.select_gt(limit, s.abs(q), s.zero(), s.splat(1.0)));
            store(s, x, i, q);
        });
        s.sum(outside) == 0.0
    }
}

dispatch! {
    /// `stream = base ± Q(f)`, `base` being the stream itself if not given; false if a result leaves the range.
    pub(crate) fn apply_part(
        s: Isa, grid: Grid, base: Option<&[f32]>, stream: &mut [f32], f: &[f32], direction: Direction,
    ) -> bool {
        let (up, down) = grid.scales();
        let down = if direction == Direction::Add { down } else { -down };
        let limit = s.splat(grid.limit());
        let mut outside = s.zero();
        sweep!(s, stream.len(), i, load, store, {
            let q = s.mul(s.round(s.mul(load(s, f, i, 0.0), s.splat(up))), s.splat(down));
            let x = if let Some(base) = base { load(s, base, i, 0.0) } else { load(s, stream, i, 0.0) };
            let y = s.add(x, q);
            outside = s.add(outside, s.select_gt(limit, s.abs(y), s.zero(), s.splat(1.0)));
            store(s, stream, i, y);
        });
        s.sum(outside) == 0.0
    }
}
