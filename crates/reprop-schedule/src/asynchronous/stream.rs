//! Asynchronous plans of any length, from a formula and in constant memory.

use std::collections::VecDeque;
use std::sync::Arc;

use super::windows::{Plan, Windows, whole_parts};
use crate::{Action, Costs, Revolve, Slot, advances};

/// The longest interval that is considered.
const LONGEST: usize = 200_000;
/// The longest interval with windows.
const LONGEST_WINDOWS: usize = 600;

/// Equal intervals, the first state of each but the last on disk: the plan of
/// [`intervals`](super::intervals::intervals), given one action at a time.
///
/// The interval `l` has the least time per step, stalls included: `max(l f, w) + v(l)` over `l`, where `v(l)` is
/// the `Q(l)` of [`Windows`], or for long ones `max(f t(l, s-1) + b l, r)` with a slot set aside for the next
/// fetch, or `f t(l, s) + b l + r` with none. For `f = 1` and reads that hide, with `i` repetitions and `s` slots
/// inside the interval, the time per step below `w` is `b + i + (w - C(s + i, s + 1)) / l`: it falls in `l` as long
/// as `C(s + i, s + 1) <= w`. That is the stall-aware interval `min(ceil(w), C(s + i, s))` with the largest such `i`.
#[derive(Debug, Clone)]
pub(super) struct Stream {
    steps: usize,
    interval: usize,
    way: Way,
    slots: usize,
    stage: Stage,
    queue: Queue,
}

/// How an interval is reversed.
#[derive(Debug, Clone)]
enum Way {
    Windows(Arc<Windows>),
    /// With all slots but one.
    Aside,
    /// With all slots; the fetch is waited for.
    Whole,
}

/// What comes next.
#[derive(Debug, Clone, Copy)]
enum Stage {
    /// The way forward over this interval.
    Forward(usize),
    /// The way back over this interval, of which so many steps are left.
    Back(usize, usize),
    Done,
}

#[derive(Debug, Clone)]
enum Piece {
    One(Action),
    /// Its memory slots from this one on are the next ones.
    Many(Revolve, usize),
}

/// The actions of the part at hand.
#[derive(Debug, Clone)]
struct Queue {
    pieces: VecDeque<Piece>,
    /// The read that the next part needs: the state, its place, and whether it is read again.
    next: Option<(usize, usize, bool)>,
    /// The memory slot of the state fetched last.
    fetched: usize,
    /// Whether the window is open: then that slot is taken.
    open: bool,
}

impl Plan for Queue {
    fn one(&mut self, action: Action) {
        self.pieces.push_back(Piece::One(action));
    }

    fn many(&mut self, revolve: Revolve) {
        let taken = if self.open { self.fetched } else { usize::MAX };
        self.pieces.push_back(Piece::Many(revolve, taken));
    }

    fn open(&mut self, slot: Slot) {
        self.open = true;
        self.fetched = slot.index;
        if let Some((step, index, keep)) = self.next {
            self.one(Action::Copy { step, from: Slot::disk(index), to: slot, keep });
        }
    }
}

impl Stream {
    pub(super) fn new(steps: usize, slots: usize, costs: &Costs) -> Self {
        let slots = slots.min(steps);
        let (interval, way) = best(steps, slots, costs);
        let queue = Queue { pieces: VecDeque::new(), next: None, fetched: 0, open: false };
        Self { steps, interval, way, slots, stage: Stage::Forward(0), queue }
    }

    /// Queues the next part's actions; false when nothing is left.
    fn go_on(&mut self) -> bool {
        let last = (self.steps - 1) / self.interval;
        match self.stage {
            Stage::Forward(index) if index == last => {
                self.then(self.before(last));
                self.reverse(last * self.interval, self.steps);
            }
            Stage::Forward(index) => {
                let step = index * self.interval;
                let (slot, to) = (Slot::memory(index % self.slots), Slot::disk(index));
                self.queue.one(Action::Save { step, slot });
                self.queue.one(Action::Copy { step, from: slot, to, keep: false });
                self.queue.one(Action::Forward { from: step, to: step + self.interval });
                self.stage = Stage::Forward(index + 1);
            }
            Stage::Back(index, left) => {
                let step = index * self.interval;
                self.queue.one(Action::Load { step, slot: Slot::memory(self.queue.fetched), keep: false });
                let part = self.part(left);
                self.then(if part > 0 { Stage::Back(index, part) } else { self.before(index) });
                match &self.way {
                    Way::Windows(windows) => windows.upper(step, step + left, &mut self.queue),
                    _ => self.reverse(step, step + left),
                }
            }
            Stage::Done => return false,
        }
        true
    }

    /// Where the part of an interval that is reversed first starts.
    fn part(&self, left: usize) -> usize {
        if let Way::Windows(windows) = &self.way { windows.part(left) } else { 0 }
    }

    /// What follows when interval `index` is reversed.
    fn before(&self, index: usize) -> Stage {
        index.checked_sub(1).map_or(Stage::Done, |index| Stage::Back(index, self.interval))
    }

    /// Lets `stage` be next, and the window closed until it needs one.
    fn then(&mut self, stage: Stage) {
        self.stage = stage;
        self.queue.open = false;
        self.queue.next = match stage {
            Stage::Back(index, left) => Some((index * self.interval, index, self.part(left) > 0)),
            _ => None,
        };
    }

    /// Reverses `from .. end` from the working state.
    fn reverse(&mut self, from: usize, end: usize) {
        let top = Slot::memory(self.slots - 1);
        match &self.way {
            Way::Windows(windows) => windows.reverse(from, end, &mut self.queue),
            Way::Aside => {
                self.queue.open(top);
                self.queue.many(Revolve::over(from, end, self.slots - 1));
            }
            Way::Whole => {
                self.queue.many(Revolve::over(from, end, self.slots));
                self.queue.open(top);
            }
        }
    }
}

fn best(steps: usize, slots: usize, costs: &Costs) -> (usize, Way) {
    let (f, b, disk) = (costs.forward, costs.backward, costs.tier(1));
    let reverse = |l: usize, own: usize| f * advances(l, own) as f64 + b * l as f64;
    let windows = Arc::new(Windows::new(LONGEST_WINDOWS.min(steps), slots, costs, whole_parts(costs)));
    let mut best = (reverse(steps, slots) / steps as f64, steps, Way::Whole);
    for l in 1..=LONGEST.min(steps) {
        let mut offer = |time: f64, way: Way| {
            let time = ((l as f64 * f).max(disk.write) + time) / l as f64;
            if time < best.0 {
                best = (time, l, way);
            }
        };
        if let Some(&time) = windows.intervals().get(l) {
            offer(time, Way::Windows(windows.clone()));
        }
        offer(reverse(l, slots) + disk.read, Way::Whole);
        if slots > 1 {
            offer(reverse(l, slots - 1).max(disk.read), Way::Aside);
        }
    }
    (best.1, best.2)
}

/// The action with the memory slots from `taken` on moved up by one.
fn beside(taken: usize, mut action: Action) -> Action {
    if let Action::Save { slot, .. } | Action::Load { slot, .. } = &mut action
        && slot.tier == 0
        && slot.index >= taken
    {
        slot.index += 1;
    }
    action
}

impl Iterator for Stream {
    type Item = Action;

    fn next(&mut self) -> Option<Action> {
        loop {
            match self.queue.pieces.front_mut() {
                Some(Piece::Many(revolve, taken)) => match revolve.next() {
                    Some(action) => return Some(beside(*taken, action)),
                    None => drop(self.queue.pieces.pop_front()),
                },
                Some(&mut Piece::One(action)) => {
                    self.queue.pieces.pop_front();
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
