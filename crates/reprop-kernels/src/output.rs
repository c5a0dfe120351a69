//! Where a sub-block's result goes: a buffer of its own, or straight into a residual stream.
//!
//! A reversible block needs `stream ± f(x)`, not `f(x)`. Adding while a task's rows are still in cache saves a pass over
//! memory in each direction.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::grid::{Direction, Grid, GridOverflow, apply_part};
use crate::share::Shared;
use crate::simd::{Isa, dispatch};
use crate::sweep::sweep;
use crate::workspace::{Workspace, beyond_caches};

/// What becomes of `f(x)`.
#[derive(Debug)]
pub enum Output<'a> {
    /// `y = f(x)`.
    Value(&'a mut [f32]),
    /// `y = base ± f(x)` in floating point; `base` is what `y` holds if not given.
    Float {
        /// The stream before.
        base: Option<&'a [f32]>,
        /// The stream after.
        y: &'a mut [f32],
        /// Forward or inverse.
        direction: Direction,
    },
    /// `y = base ± Q(f(x))`, exact on a grid; `base` is what `y` holds if not given.
    OnGrid {
        /// The grid of both streams.
        grid: Grid,
        /// The stream before.
        base: Option<&'a [f32]>,
        /// The stream after.
        y: &'a mut [f32],
        /// Forward or inverse.
        direction: Direction,
    },
}

/// What a gradient is added to, as `dx = base + …`.
#[derive(Clone, Copy, Debug)]
pub enum Base<'a> {
    /// Nothing: `dx` is overwritten.
    Nothing,
    /// What `dx` holds.
    Itself,
    /// Another tensor of the same shape, such as the gradient that flows past the sub-block.
    Other(&'a [f32]),
}

impl Base<'_> {
    /// The base of a part of `dx`.
    pub(crate) fn part(&self, range: std::ops::Range<usize>) -> Base<'_> {
        match self {
            Base::Other(base) => Base::Other(&base[range]),
            other => *other,
        }
    }
}

/// An [`Output`] that tasks write, each its own rows.
pub(crate) struct Sink<'a> {
    y: Shared<'a>,
    base: Option<&'a [f32]>,
    mode: Option<(Option<Grid>, Direction)>,
    left_range: AtomicBool,
}

impl<'a> Sink<'a> {
    pub(crate) fn new(output: &'a mut Output, len: usize) -> Self {
        let (y, base, mode) = match output {
            Output::Value(y) => (&mut **y, None, None),
            Output::Float { base, y, direction } => (&mut **y, *base, Some((None, *direction))),
            Output::OnGrid { grid, base, y, direction } => (&mut **y, *base, Some((Some(*grid), *direction))),
        };
        assert_eq!(y.len(), len, "output must hold {len} floats");
        assert!(base.is_none_or(|base| base.len() == len), "base must hold {len} floats");
        Self { y: Shared::new(y), base, mode, left_range: AtomicBool::new(false) }
    }

    /// Whether `compute` writes where the output goes, and it is better written past the caches.
    pub(crate) fn is_beyond_caches(&self) -> bool {
        self.mode.is_none() && beyond_caches(self.y.len())
    }

    /// Has `compute` write `f` for elements `range`, and puts it where it belongs.
    ///
    /// # Safety
    /// Ranges of concurrent calls must not overlap.
    pub(crate) unsafe fn write(
        &self,
        ws: &Workspace,
        range: std::ops::Range<usize>,
        compute: impl FnOnce(&mut [f32]),
    ) {
        if self.mode.is_none() {
            // SAFETY: the caller's promise.
            return compute(unsafe { self.y.slice(range) });
        }
        let mut f = ws.take(range.len());
        compute(&mut f);
        // SAFETY: the caller's promise.
        unsafe { self.put(ws.isa(), range, &f) };
    }

    /// Puts `f` of elements `range` where it belongs.
    ///
    /// # Safety
    /// As [`Sink::write`].
    pub(crate) unsafe fn put(&self, isa: Isa, range: std::ops::Range<usize>, f: &[f32]) {
        // SAFETY: the caller's promise.
        let y = unsafe { self.y.slice(range.clone()) };
        let base = self.base.map(|base| &base[range]);
        let in_range = match self.mode {
            Some((Some(grid), direction)) => apply_part(isa, grid, base, y, f, direction),
            Some((None, direction)) => apply_float(isa, base, y, f, direction),
            None => {
                y.copy_from_slice(f);
                true
            }
        };
        if !in_range {
            self.left_range.store(true, Ordering::Relaxed);
        }
    }

    /// Whether every element stayed on its grid.
    pub(crate) fn finish(self) -> Result<(), GridOverflow> {
        match self.mode {
            Some((Some(grid), _)) if self.left_range.load(Ordering::Relaxed) => {
                // SAFETY: all tasks are done.
                Err(grid.overflow(unsafe { self.y.slice(0..self.y.len()) }))
            }
            _ => Ok(()),
        }
    }
}

dispatch! {
    fn apply_float(s: Isa, base: Option<&[f32]>, y: &mut [f32], f: &[f32], direction: Direction) -> bool {
        let sign = s.splat(if direction == Direction::Add { 1.0 } else { -1.0 });
        sweep!(s, y.len(), i, load, store, {
            let x = if let Some(base) = base { load(s, base, i, 0.0) } else { load(s, y, i, 0.0) };
            let sum = s.add(x, s.mul(sign, load(s, f, i, 0.0)));
            store(s, y, i, sum);
        });
        true
    }
}
