//! Does what actions say.

use reprop_schedule::{Action, Slot};
use reprop_store::Payload;

use super::clock::Clocks;
use super::disk::{self, Disk, Outgoing};
use super::{ChainReport, Error, Recurrence, Result, State};

/// What a memory slot holds.
enum Content<R: Recurrence> {
    Nothing,
    State(usize, R::State),
    /// A state as bytes, shared with the store that is writing it.
    Bytes(usize, Payload),
    Tape(usize, R::Tape, usize),
    /// A state that the store is reading ahead, from this disk slot, which keeps it or not.
    Incoming {
        step: usize,
        disk: usize,
        keep: bool,
    },
}

impl<R: Recurrence> Content<R> {
    fn bytes(&self) -> u64 {
        match self {
            Self::Nothing | Self::Incoming { .. } => 0,
            Self::State(_, state) => state.bytes() as u64,
            Self::Bytes(_, payload) => payload.len() as u64,
            Self::Tape(_, _, bytes) => *bytes as u64,
        }
    }
}

/// A chain in the middle of its reversal: the working state, the slots, the adjoint and the sum.
pub(super) struct Machine<'m, R: Recurrence> {
    recurrence: &'m mut R,
    work: Option<(usize, R::State)>,
    /// What states are read into: of the chain's kind, and empty.
    kind: R::State,
    memory: Vec<Content<R>>,
    pub disk: Disk<'m>,
    /// Steps from here on are reversed.
    pub front: Option<usize>,
    pub adjoint: Option<R::Adjoint>,
    pub sum: R::Sum,
    pub last: Option<R::State>,
    pub report: ChainReport,
    pub clocks: Clocks,
    /// Whether a snapshot without room is no error.
    survives_full: bool,
    in_use: usize,
    held_bytes: u64,
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
            memory: vec![],
            disk,
            front: None,
            adjoint: None,
            sum,
            last: None,
            report: ChainReport::default(),
            clocks,
            survives_full,
            in_use: 0,
            held_bytes: 0,
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

    /// Looks through the writes under way.
    pub fn settle(&mut self) -> Result<()> {
        let mut place = 0;
        while place < self.disk.outgoing.len() {
            let Some(outcome) = self.disk.outgoing[place].ticket.outcome() else {
                place += 1;
                continue;
            };
            let Outgoing { step, memory, begun, .. } = self.disk.outgoing.swap_remove(place);
            self.clocks.transfer(step, begun);
            self.disk.news = true;
            match (outcome, memory) {
                (Ok(()), Some((slot, false))) => {
                    if matches!(self.memory[slot], Content::Bytes(held, _) if held == step) {
                        self.replace(slot, Content::Nothing);
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
        let start = self.clocks.now();
        for step in from..to {
            state = self.recurrence.advance(step, state);
        }
        self.clocks.forward(from, to, start);
        self.report.advances += (to - from) as u64;
        self.work = Some((to, state));
        Ok(())
    }

    fn save(&mut self, action: &Action, step: usize, slot: Slot) -> Result<()> {
        let held = self.at();
        let Some((_, state)) = self.work.as_ref().filter(|(at, _)| *at == step) else {
            return Err(Error::Elsewhere { action: *action, held });
        };
        self.report.snapshots += 1;
        if slot.tier == 0 {
            let content = Content::State(step, state.clone());
            return self.fill(action, slot, content);
        }
        let payload = disk::payload(state);
        self.put(action, step, slot, payload, None)
    }

    /// Hands a snapshot to the store. One that finds no room at once stays where it came from.
    fn put(
        &mut self,
        action: &Action,
        step: usize,
        slot: Slot,
        payload: Payload,
        memory: Option<(usize, bool)>,
    ) -> Result<()> {
        if self.disk.held(slot.index).is_some() {
            return Err(Error::Slot { action: *action, slot, found: "is in use" });
        }
        self.report.disk_writes += 1;
        let begun = self.clocks.now();
        match self.disk.put(action, step, slot.index, payload)? {
            Some(ticket) => self.disk.outgoing.push(Outgoing { step, memory, ticket, begun }),
            None if memory.is_some() && self.survives_full => self.report.without_room += 1,
            None => return Err(Error::Slot { action: *action, slot, found: "finds no room in the store" }),
        }
        Ok(())
    }

    fn load(&mut self, action: &Action, step: usize, slot: Slot, keep: bool) -> Result<()> {
        if self.front.is_some_and(|front| step >= front) {
            return Err(Error::OutOfOrder {
                action: *action,
                next: self.front.and_then(|front| front.checked_sub(1)),
            });
        }
        let state = if slot.tier > 0 {
            self.expect_disk(action, step, slot)?;
            self.fetch(action, step, slot.index, keep)?
        } else {
            self.load_from_memory(action, step, slot, keep)?
        };
        self.work = Some((step, state));
        Ok(())
    }

    fn load_from_memory(&mut self, action: &Action, step: usize, slot: Slot, keep: bool) -> Result<R::State> {
        self.arrive(action, slot)?;
        match self.memory.get_mut(slot.index) {
            Some(Content::State(held, state)) if *held == step => {
                if keep {
                    return Ok(state.clone());
                }
                match self.replace(slot.index, Content::Nothing) {
                    Content::State(_, state) => Ok(state),
                    _ => Err(Error::Slot { action: *action, slot, found: "holds something else" }),
                }
            }
            Some(Content::Bytes(held, payload)) if *held == step => {
                let state = disk::state(&self.kind, payload, step)?;
                if !keep {
                    self.replace(slot.index, Content::Nothing);
                }
                Ok(state)
            }
            Some(Content::Nothing) | None => Err(Error::Slot { action: *action, slot, found: "is empty" }),
            Some(_) => Err(Error::Slot { action: *action, slot, found: "holds something else" }),
        }
    }

    /// The snapshot in a disk slot, as a state.
    fn fetch(&mut self, action: &Action, step: usize, index: usize, keep: bool) -> Result<R::State> {
        self.report.disk_reads += 1;
        let begun = self.clocks.now();
        let payload = self.disk.take(action, step, index, keep)?;
        self.clocks.transfer(step, begun);
        disk::state(&self.kind, &payload, step)
    }

    /// Waits for a slot that is being read ahead.
    fn arrive(&mut self, action: &Action, slot: Slot) -> Result<()> {
        if let Some(&Content::Incoming { step, disk, keep }) = self.memory.get(slot.index) {
            let state = self.fetch(action, step, disk, keep)?;
            self.replace(slot.index, Content::State(step, state));
        }
        Ok(())
    }

    fn write_behind(
        &mut self,
        action: &Action,
        step: usize,
        (from, to): (Slot, Slot),
        keep: bool,
    ) -> Result<()> {
        self.arrive(action, from)?;
        let payload = match self.memory.get(from.index) {
            Some(Content::State(held, state)) if *held == step => disk::payload(state),
            Some(Content::Bytes(held, payload)) if *held == step => payload.clone(),
            _ => return Err(Error::Slot { action: *action, slot: from, found: "does not hold it" }),
        };
        // Shared with the store, so that a snapshot on its way is in memory once.
        self.replace(from.index, Content::Bytes(step, payload.clone()));
        self.put(action, step, to, payload, Some((from.index, keep)))
    }

    fn read_ahead(
        &mut self,
        action: &Action,
        step: usize,
        (from, to): (Slot, Slot),
        keep: bool,
    ) -> Result<()> {
        if to.tier > 0 {
            return Err(Error::Slot { action: *action, slot: to, found: "is not in memory" });
        }
        self.expect_disk(action, step, from)?;
        self.fill(action, to, Content::Incoming { step, disk: from.index, keep })?;
        self.disk.prefetch(step)?;
        Ok(())
    }

    fn expect_disk(&self, action: &Action, step: usize, slot: Slot) -> Result<()> {
        match self.disk.held(slot.index) {
            Some(held) if held == step => Ok(()),
            Some(_) => Err(Error::Slot { action: *action, slot, found: "holds something else" }),
            None => Err(Error::Slot { action: *action, slot, found: "is empty" }),
        }
    }

    fn free(&mut self, action: &Action, step: usize, slot: Slot) -> Result<()> {
        if slot.tier > 0 {
            self.expect_disk(action, step, slot)?;
            return self.disk.free(action, step, slot.index);
        }
        self.wait_for_copies(slot)?;
        match self.memory.get(slot.index) {
            Some(Content::Nothing) | None => Err(Error::Slot { action: *action, slot, found: "is empty" }),
            Some(&Content::Incoming { step, disk, keep: false }) => {
                self.disk.free(action, step, disk)?;
                self.replace(slot.index, Content::Nothing);
                Ok(())
            }
            Some(_) => {
                self.replace(slot.index, Content::Nothing);
                Ok(())
            }
        }
    }

    fn wait(&mut self, action: &Action, step: usize, slot: Slot) -> Result<()> {
        if slot.tier > 0 {
            self.expect_disk(action, step, slot)?;
            self.disk.wait(step);
            return Ok(());
        }
        self.arrive(action, slot)?;
        self.wait_for_copies(slot)
    }

    /// Waits for the writes that leave from a memory slot.
    fn wait_for_copies(&mut self, slot: Slot) -> Result<()> {
        let leaving = |outgoing: &&Outgoing| outgoing.memory.is_some_and(|(memory, _)| memory == slot.index);
        let steps: Vec<usize> =
            self.disk.outgoing.iter().filter(leaving).map(|outgoing| outgoing.step).collect();
        steps.into_iter().for_each(|step| self.disk.wait(step));
        self.settle()
    }

    fn record(&mut self, action: &Action, step: usize, slot: Slot) -> Result<()> {
        let state = self.take_work(action, step)?;
        let start = self.clocks.now();
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
        let start = self.clocks.now();
        let adjoint = match self.adjoint.take() {
            Some(adjoint) => self.recurrence.reverse_from(step, state, adjoint, &mut self.sum),
            None => {
                let (last, tape) = self.recurrence.record(step, state);
                let seed = self.recurrence.seed(&last, &mut self.sum);
                self.last = Some(last);
                self.report.steps = step + 1;
                self.recurrence.reverse(step, tape, seed, &mut self.sum)
            }
        };
        self.clocks.reverse(step, start);
        (self.adjoint, self.front) = (Some(adjoint), Some(step));
        Ok(())
    }

    fn reverse_recorded(&mut self, action: &Action, step: usize, slot: Slot) -> Result<()> {
        self.expect_front(action, step)?;
        let held = matches!(self.memory.get(slot.index), Some(Content::Tape(held, ..)) if *held == step);
        let (Content::Tape(_, tape, _), Some(adjoint)) = (
            if held { self.replace(slot.index, Content::Nothing) } else { Content::Nothing },
            self.adjoint.take(),
        ) else {
            return Err(Error::Slot { action: *action, slot, found: "does not hold it" });
        };
        let start = self.clocks.now();
        self.adjoint = Some(self.recurrence.reverse(step, tape, adjoint, &mut self.sum));
        self.clocks.reverse_recorded(step, start);
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

    fn fill(&mut self, action: &Action, slot: Slot, content: Content<R>) -> Result<()> {
        if slot.tier > 0 {
            return Err(Error::Slot {
                action: *action,
                slot,
                found: "is not in memory, and holds states alone",
            });
        }
        while self.memory.len() <= slot.index {
            self.memory.push(Content::Nothing);
        }
        if matches!(self.memory[slot.index], Content::Bytes(..)) {
            self.wait_for_copies(slot)?;
        }
        if !matches!(self.memory[slot.index], Content::Nothing) {
            return Err(Error::Slot { action: *action, slot, found: "is in use" });
        }
        self.replace(slot.index, content);
        Ok(())
    }

    fn replace(&mut self, index: usize, content: Content<R>) -> Content<R> {
        let before = std::mem::replace(&mut self.memory[index], content);
        let used = |content: &Content<R>| usize::from(!matches!(content, Content::Nothing));
        self.in_use = self.in_use + used(&self.memory[index]) - used(&before);
        self.held_bytes = self.held_bytes + self.memory[index].bytes() - before.bytes();
        self.report.peak_slots = self.report.peak_slots.max(self.in_use);
        self.report.peak_bytes = self.report.peak_bytes.max(self.held_bytes);
        before
    }
}
