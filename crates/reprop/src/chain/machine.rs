//! Does what actions say.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use reprop_schedule::{Action, Slot};

use super::clock::Clocks;
use super::disk::{Disk, Outgoing};
use super::slots::{Content, Slots};
use super::{ChainReport, Error, Recurrence, Result, State};

/// A chain in the middle of its reversal: the working state, the slots, the adjoint and the sum.
pub(super) struct Machine<'m, R: Recurrence> {
    pub(super) recurrence: &'m mut R,
    pub(super) work: Option<(usize, R::State)>,
    /// What states are read into: of the chain's kind, and empty.
    pub(super) kind: R::State,
    pub memory: Slots<R>,
    pub disk: Disk<'m>,
    /// Steps from here on are reversed.
    pub front: Option<usize>,
    pub adjoint: Option<R::Adjoint>,
    pub sum: R::Sum,
    pub last: Option<R::State>,
    pub report: ChainReport,
    pub clocks: Clocks,
    /// Whether a snapshot without room is no error.
    pub(super) survives_full: bool,
    /// Set when the pass is to end.
    pub stop: Option<&'m AtomicBool>,
}

impl<'m, R: Recurrence> Machine<'m, R> {
    pub fn new(
        recurrence: &'m mut R,
        start: R::State,
        sum: R::Sum,
        disk: Disk<'m>,
        clocks: Clocks,
        survives_full: bool,
    ) -> Self {
        let kind = start.empty();
        Self {
            recurrence,
            work: Some((0, start)),
            kind,
            memory: Slots::default(),
            disk,
            front: None,
            adjoint: None,
            sum,
            last: None,
            report: ChainReport::default(),
            clocks,
            survives_full,
            stop: None,
        }
    }

    /// Where the working state is.
    pub fn at(&self) -> Option<usize> {
        self.work.as_ref().map(|(step, _)| *step)
    }

    pub fn kind(&self) -> &R::State {
        &self.kind
    }

    /// A kind of adjoint to read one into, made from the last state. The sum is not touched.
    pub fn kind_of_adjoint(&mut self, last: &R::State) -> R::Adjoint {
        self.recurrence.seed(last, &mut self.sum.clone())
    }

    pub fn has_step(&mut self, step: usize) -> bool {
        self.recurrence.has_step(step)
    }

    /// An error if the pass is to end here.
    pub fn go_on(&self) -> Result<()> {
        if self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(Error::Interrupted { at: self.at(), front: self.front });
        }
        Ok(())
    }

    pub fn apply(&mut self, action: &Action) -> Result<()> {
        match *action {
            Action::Forward { from, to } => self.forward(action, from, to),
            Action::Save { step, slot } => self.save(action, step, slot),
            Action::Load { step, slot, keep } => self.load(action, step, slot, keep),
            Action::Copy { step, from, to, keep } if to.tier > 0 && from.tier == 0 => {
                self.write_behind(action, step, (from, to), keep)
            }
            Action::Copy { step, from, to, keep } => self.read_ahead(action, step, (from, to), keep),
            Action::Free { step, slot } => self.free(action, step, slot),
            Action::Wait { step, slot } => self.wait(action, step, slot),
            Action::Record { step, slot } => self.record(action, step, slot),
            Action::Reverse { step } => self.reverse(action, step),
            Action::ReverseRecorded { step, slot } => self.reverse_recorded(action, step, slot),
        }
    }

    /// Looks through the writes under way, and what waits to be one.
    pub fn settle(&mut self) -> Result<()> {
        self.hand_over(|departing| departing.cargo.is_there())?;
        let mut place = 0;
        while place < self.disk.outgoing.len() {
            let Some(outcome) = self.disk.outgoing[place].ticket.outcome() else {
                place += 1;
                continue;
            };
            let Outgoing { step, memory, begun, .. } = self.disk.outgoing.swap_remove(place);
            self.clocks.transfer(step, begun);
            self.disk.news = true;
            self.disk.written += 1;
            match (outcome, memory) {
                (Ok(()), Some((slot, false))) => {
                    if matches!(self.memory.get(slot), Some(Content::Bytes(held, _)) if *held == step) {
                        self.memory.replace(slot, Content::Nothing);
                    }
                }
                (Ok(()), _) => {}
                (Err(error), Some(_)) if error.is_full() && self.survives_full => {
                    self.disk.failed.push(step);
                    self.report.without_room += 1;
                }
                (Err(error), _) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn forward(&mut self, action: &Action, from: usize, to: usize) -> Result<()> {
        let mut state = self.take_work(action, from)?;
        if to <= from || self.front.is_some_and(|front| to >= front) {
            return Err(Error::OutOfOrder {
                action: *action,
                next: self.front.and_then(|front| front.checked_sub(1)),
            });
        }
        let (beside, start) = (self.disk.is_busy(), Instant::now());
        for step in from..to {
            if step > from && self.stop.is_some() {
                self.work = Some((step, state));
                self.go_on()?;
                state = self.take_work(action, step)?;
            }
            state = self.recurrence.advance(step, state);
        }
        self.clocks.forward(from, to, beside, start);
        self.report.advances += (to - from) as u64;
        self.work = Some((to, state));
        Ok(())
    }

    fn record(&mut self, action: &Action, step: usize, slot: Slot) -> Result<()> {
        let state = self.take_work(action, step)?;
        let start = Instant::now();
        let (next, tape) = self.recurrence.record(step, state);
        self.clocks.record(step, start);
        let bytes = self.recurrence.tape_bytes(&tape);
        self.report.snapshots += 1;
        self.work = Some((step + 1, next));
        self.fill(action, slot, Content::Tape(step, tape, bytes))
    }

    fn reverse(&mut self, action: &Action, step: usize) -> Result<()> {
        let state = self.take_work(action, step)?;
        self.expect_front(action, step)?;
        let (beside, start) = (self.disk.is_busy(), Instant::now());
        let adjoint = if let Some(adjoint) = self.adjoint.take() {
            self.recurrence.reverse_from(step, state, adjoint, &mut self.sum)
        } else {
            let (last, tape) = self.recurrence.record(step, state);
            let seed = self.recurrence.seed(&last, &mut self.sum);
            self.last = Some(last);
            self.report.steps = step + 1;
            self.recurrence.reverse(step, tape, seed, &mut self.sum)
        };
        self.clocks.reverse(step, beside, start);
        (self.adjoint, self.front) = (Some(adjoint), Some(step));
        Ok(())
    }

    fn reverse_recorded(&mut self, action: &Action, step: usize, slot: Slot) -> Result<()> {
        self.expect_front(action, step)?;
        let held = matches!(self.memory.get(slot.index), Some(Content::Tape(held, ..)) if *held == step);
        let (Content::Tape(_, tape, _), Some(adjoint)) = (
            if held { self.memory.replace(slot.index, Content::Nothing) } else { Content::Nothing },
            self.adjoint.take(),
        ) else {
            return Err(Error::Slot { action: *action, slot, found: "does not hold it" });
        };
        let (beside, start) = (self.disk.is_busy(), Instant::now());
        self.adjoint = Some(self.recurrence.reverse(step, tape, adjoint, &mut self.sum));
        self.clocks.reverse_recorded(step, beside, start);
        (self.work, self.front) = (None, Some(step));
        Ok(())
    }

    /// Steps are reversed from the last to the first; any may be the last while none is reversed.
    fn expect_front(&self, action: &Action, step: usize) -> Result<()> {
        if self.front.is_none_or(|front| step + 1 == front) {
            return Ok(());
        }
        Err(Error::OutOfOrder { action: *action, next: self.front.and_then(|front| front.checked_sub(1)) })
    }

    fn take_work(&mut self, action: &Action, step: usize) -> Result<R::State> {
        let held = self.at();
        match self.work.take() {
            Some((at, state)) if at == step => Ok(state),
            _ => Err(Error::Elsewhere { action: *action, held }),
        }
    }
}
