//! Plans made of intervals: the first state of each but the last on disk, Revolve inside.

use crate::{Action, Revolve, Slot};

/// The plan that writes the first state of every interval but the last to disk on the way forward, reverses
/// the last with Revolve where it stands, then loads and reverses the others from last to first. Transfers
/// are waited for; [`overlap`](super::overlap::overlap) hides them.
pub(crate) fn intervals(lengths: &[usize], slots: usize) -> Vec<Action> {
    let mut plan = vec![];
    let mut start = 0;
    let (last, earlier) = lengths.split_last().unwrap_or((&0, &[]));
    for (index, length) in earlier.iter().enumerate() {
        plan.push(Action::Save { step: start, slot: Slot::disk(index) });
        plan.push(Action::Forward { from: start, to: start + length });
        start += length;
    }
    plan.extend(Revolve::over(start, start + last, slots));
    for (index, length) in earlier.iter().enumerate().rev() {
        let end = start;
        start -= length;
        plan.push(Action::Load { step: start, slot: Slot::disk(index), keep: false });
        plan.extend(Revolve::over(start, end, slots));
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
