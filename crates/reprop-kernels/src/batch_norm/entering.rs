//! Norms' outputs that become residual streams: added up and taken to the streams' grid while they are in the first caches.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{BatchNorm, FEW, Moments, PART, affine, copy_pixels, few_rows};
use crate::gemm::blocks;
use crate::grid::{Grid, snap_part};
use crate::share::Shared;
use crate::tasks::for_each;
use crate::workspace::{Workspace, beyond_caches};

/// Floats of a task that [`enter`] has.
const TASK: usize = 1 << 16;

/// A norm's output.
#[derive(Clone, Copy, Debug)]
pub struct Term<'a> {
    /// The norm.
    pub norm: BatchNorm<'a>,
    /// What it reads: rows of channels.
    pub x: &'a [f32],
    /// The moments that it takes out.
    pub moments: &'a Moments,
    /// Whether a ReLU follows.
    pub relu: bool,
}

/// The first term's output, the second one's added to it if there is one (which then has no ReLU behind it), taken to `grid` if there
/// is one. Whether all of it is inside the grid's range.
///
/// # Panics
/// If lengths do not fit.
pub fn enter(first: Term, second: Option<Term>, grid: Option<Grid>, y: &mut [f32], ws: &Workspace) -> bool {
    let (isa, channels) = (ws.isa(), first.norm.channels());
    for term in [Some(first), second].into_iter().flatten() {
        assert_eq!((term.x.len(), term.norm.channels()), (y.len(), channels), "terms and y differ");
    }
    assert!(second.is_none_or(|second| !second.relu), "what is added has no ReLU of its own");
    let map = first.norm.map(first.moments, ws);
    let second = second.map(|second| (second.x, second.norm.map(second.moments, ws)));
    let past = beyond_caches(y.len());
    let [few, part] = [FEW, TASK].map(|len| (len / channels.max(1)).max(1) * channels);
    let outside = AtomicBool::new(false);
    let len = y.len();
    let y = Shared::new(y);
    for_each(len.div_ceil(part.max(1)), |task| {
        let (mut own, mut sum) = (ws.take(few), ws.take(few));
        for some in blocks(part.min(len - task * part), few) {
            let span = task * part + some.start..task * part + some.end;
            let (own, sum) = (&mut own[..some.len()], &mut sum[..some.len()]);
            affine(isa, &first.x[span.clone()], channels, &map, None, first.relu, own, channels, false);
            let entering = if let Some((x, map)) = &second {
                affine(isa, &x[span.clone()], channels, map, Some(own), false, sum, channels, false);
                sum
            } else {
                own
            };
            if grid.is_some_and(|grid| !snap_part(isa, grid, entering)) {
                outside.store(true, Ordering::Relaxed);
            }
            // SAFETY: parts do not overlap.
            copy_pixels(isa, entering, channels, channels, unsafe { y.slice(span) }, past);
        }
    });
    !outside.into_inner()
}

impl BatchNorm<'_> {
    /// [`Self::apply`] without `skip`, its channels in two tensors: the first `left` and the others, taken to `grid` if there is one.
    /// Whether all of them are inside the grid's range.
    ///
    /// # Panics
    /// If lengths do not fit.
    pub fn apply_to_halves(
        &self,
        x: &[f32],
        moments: &Moments,
        relu: bool,
        [a, b]: [&mut [f32]; 2],
        grid: Option<Grid>,
        ws: &Workspace,
    ) -> bool {
        let channels = self.channels();
        let rows = x.len() / channels.max(1);
        let (left, right) = (a.len() / rows.max(1), b.len() / rows.max(1));
        assert_eq!((left + right) * rows, x.len(), "both halves must be as long as x");
        let map = self.map(moments, ws);
        let past = beyond_caches(a.len().max(b.len()));
        let outside = AtomicBool::new(false);
        let (a, b) = (Shared::new(a), Shared::new(b));
        for_each(rows.div_ceil(PART), |part| {
            let mut room = ws.take(few_rows(channels) * channels);
            for some in blocks(PART.min(rows - part * PART), few_rows(channels)) {
                let (first, last) = (part * PART + some.start, part * PART + some.end);
                let y = &mut room[..some.len() * channels];
                let x = &x[first * channels..last * channels];
                affine(ws.isa(), x, channels, &map, None, relu, y, channels, false);
                if grid.is_some_and(|grid| !snap_part(ws.isa(), grid, y)) {
                    outside.store(true, Ordering::Relaxed);
                }
                // SAFETY: parts do not overlap.
                let (a, b) =
                    unsafe { (a.slice(first * left..last * left), b.slice(first * right..last * right)) };
                copy_pixels(ws.isa(), y, channels, left, a, past);
                copy_pixels(ws.isa(), &y[left..], channels, right, b, past);
            }
        });
        !outside.into_inner()
    }
}
