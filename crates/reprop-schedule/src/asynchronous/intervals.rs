//! Plans made of intervals: the first state of each but the last on disk, Revolve inside.

use std::sync::Arc;

use super::windows::Windows;
use crate::{Action, Revolve, Slot};

/// How the intervals of a plan are reversed: in `parts`, from last to first, each from the interval's first
/// state read anew.
///
/// Where writes hold up the way forward, fewer of them are worth a second way from an interval's first state to its
/// upper part: for one slot and `W = R = 50`, intervals of 36 steps in three parts take 13.1 a step, whole
/// ones 15.1.
#[derive(Debug, Clone)]
pub(crate) enum Way {
    /// In so many parts, with Revolve on so many slots.
    Parts { slots: usize, parts: usize },
    /// In so many parts, each with windows.
    PartsWithWindows { windows: Arc<Windows>, parts: usize },
    /// In the parts that the dynamic programme finds best.
    Windows(Arc<Windows>),
}

impl Way {
    /// Loads and reverses `start .. end`, whose first state is in the disk slot `index`.
    fn reverse(&self, start: usize, end: usize, index: usize, plan: &mut Vec<Action>) {
        let parts = match self {
            Self::Windows(windows) => return windows.interval(start, end, index, plan),
            Self::Parts { parts, .. } | Self::PartsWithWindows { parts, .. } => *parts,
        };
        for part in (0..parts).rev() {
            let (from, to) = (border(start, end, parts, part), border(start, end, parts, part + 1));
            if from < to {
                plan.push(Action::Load { step: start, slot: Slot::disk(index), keep: from > start });
                if from > start {
                    plan.push(Action::Forward { from: start, to: from });
                }
                self.stretch(from, to, plan);
            }
        }
    }

    /// Reverses `start .. end` from the working state `x_start`.
    fn stretch(&self, start: usize, end: usize, plan: &mut Vec<Action>) {
        match self {
            Self::Parts { slots, .. } => plan.extend(Revolve::over(start, end, *slots)),
            Self::PartsWithWindows { windows, .. } | Self::Windows(windows) => {
                windows.reverse(start, end, plan);
            }
        }
    }
}

/// Where a part of `start .. end` begins.
pub(super) fn border(start: usize, end: usize, parts: usize, part: usize) -> usize {
    start + (end - start) * part / parts
}

/// How the last intervals are reversed, from the last one on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct End<'a> {
    /// Their slots; intervals beyond have no slots of their own.
    pub(crate) slots: &'a [usize],
    /// How many of those below the last one wait in memory for their turn, and are not written.
    pub(crate) held: usize,
}

/// The plan that writes the first state of every interval but the last to disk on the way forward, or holds it in memory,
/// reverses the last where it stands, then loads and reverses the others from last to first. Transfers are waited for;
/// [`overlap`](super::overlap::overlap) hides them. Intervals below the `end` are reversed as `way` says, but for the lowest
/// of all, after which nothing is fetched: it has a `lowest` way of its own.
pub(crate) fn intervals(lengths: &[usize], way: &Way, end: End, lowest: &Way) -> Vec<Action> {
    let mut plan = vec![];
    let mut start = 0;
    let (last, earlier) = lengths.split_last().unwrap_or((&0, &[]));
    let written = earlier.len().saturating_sub(end.held);
    let steps: usize = lengths.iter().sum();
    // Revolve inside the intervals uses the lower indices.
    let place = |index: usize| if index < written { Slot::disk(index) } else { Slot::memory(steps + index) };
    for (index, length) in earlier.iter().enumerate() {
        plan.push(Action::Save { step: start, slot: place(index) });
        plan.push(Action::Forward { from: start, to: start + length });
        start += length;
    }
    let ways: Vec<Way> = end.slots.iter().map(|&slots| Way::Parts { slots, parts: 1 }).collect();
    let way = |above: usize| ways.get(above).unwrap_or(way);
    way(0).stretch(start, start + last, &mut plan);
    for (index, length) in earlier.iter().enumerate().rev() {
        let top = start;
        start -= length;
        let above = earlier.len() - index;
        let way = if index == 0 && above >= end.slots.len() { lowest } else { way(above) };
        if index < written {
            way.reverse(start, top, index, &mut plan);
        } else {
            plan.push(Action::Load { step: start, slot: place(index), keep: false });
            way.stretch(start, top, &mut plan);
        }
    }
    plan
}

/// `steps` cut into intervals of `interval` on average, each its floor or its ceiling; the last takes what is
/// left.
pub(crate) fn even(steps: usize, interval: f64) -> Vec<usize> {
    let mut lengths = vec![];
    let (mut start, mut count) = (0, 1.0_f64);
    while start < steps {
        let end = ((count * interval).round() as usize).clamp(start + 1, steps);
        lengths.push(end - start);
        (start, count) = (end, count + 1.0);
    }
    lengths
}
