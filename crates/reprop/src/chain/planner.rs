//! Where actions come from.

use std::collections::VecDeque;

use reprop_schedule::{Action, Online, Slot};

use super::{Measured, Result};

/// What a planner knows when it is asked for the next action: all actions before it are done, or under way if they are
/// copies.
pub struct View<'v> {
    /// Times measured so far.
    pub measured: Measured,
    /// Writes to the store that have ended in this pass.
    pub written: usize,
    /// Steps whose snapshots could not be written for want of room; they are still in the memory slots they came from.
    pub failed: &'v [usize],
    /// Whether there is a step of this number; to be asked in order, once each.
    pub more: &'v mut dyn FnMut(usize) -> bool,
}

/// What a planner says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// Do this.
    Do(Action),
    /// All that came before is done, and memory slots hold nothing that is needed: from these bytes and the snapshots in the
    /// store, [`Planner::resume`] goes on after a kill. `front` is the step that is the lowest one reversed, or none if none is.
    Point {
        /// Steps from here on are reversed.
        front: Option<usize>,
        /// What the planner has to know.
        plan: Vec<u8>,
    },
}

/// Says what to do next. Schedules of `reprop-schedule` are planners as they are ([`Planned`]); one that looks at clocks is
/// [`Async`](super::Async).
pub trait Planner {
    /// A new pass begins.
    fn begin(&mut self) {}

    /// The next move, or `None` when all steps are reversed.
    ///
    /// # Errors
    ///
    /// A plan that cannot be made.
    fn next(&mut self, view: &mut View<'_>) -> Result<Option<Move>>;

    /// Whether it knows a way on when a snapshot finds no room ([`View::failed`]). Else that is an error.
    fn survives_full(&self) -> bool {
        false
    }

    /// Goes on from a [`Move::Point`], with the snapshots of these steps in the disk slots of their places in the list.
    /// Returns whether it can.
    fn resume(&mut self, front: Option<usize>, plan: &[u8], snapshots: &[usize]) -> bool {
        let _ = (front, plan, snapshots);
        false
    }

    /// The next snapshot, if that is known, that an action to come will want from disk: `(step, slot)`, each told once.
    fn ahead(&mut self) -> Option<(usize, Slot)> {
        None
    }

    /// What this pass taught, for the next one.
    fn learn(&mut self, measured: Measured) {
        let _ = measured;
    }
}

impl<P: Planner + ?Sized> Planner for &mut P {
    fn begin(&mut self) {
        (**self).begin();
    }

    fn next(&mut self, view: &mut View<'_>) -> Result<Option<Move>> {
        (**self).next(view)
    }

    fn survives_full(&self) -> bool {
        (**self).survives_full()
    }

    fn resume(&mut self, front: Option<usize>, plan: &[u8], snapshots: &[usize]) -> bool {
        (**self).resume(front, plan, snapshots)
    }

    fn ahead(&mut self) -> Option<(usize, Slot)> {
        (**self).ahead()
    }

    fn learn(&mut self, measured: Measured) {
        (**self).learn(measured);
    }
}

/// How many actions ahead a schedule is searched for reads. A read asked for earlier would hold memory for longer.
const WINDOW: usize = 128;

/// Any iterator of actions as a planner.
pub struct Planned<I> {
    schedule: I,
    /// Actions to come, searched for reads already.
    window: VecDeque<Action>,
    reads: VecDeque<(usize, Slot)>,
}

impl<I: Iterator<Item = Action>> Planned<I> {
    /// The planner that says what `schedule` says.
    pub fn new(schedule: impl IntoIterator<Item = Action, IntoIter = I>) -> Self {
        Self { schedule: schedule.into_iter(), window: VecDeque::new(), reads: VecDeque::new() }
    }
}

impl<I: Iterator<Item = Action>> Planner for Planned<I> {
    fn next(&mut self, _: &mut View<'_>) -> Result<Option<Move>> {
        while self.window.len() < WINDOW
            && let Some(action) = self.schedule.next()
        {
            self.reads.extend(read_from_disk(&action));
            self.window.push_back(action);
        }
        Ok(self.window.pop_front().map(Move::Do))
    }

    fn ahead(&mut self) -> Option<(usize, Slot)> {
        self.reads.pop_front()
    }
}

/// A chain of unknown length under [`Online`]: it ends where the recurrence says so.
pub(super) struct Endless {
    forward: Option<Online>,
    rest: Option<Box<dyn Iterator<Item = Action>>>,
    /// Steps known to exist.
    known: usize,
    /// The step that the plan takes for its first, and its number in the chain.
    shift: usize,
}

impl Endless {
    /// From step `shift` on with `slots` memory slots; steps below `known` exist.
    pub fn new(shift: usize, known: usize, slots: usize) -> Result<Self> {
        Ok(Self { forward: Some(Online::new(slots)?), rest: None, known: known.max(shift + 1), shift })
    }

    /// The next action, and how many steps are known to exist.
    pub fn step(&mut self, more: &mut dyn FnMut(usize) -> bool) -> Option<Action> {
        if let Some(online) = &mut self.forward {
            // The step from the working state is the last one if there is none behind it.
            let behind = self.shift + online.at() + 1;
            if behind < self.known || more(behind) {
                self.known = self.known.max(behind + 1);
                return online.next().map(|action| shifted(action, self.shift));
            }
            self.rest = self.forward.take().map(|online| Box::new(online.finish()) as Box<_>);
        }
        self.rest.as_mut().and_then(Iterator::next).map(|action| shifted(action, self.shift))
    }
}

impl Planner for Endless {
    fn next(&mut self, view: &mut View<'_>) -> Result<Option<Move>> {
        Ok(self.step(view.more).map(Move::Do))
    }
}

/// The same action `by` steps higher in the chain.
pub(super) fn shifted(action: Action, by: usize) -> Action {
    match action {
        Action::Forward { from, to } => Action::Forward { from: from + by, to: to + by },
        Action::Save { step, slot } => Action::Save { step: step + by, slot },
        Action::Load { step, slot, keep } => Action::Load { step: step + by, slot, keep },
        Action::Copy { step, from, to, keep } => Action::Copy { step: step + by, from, to, keep },
        Action::Free { step, slot } => Action::Free { step: step + by, slot },
        Action::Wait { step, slot } => Action::Wait { step: step + by, slot },
        Action::Record { step, slot } => Action::Record { step: step + by, slot },
        Action::Reverse { step } => Action::Reverse { step: step + by },
        Action::ReverseRecorded { step, slot } => Action::ReverseRecorded { step: step + by, slot },
    }
}

/// The slot that an action takes a snapshot from, if that is on disk, and the step.
pub(super) fn read_from_disk(action: &Action) -> Option<(usize, Slot)> {
    match *action {
        Action::Load { step, slot, .. } if slot.tier > 0 => Some((step, slot)),
        Action::Copy { step, from, .. } if from.tier > 0 => Some((step, from)),
        _ => None,
    }
}
