//! The planner that looks at the clocks.

mod borders;
mod interval;
mod measuring;
mod way;

use std::collections::VecDeque;

use reprop_schedule::{Action, Error as ScheduleError, Revolve, Slot};

use super::planner::{Endless, Move, Planner, View, shifted};
use super::{Measured, Result};
use borders::{Border, Borders};
use interval::{Rates, best_interval};
use measuring::Measuring;

/// Asynchronous multistage with its interval chosen on the way: the first state of each interval goes to the store in the
/// background, and comes back ahead of its turn while the interval above is reversed with Revolve on the memory
/// slots.
///
/// - While the first state of all is written, the chain goes as Revolve would; the first interval ends when that write does. A
///   chain too short to gain from it writes nothing.
///   From then on each is planned anew from the times measured so far. A shorter interval than a write takes stalls a little
///   and recomputes less; the formula weighs the two.
/// - Where Revolve on the memory slots alone is quicker, for a short chain or a slow store, it goes on as Revolve.
/// - The last interval is reversed where it stands.
/// - The length need not be known: a chain ends where [`Recurrence::has_step`](super::Recurrence::has_step) says so.
/// - A full disk costs time and nothing else: the chain goes on from the snapshot that did not fit, in memory.
///
/// Give the store a queue as long as there are slots (`DiskConfig::queue`): what waits there is in its slot anyway, and a
/// write that takes longer than others holds nobody up.
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
/// assert!((done.adjoint - 3.8575).abs() < 1e-4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Async {
    slots: usize,
    steps: Option<usize>,
    known: Measured,
    /// The last plan: the costs it was for, and its interval.
    planned: Option<(Rates, usize)>,
    /// Steps that are known to exist.
    seen: usize,
    at: usize,
    borders: Borders,
    stage: Stage,
    measuring: Option<Measuring>,
    pending: VecDeque<Move>,
    inside: Inside,
}

#[derive(Clone, Copy)]
enum Stage {
    /// No write has been measured yet: as Revolve would, with the first state on its way to the store.
    Measure,
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
    /// Over the steps from `start` on, with the memory slots from `taken` on moved up by one.
    Revolve {
        start: usize,
        taken: usize,
        /// To do when a slot is free for the rest of it.
        late: Option<Action>,
        revolve: Box<Revolve>,
    },
    Endless(Box<Endless>),
}

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
            borders: Borders::default(),
            stage: Stage::Start,
            measuring: None,
            pending: VecDeque::new(),
            inside: Inside::Nothing,
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
    fn interval(&mut self, rates: &Rates) -> usize {
        if let Some((_, length)) = self.planned.as_ref().filter(|(before, _)| rates.near(before)) {
            return *length;
        }
        let length = best_interval(self.slots, rates);
        self.planned = Some((rates.clone(), length));
        length
    }

    /// What the running schedule says; between two of them, nothing.
    fn inside(&mut self, view: &mut View<'_>) -> Option<Action> {
        let action = match &mut self.inside {
            Inside::Nothing => None,
            Inside::Revolve { start, taken, late, revolve } => {
                let action = revolve.next().map(|action| beside(*taken, shifted(action, *start)));
                if let Some(Action::Reverse { step }) = action
                    && step - *start < self.slots
                {
                    self.pending.extend(late.take().map(Move::Do));
                }
                action
            }
            Inside::Endless(endless) => endless.step(view.more),
        };
        if action.is_none() {
            self.inside = Inside::Nothing;
        }
        action
    }

    /// Plans what comes next. All that was planned before is done, so nothing is half in memory.
    fn decide(&mut self, view: &mut View<'_>) -> Result<()> {
        let failed = |step: &usize| view.failed.contains(step);
        if !view.failed.is_empty()
            && let Some(place) = self.borders.steps().iter().position(failed)
        {
            match self.measuring.take() {
                Some(measuring) => self.go_on_as_revolve(measuring),
                None => self.go_on_in_memory(place),
            }
            return Ok(());
        }
        match self.stage {
            Stage::Measure => self.measure(view),
            Stage::Start => self.start(view)?,
            Stage::Forward(end) => self.forward(end, view),
            Stage::Turn(length) => self.turn(length, view)?,
            Stage::Back { front, fetched } => self.back(front, fetched),
            Stage::Again => {
                if let Some(Border { step, .. }) = self.borders.last() {
                    self.push(Action::Load { step, slot: Slot::disk(self.borders.len() - 1), keep: true });
                    self.at = step;
                }
                // What a write takes is not known here, and measured at the next step.
                self.stage = Stage::Forward(Some(self.at + 1));
            }
            Stage::Done => {}
        }
        Ok(())
    }
}

/// The action with the memory slots from `taken` on moved up by one.
fn beside(taken: usize, mut action: Action) -> Action {
    if let Action::Save { slot, .. } | Action::Load { slot, .. } = &mut action
        && slot.index >= taken
    {
        slot.index += 1;
    }
    action
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
        self.borders = Borders::on_disk(snapshots);
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
