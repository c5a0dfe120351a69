//! The planner that looks at the clocks.

use std::collections::VecDeque;

use reprop_schedule::{Action, Costs, Error as ScheduleError, Revolve, Slot};

use super::interval::{best_interval, stop_here};
use super::planner::{Endless, Move, Planner, View, shifted};
use super::{Measured, Result};

/// Asynchronous multistage with its interval chosen on the way: the first state of each interval goes to the store in the
/// background, and comes back ahead of its turn while the interval above is reversed with Revolve on the memory
/// slots.
///
/// - The first interval of all ends when its first write does; from then on each interval is planned anew from the times
///   measured so far. A shorter interval than a write takes stalls a little and recomputes less; the formula weighs the
///   two.
/// - Where Revolve on the memory slots alone is quicker, for a short chain or a slow store, nothing is written.
/// - The last interval is reversed where it stands.
/// - The length need not be known: a chain ends where [`Recurrence::has_step`](super::Recurrence::has_step) says so.
/// - A full disk costs time and nothing else: the chain goes on from the snapshot that did not fit, in memory.
///
/// A value can serve one pass after the other (`Checkpointed::planner(&mut plan)`): what one measured, the next begins with.
///
/// ```
/// use reprop::chain::{Async, Chain, Checkpointed, Steps};
/// use reprop_store::MemoryStore;
///
/// let store = MemoryStore::unbounded();
/// let steps = Steps::new(
///     |_, x: f64| x + 0.01 * x * x,
///     |_, x: f64, adjoint: f64, (): &mut ()| adjoint * (1.0 + 0.02 * x),
///     |_: &f64, (): &mut ()| 1.0,
/// );
/// let done = Chain::new(steps).run(1.0, (), Checkpointed::planner(Async::new(3).steps(50)).store(&store))?;
/// assert!((done.adjoint - 3.92).abs() < 0.01);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Async {
    slots: usize,
    steps: Option<usize>,
    known: Measured,
    /// The last plan: the costs it was for, and its interval.
    planned: Option<(Costs, usize)>,
    /// Steps that are known to exist.
    seen: usize,
    at: usize,
    borders: Vec<Border>,
    stage: Stage,
    pending: VecDeque<Move>,
    inside: Inside,
    /// The length of each interval that was planned.
    lengths: Vec<usize>,
}

/// The first state of an interval, on disk or on its way there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Border {
    step: usize,
    /// The memory slot that it still is in, too.
    memory: Option<usize>,
    /// Whether its write has been waited for.
    waited: bool,
}

#[derive(Clone, Copy)]
enum Stage {
    /// The working state is the first of an interval.
    Start,
    /// The way forward inside an interval that ends at this step, or when the first write is done.
    Forward(Option<usize>),
    /// The working state is the first of those that are reversed next: so many, or up to an end that is not known.
    Turn(Option<usize>),
    /// Steps from here on are reversed; the border below has been fetched to a memory slot, if one was there for it.
    Back {
        front: usize,
        fetched: Option<usize>,
    },
    /// After a kill on the way forward.
    Again,
    Done,
}

/// What runs between two decisions.
enum Inside {
    Nothing,
    Revolve(usize, Box<Revolve>),
    Endless(Box<Endless>),
}

/// An interval is planned anew when a time has changed by more than this part of it.
const CHANGE: f64 = 0.1;

impl Async {
    /// A plan for a chain of unknown length with `slots` memory slots, those of transfers included.
    pub fn new(slots: usize) -> Self {
        Self {
            slots,
            steps: None,
            known: Measured::default(),
            planned: None,
            seen: 1,
            at: 0,
            borders: vec![],
            stage: Stage::Start,
            pending: VecDeque::new(),
            inside: Inside::Nothing,
            lengths: vec![],
        }
    }

    /// The chain has `steps` steps.
    pub fn steps(self, steps: usize) -> Self {
        Self { steps: Some(steps), ..self }
    }

    /// Times known beforehand, say from an earlier run.
    pub fn measured(self, known: Measured) -> Self {
        Self { known, ..self }
    }

    /// The lengths of the intervals planned so far in this pass.
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    fn push(&mut self, action: Action) {
        self.pending.push_back(Move::Do(action));
    }

    /// Whether the step of this number exists.
    fn exists(&mut self, step: usize, view: &mut View<'_>) -> bool {
        if let Some(steps) = self.steps {
            return step < steps;
        }
        if step >= self.seen && (view.more)(step) {
            self.seen = step + 1;
        }
        step < self.seen
    }

    /// The interval for these costs.
    fn interval(&mut self, left: Option<usize>, costs: Costs) -> usize {
        let near = |a: f64, b: f64| (a - b).abs() <= CHANGE * b;
        let same = self.planned.as_ref().filter(|(before, _)| {
            near(costs.forward, before.forward)
                && near(costs.backward, before.backward)
                && near(costs.tier(1).write, before.tier(1).write)
                && near(costs.tier(1).read, before.tier(1).read)
        });
        match same {
            Some((_, length)) => *length,
            None => {
                let length = best_interval(left, self.slots, &costs);
                self.planned = Some((costs, length));
                length
            }
        }
    }

    /// At the first state of an interval: how far to go, and whether to write it.
    fn start(&mut self, view: &View<'_>) {
        let costs = view.measured.or(self.known).costs();
        let left = self.steps.map(|steps| steps - self.at);
        let stop = match (left, &costs) {
            (Some(left), Some(costs)) => left == 1 || stop_here(left, self.slots, costs),
            (left, _) => left == Some(1),
        };
        if stop {
            self.stage = Stage::Turn(left);
            return;
        }
        // Whoever is in the slot that the ring comes to has to be on disk first.
        let place = self.borders.len();
        if place >= self.slots && !self.out_of_memory(place - self.slots..=place - self.slots) {
            return;
        }
        let (memory, step) = (place % self.slots, self.at);
        let (slot, to) = (Slot::memory(memory), Slot::disk(place));
        self.push(Action::Save { step, slot });
        self.push(Action::Copy { step, from: slot, to, keep: true });
        self.pending.push_back(Move::Point { front: None, plan: (self.seen as u64).to_le_bytes().to_vec() });
        self.borders.push(Border { step, memory: Some(memory), waited: false });
        let length = costs.map(|costs| self.interval(left, costs));
        self.lengths.extend(length);
        self.stage = Stage::Forward(length.map(|length| step + length));
    }

    /// Whether these borders have left memory. If not it makes them: first they are waited for, so that a failure is known
    /// before anything is lost.
    fn out_of_memory(&mut self, places: impl Iterator<Item = usize> + Clone) -> bool {
        let mut all = true;
        for place in places.clone() {
            let border = &mut self.borders[place];
            if border.memory.is_some() && !std::mem::replace(&mut border.waited, true) {
                all = false;
                let step = border.step;
                self.push(Action::Wait { step, slot: Slot::disk(place) });
            }
        }
        if all {
            for place in places {
                let Border { step, memory, .. } = &mut self.borders[place];
                let (step, memory) = (*step, memory.take());
                if let Some(memory) = memory {
                    self.push(Action::Free { step, slot: Slot::memory(memory) });
                }
            }
        }
        all
    }

    /// One stride inside an interval.
    fn forward(&mut self, end: Option<usize>, view: &mut View<'_>) {
        let first = self.borders.last().map_or(0, |border| border.step);
        let arrived = match end {
            Some(end) => self.at >= end,
            // Without a measured time the interval ends when its first state is written.
            None => self.at > first && view.measured.or(self.known).costs().is_some(),
        };
        if arrived {
            if end.is_none() {
                self.lengths.push(self.at - first);
            }
            self.stage = Stage::Start;
            return;
        }
        if !self.exists(self.at + 1, view) {
            return self.turn_around();
        }
        let to = match (self.steps, end) {
            (Some(steps), Some(end)) => end.min(steps - 1),
            // Somebody has to be asked after each step: the chain whether it goes on, or the clock.
            _ => self.at + 1,
        };
        self.push(Action::Forward { from: self.at, to });
        self.at = to;
    }

    /// The step from the working state is the last one. The interval is gone through again from its first state.
    fn turn_around(&mut self) {
        let end = self.at + 1;
        if let Some(Border { step, memory, .. }) = self.borders.pop() {
            let disk = Slot::disk(self.borders.len());
            if let Some(memory) = memory {
                self.push(Action::Load { step, slot: Slot::memory(memory), keep: false });
                self.push(Action::Free { step, slot: disk });
            } else {
                self.push(Action::Load { step, slot: disk, keep: false });
            }
            self.at = step;
        }
        self.stage = Stage::Turn(Some(end - self.at));
    }

    /// Reverses what is above the working state with all slots but the one that the next fetch needs.
    fn turn(&mut self, length: Option<usize>) -> Result<()> {
        if !self.out_of_memory(self.borders.len().saturating_sub(self.slots)..self.borders.len()) {
            return Ok(());
        }
        let at = self.at;
        let Some(length) = length else {
            self.stage = Stage::Back { front: at, fetched: None };
            self.inside = Inside::Endless(Box::new(Endless::new(at, self.seen, self.slots)?));
            return Ok(());
        };
        let fetch = self.borders.last().map(|border| border.step).filter(|_| self.slots > 1);
        let own = self.slots - usize::from(fetch.is_some());
        // Revolve uses a slot a step at most, and the lowest ones.
        let fetched = fetch.map(|step| {
            let (from, index) = (Slot::disk(self.borders.len() - 1), own.min(length));
            self.push(Action::Copy { step, from, to: Slot::memory(index), keep: false });
            index
        });
        self.stage = Stage::Back { front: at, fetched };
        self.inside = Inside::Revolve(at, Box::new(Revolve::new(length, own)?));
        Ok(())
    }

    /// Takes the next interval up.
    fn back(&mut self, front: usize, fetched: Option<usize>) {
        let Some(Border { step, .. }) = self.borders.pop() else {
            self.stage = Stage::Done;
            return;
        };
        let plan = (self.seen as u64).to_le_bytes().to_vec();
        self.pending.push_back(Move::Point { front: Some(front), plan });
        let slot = fetched.map_or(Slot::disk(self.borders.len()), Slot::memory);
        self.push(Action::Load { step, slot, keep: false });
        self.at = step;
        self.stage = Stage::Turn(Some(front - step));
    }

    /// A write found no room: goes back to the first snapshot that is not on disk, and on from there in memory.
    fn go_on_in_memory(&mut self, place: usize) {
        let lost = self.borders.split_off(place);
        for (later, &Border { step, memory, .. }) in lost.iter().enumerate().rev() {
            if let Some(slot) = memory.map(Slot::memory) {
                self.push(match later {
                    0 => Action::Load { step, slot, keep: false },
                    _ => Action::Free { step, slot },
                });
            }
            self.push(Action::Free { step, slot: Slot::disk(place + later) });
            self.at = step;
        }
        self.stage = Stage::Turn(self.steps.map(|steps| steps - self.at));
    }

    /// What the running schedule says; between two of them, nothing.
    fn inside(&mut self, view: &mut View<'_>) -> Option<Action> {
        let action = match &mut self.inside {
            Inside::Nothing => None,
            Inside::Revolve(start, revolve) => revolve.next().map(|action| shifted(action, *start)),
            Inside::Endless(endless) => endless.step(view.more),
        };
        if action.is_none() {
            self.inside = Inside::Nothing;
        }
        action
    }

    /// Plans what comes next. All that was planned before is done, so nothing is half in memory.
    fn decide(&mut self, view: &mut View<'_>) -> Result<()> {
        if let Some(place) = self.borders.iter().position(|border| view.failed.contains(&border.step)) {
            self.go_on_in_memory(place);
            return Ok(());
        }
        match self.stage {
            Stage::Start => self.start(view),
            Stage::Forward(end) => self.forward(end, view),
            Stage::Turn(length) => self.turn(length)?,
            Stage::Back { front, fetched } => self.back(front, fetched),
            Stage::Again => {
                if let Some(place) = self.borders.len().checked_sub(1) {
                    let step = self.borders[place].step;
                    self.push(Action::Load { step, slot: Slot::disk(place), keep: true });
                    self.at = step;
                }
                self.stage = Stage::Forward(None);
            }
            Stage::Done => {}
        }
        Ok(())
    }
}

impl Planner for Async {
    fn begin(&mut self) {
        *self = Self { steps: self.steps, known: self.known, ..Self::new(self.slots) };
    }

    fn next(&mut self, view: &mut View<'_>) -> Result<Option<Move>> {
        if self.steps == Some(0) {
            return Err(ScheduleError::NoSteps.into());
        }
        if self.slots == 0 {
            return Err(ScheduleError::NoSlots { steps: self.steps.unwrap_or(self.seen), slots: 0 }.into());
        }
        loop {
            if let Some(next) = self.pending.pop_front() {
                return Ok(Some(next));
            }
            if let Some(action) = self.inside(view) {
                return Ok(Some(Move::Do(action)));
            }
            if matches!(self.stage, Stage::Done) {
                return Ok(None);
            }
            self.decide(view)?;
        }
    }

    fn survives_full(&self) -> bool {
        true
    }

    fn resume(&mut self, front: Option<usize>, plan: &[u8], snapshots: &[usize]) -> bool {
        let Ok(seen) = <[u8; 8]>::try_from(plan) else { return false };
        self.seen = u64::from_le_bytes(seen) as usize;
        let fits = |step: usize| front.is_none_or(|front| step < front);
        if snapshots.first() != Some(&0) || !snapshots.iter().copied().all(fits) {
            return false;
        }
        self.borders = snapshots.iter().map(|&step| Border { step, memory: None, waited: true }).collect();
        self.stage = match front {
            Some(front) => Stage::Back { front, fetched: None },
            None => Stage::Again,
        };
        true
    }

    fn learn(&mut self, measured: Measured) {
        self.known = measured.or(self.known);
    }
}
