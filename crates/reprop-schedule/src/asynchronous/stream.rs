//! Asynchronous plans of any length, from a formula and in constant memory.

use std::collections::VecDeque;

use super::intervals::LateFetch;
use crate::{Action, Costs, Revolve, Slot, advances};

/// The longest interval that is considered.
const LONGEST: usize = 200_000;
/// The longest part of an interval for which late fetches are planned.
const LONGEST_LATE: usize = 600;
/// The most parts of an interval.
const MOST_PARTS: usize = 8;

/// Equal intervals, the first state of each but the last on disk: the plan of
/// [`intervals`](super::intervals::intervals), given one action at a time.
///
/// An interval is reversed in `k` parts of `p` steps, from last to first, each from the interval's first state read
/// anew: where writes hold up the way forward, fewer of them are worth a second way from `x` to the part.
/// `p` and `k` have the least time per step, stalls included:
/// `max(k p f, w) + k v(p) + f p k (k-1) / 2`, where `v(p)` is
/// `max(f t(p, s-1) + b p, r)` with a slot set aside for the next fetch, [`LateFetch`]'s `V(p)` with one set
/// aside when it is due, or `f t(p, s) + b p + r` with none. For `k = 1`, `f = 1` and reads that hide, with `i`
/// repetitions and `s` slots inside the interval, the time per step below `w` is
/// `b + i + (w - C(s + i, s + 1)) / p`: it falls in `p` as long as `C(s + i, s + 1) <= w`. That is the
/// stall-aware interval `min(ceil(w), C(s + i, s))` with the largest such `i`.
#[derive(Debug, Clone)]
pub(super) struct Stream {
    steps: usize,
    shape: Shape,
    slots: usize,
    late: Option<LateFetch>,
    stage: Stage,
    pending: VecDeque<Piece>,
}

/// What comes next.
#[derive(Debug, Clone, Copy)]
enum Stage {
    /// The way forward over this interval.
    Forward(usize),
    /// The way back over this part of this interval.
    Back(usize, usize),
    Done,
}

#[derive(Debug, Clone, Copy)]
struct Shape {
    part: usize,
    parts: usize,
    /// Whether a slot is set aside for fetches.
    aside: bool,
}

impl Shape {
    fn interval(self) -> usize {
        self.part * self.parts
    }
}

#[derive(Debug, Clone)]
enum Piece {
    One(Action),
    Many(Revolve),
}

impl Stream {
    pub(super) fn new(steps: usize, slots: usize, costs: &Costs) -> Self {
        let slots = slots.min(steps);
        let late = (slots > 1).then(|| LateFetch::new(LONGEST_LATE.min(steps), slots, costs));
        let shape = best_shape(steps, slots, costs, late.as_ref());
        Self { steps, shape, slots, late, stage: Stage::Forward(0), pending: VecDeque::new() }
    }

    /// Queues the next part's actions; false when nothing is left.
    fn go_on(&mut self) -> bool {
        let interval = self.shape.interval();
        let last = (self.steps - 1) / interval;
        match self.stage {
            Stage::Forward(index) if index == last => {
                self.stage = self.before(last);
                self.reverse(last * interval, self.steps, false);
            }
            Stage::Forward(index) => {
                let step = index * interval;
                let (slot, to) = (Slot::memory(index % self.slots), Slot::disk(index));
                self.one(Action::Save { step, slot });
                self.one(Action::Copy { step, from: slot, to, keep: false });
                self.one(Action::Forward { from: step, to: step + interval });
                self.stage = Stage::Forward(index + 1);
            }
            Stage::Back(index, part) => {
                if !self.shape.aside {
                    self.fetch();
                }
                let base = index * interval;
                let from = base + part * self.shape.part;
                let keep = part == 0 && self.cut(self.shape.part) > 0;
                self.one(Action::Load { step: base, slot: self.top(), keep });
                if part > 0 {
                    self.one(Action::Forward { from: base, to: from });
                }
                self.stage = if part > 0 { Stage::Back(index, part - 1) } else { self.before(index) };
                self.reverse(from, from + self.shape.part, keep);
            }
            Stage::Done => return false,
        }
        true
    }

    /// What follows when interval `index` is reversed.
    fn before(&self, index: usize) -> Stage {
        index.checked_sub(1).map_or(Stage::Done, |index| Stage::Back(index, self.shape.parts - 1))
    }

    /// Reverses `from .. end` from the working state, which `saved` says is in the top slot too, and starts the
    /// next fetch, if there is one, when a slot is set aside for it.
    fn reverse(&mut self, from: usize, end: usize, saved: bool) {
        let own = if self.shape.aside { self.slots - 1 } else { self.slots };
        let mut end = end;
        if self.cut(end - from) > 0 && !saved {
            self.one(Action::Save { step: from, slot: self.top() });
        }
        while self.cut(end - from) > 0 {
            let middle = from + self.cut(end - from);
            self.one(Action::Forward { from, to: middle });
            self.pending.push_back(Piece::Many(Revolve::over(middle, end, own)));
            end = middle;
            let keep = self.cut(end - from) > 0;
            self.one(Action::Load { step: from, slot: self.top(), keep });
        }
        if self.shape.aside {
            self.fetch();
        }
        self.pending.push_back(Piece::Many(Revolve::over(from, end, own)));
    }

    /// Where to cut a part of `length` steps, 0 for nowhere.
    fn cut(&self, length: usize) -> usize {
        self.late.as_ref().filter(|_| self.shape.aside).map_or(0, |late| late.cut(length))
    }

    fn top(&self) -> Slot {
        Slot::memory(self.slots - 1)
    }

    fn one(&mut self, action: Action) {
        self.pending.push_back(Piece::One(action));
    }

    /// Reads the first state that the next part needs; an interval's first part is the last to need it.
    fn fetch(&mut self) {
        if let Stage::Back(index, part) = self.stage {
            let (step, from) = (index * self.shape.interval(), Slot::disk(index));
            self.one(Action::Copy { step, from, to: self.top(), keep: part > 0 });
        }
    }
}

fn best_shape(steps: usize, slots: usize, costs: &Costs, late: Option<&LateFetch>) -> Shape {
    let (f, b, disk) = (costs.forward, costs.backward, costs.tier(1));
    let reverse = |p: usize, own: usize| f * advances(p, own) as f64 + b * p as f64;
    let time = |shape: Shape, part: f64| {
        let (k, length) = (shape.parts as f64, shape.interval() as f64);
        ((length * f).max(disk.write) + k * part + 0.5 * f * length * (k - 1.0)) / length
    };
    let mut best = (reverse(steps, slots) / steps as f64, Shape { part: steps, parts: 1, aside: false });
    let mut offer = |shape: Shape, part: f64| {
        let time = time(shape, part);
        if time < best.0 {
            best = (time, shape);
        }
    };
    for part in 1..=LONGEST.min(steps) {
        let parts = if part <= LONGEST_LATE { MOST_PARTS.min(steps / part) } else { 1 };
        for parts in 1..=parts {
            let shape = |aside| Shape { part, parts, aside };
            offer(shape(false), reverse(part, slots) + disk.read);
            if let Some(late) = late {
                let planned = late.times().get(part).copied();
                offer(shape(true), planned.unwrap_or_else(|| reverse(part, slots - 1).max(disk.read)));
            }
        }
    }
    best.1
}

impl Iterator for Stream {
    type Item = Action;

    fn next(&mut self) -> Option<Action> {
        loop {
            match self.pending.front_mut() {
                Some(Piece::Many(revolve)) => match revolve.next() {
                    Some(action) => return Some(action),
                    None => drop(self.pending.pop_front()),
                },
                Some(&mut Piece::One(action)) => {
                    self.pending.pop_front();
                    return Some(action);
                }
                None => {
                    if !self.go_on() {
                        return None;
                    }
                }
            }
        }
    }
}
