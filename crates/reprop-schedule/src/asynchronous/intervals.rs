//! Plans made of intervals: the first state of each but the last on disk, Revolve inside.

use std::rc::Rc;

use super::windows::Windows;
use crate::least::{Backwards, least_sum};
use crate::{Action, Costs, Revolve, Slot, advances};

/// How one interval is reversed from its first state: `cuts` from far to near, each a place to advance to
/// with the first state kept in memory, then the rest with one slot less.
///
/// With `s` slots for the plan and the next fetch together, Revolve on `s` leaves the fetch no slot until the
/// very end, and Revolve on `s - 1` wastes one all the time. Between the two: reverse the upper parts with
/// all slots, and only the lowest one, long enough to hide the fetch, with one less:
/// `V(n) = min(max(T(n, s-1), r), min_q q f + T(n-q, s-1) + V(q))`, where `T` is Revolve's time. (The upper
/// parts have `s - 1` slots since the first state holds one.)
#[derive(Debug, Clone)]
pub(crate) struct LateFetch {
    cuts: Vec<usize>,
    /// `V`.
    times: Vec<f64>,
    slots: usize,
}

impl LateFetch {
    /// The best cuts for intervals up to `longest` steps with `slots >= 2` memory slots.
    pub(crate) fn new(longest: usize, slots: usize, costs: &Costs) -> Self {
        let (f, b, read) = (costs.forward, costs.backward, costs.tier(1).read);
        let time: Vec<f64> =
            (0..=longest).map(|n| f * advances(n, slots - 1) as f64 + b * n as f64).collect();
        let behind = Backwards::of(&time);
        let mut cuts = vec![0; longest + 1];
        let (mut ahead, mut times) = (vec![f64::INFINITY; longest + 1], vec![0.0; longest + 1]);
        for n in 1..=longest {
            let mut value = time[n].max(read);
            if let Some((sum, index)) = least_sum(&ahead[1..n], behind.below(n))
                && sum < value
            {
                (value, cuts[n]) = (sum, index + 1);
            }
            (ahead[n], times[n]) = (value + n as f64 * f, value);
        }
        Self { cuts, times, slots }
    }

    /// Where to cut an interval of `length` steps, 0 for nowhere. Longer ones than planned for are not cut.
    pub(super) fn cut(&self, length: usize) -> usize {
        self.cuts.get(length).copied().unwrap_or(0)
    }

    /// `V(length)` for every length planned for.
    pub(super) fn times(&self) -> &[f64] {
        &self.times
    }

    /// Reverses `start .. end` from the working state `x_start`.
    fn reverse(&self, start: usize, end: usize, plan: &mut Vec<Action>) {
        let own = Slot::memory(self.slots - 1);
        let mut end = end;
        if self.cuts[end - start] > 0 {
            plan.push(Action::Save { step: start, slot: own });
        }
        while self.cuts[end - start] > 0 {
            let middle = start + self.cuts[end - start];
            plan.push(Action::Forward { from: start, to: middle });
            plan.extend(Revolve::over(middle, end, self.slots - 1));
            end = middle;
            plan.push(Action::Load { step: start, slot: own, keep: self.cuts[end - start] > 0 });
        }
        plan.extend(Revolve::over(start, end, self.slots - 1));
    }
}

/// How intervals are reversed.
#[derive(Debug, Clone)]
pub(crate) enum Inside {
    /// With Revolve on this many slots.
    Revolve(usize),
    /// With all slots until the next fetch needs one.
    LateFetch(LateFetch),
}

impl Inside {
    fn reverse(&self, start: usize, end: usize, plan: &mut Vec<Action>) {
        match self {
            Self::Revolve(slots) => plan.extend(Revolve::over(start, end, *slots)),
            Self::LateFetch(late) => late.reverse(start, end, plan),
        }
    }
}

/// How the intervals of a plan are reversed: in `parts`, from last to first, each from the interval's first
/// state read anew and with `inside`.
///
/// Where writes hold up the way forward, fewer of them are worth a second way from an interval's first state to its
/// upper part: for one slot and `W = R = 50`, intervals of 36 steps in three parts take 13.1 a step, whole
/// ones 15.1.
#[derive(Debug, Clone)]
pub(crate) enum Way {
    Parts { inside: Inside, parts: usize },
    Windows(Rc<Windows>),
}

impl Way {
    /// Loads and reverses `start .. end`, whose first state is in the disk slot `index`.
    fn reverse(&self, start: usize, end: usize, index: usize, plan: &mut Vec<Action>) {
        let (inside, parts) = match self {
            Self::Windows(windows) => return windows.interval(start, end, index, plan),
            Self::Parts { inside, parts } => (inside, *parts),
        };
        let border = |part: usize| start + (end - start) * part / parts;
        for part in (0..parts).rev() {
            let (from, to) = (border(part), border(part + 1));
            if from < to {
                plan.push(Action::Load { step: start, slot: Slot::disk(index), keep: from > start });
                if from > start {
                    plan.push(Action::Forward { from: start, to: from });
                }
                inside.reverse(from, to, plan);
            }
        }
    }
}

/// The plan that writes the first state of every interval but the last to disk on the way forward, reverses
/// the last where it stands, then loads and reverses the others from last to first. Transfers are waited for;
/// [`overlap`](super::overlap::overlap) hides them.
pub(crate) fn intervals(lengths: &[usize], way: &Way) -> Vec<Action> {
    let mut plan = vec![];
    let mut start = 0;
    let (last, earlier) = lengths.split_last().unwrap_or((&0, &[]));
    for (index, length) in earlier.iter().enumerate() {
        plan.push(Action::Save { step: start, slot: Slot::disk(index) });
        plan.push(Action::Forward { from: start, to: start + length });
        start += length;
    }
    match way {
        Way::Parts { inside, .. } => inside.reverse(start, start + last, &mut plan),
        Way::Windows(windows) => windows.reverse(start, start + last, &mut plan),
    }
    for (index, length) in earlier.iter().enumerate().rev() {
        let end = start;
        start -= length;
        way.reverse(start, end, index, &mut plan);
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
