//! Actions that move states: to slots, to the store, and back.

use std::time::Instant;

use reprop_schedule::{Action, Slot};

use super::disk::{self, Cargo, Departing, Outgoing};
use super::machine::Machine;
use super::slots::Content;
use super::{Error, Recurrence, Result};

impl<R: Recurrence> Machine<'_, R> {
    pub(super) fn save(&mut self, action: &Action, step: usize, slot: Slot) -> Result<()> {
        let held = self.at();
        let Some((_, state)) = self.work.as_ref().filter(|(at, _)| *at == step) else {
            return Err(Error::Elsewhere { action: *action, held });
        };
        self.report.snapshots += 1;
        if slot.tier == 0 {
            let start = Instant::now();
            let content = Content::State(step, state.clone());
            self.clocks.save(start);
            return self.fill(action, slot, content);
        }
        let cargo = Cargo::of(state);
        self.depart(action, step, slot, cargo, None)
    }

    /// Lets a snapshot leave for the store, which takes it at once if its bytes are there.
    fn depart(
        &mut self,
        action: &Action,
        step: usize,
        slot: Slot,
        cargo: Cargo,
        memory: Option<(usize, bool)>,
    ) -> Result<()> {
        if self.disk.is_taken(slot.index) {
            return Err(Error::Slot { action: *action, slot, found: "is in use" });
        }
        self.report.disk_writes += 1;
        let begun = Instant::now();
        self.disk.departing.push(Departing { action: *action, step, slot, memory, cargo, begun });
        self.hand_over(|departing| departing.cargo.is_there())
    }

    /// Hands those snapshots to the store that `goes` says, waiting for their bytes.
    pub(super) fn hand_over(&mut self, mut goes: impl FnMut(&mut Departing) -> bool) -> Result<()> {
        let mut place = 0;
        while place < self.disk.departing.len() {
            if goes(&mut self.disk.departing[place]) {
                let departing = self.disk.departing.remove(place);
                self.put(departing)?;
            } else {
                place += 1;
            }
        }
        Ok(())
    }

    /// Hands a snapshot to the store. One that finds no room at once stays where it came from.
    fn put(&mut self, departing: Departing) -> Result<()> {
        let Departing { action, step, slot, memory, cargo, begun } = departing;
        let payload = cargo.into_payload();
        if let Some((index, _)) = memory
            && matches!(self.memory.get(index), Some(Content::State(held, _)) if *held == step)
        {
            // Shared with the store, so that a snapshot on its way is in memory once.
            self.memory.replace(index, Content::Bytes(step, payload.clone()));
        }
        match self.disk.put(&action, step, slot.index, &payload)? {
            Some(ticket) => self.disk.outgoing.push(Outgoing { step, memory, ticket, begun }),
            None if memory.is_some() && self.survives_full => self.report.without_room += 1,
            None => return Err(Error::Slot { action, slot, found: "finds no room in the store" }),
        }
        Ok(())
    }

    pub(super) fn load(&mut self, action: &Action, step: usize, slot: Slot, keep: bool) -> Result<()> {
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
        let start = Instant::now();
        let state = match self.memory.get(slot.index) {
            Some(Content::State(held, state)) if *held == step => keep.then(|| state.clone()),
            Some(Content::Bytes(held, payload)) if *held == step => {
                Some(disk::state(&self.kind, payload, step)?)
            }
            Some(Content::Nothing) | None => {
                return Err(Error::Slot { action: *action, slot, found: "is empty" });
            }
            Some(_) => return Err(Error::Slot { action: *action, slot, found: "holds something else" }),
        };
        let given = if keep { Content::Nothing } else { self.memory.replace(slot.index, Content::Nothing) };
        let ((Some(state), _) | (None, Content::State(_, state))) = (state, given) else {
            return Err(Error::Slot { action: *action, slot, found: "holds something else" });
        };
        self.clocks.load(start);
        Ok(state)
    }

    /// The snapshot in a disk slot, as a state.
    fn fetch(&mut self, action: &Action, step: usize, index: usize, keep: bool) -> Result<R::State> {
        self.report.disk_reads += 1;
        let begun = Instant::now();
        let payload = self.disk.take(action, step, index, keep)?;
        self.clocks.transfer(step, begun);
        disk::state(&self.kind, &payload, step)
    }

    /// Waits for a slot that is being read ahead.
    fn arrive(&mut self, action: &Action, slot: Slot) -> Result<()> {
        if let Some(&Content::Incoming { step, disk, keep }) = self.memory.get(slot.index) {
            let state = self.fetch(action, step, disk, keep)?;
            self.memory.replace(slot.index, Content::State(step, state));
        }
        Ok(())
    }

    pub(super) fn write_behind(
        &mut self,
        action: &Action,
        step: usize,
        (from, to): (Slot, Slot),
        keep: bool,
    ) -> Result<()> {
        self.arrive(action, from)?;
        self.hand_over(|departing| departing.is_from(from))?;
        let cargo = match self.memory.get(from.index) {
            Some(Content::State(held, state)) if *held == step => Cargo::of(state),
            Some(Content::Bytes(held, payload)) if *held == step => Cargo::There(payload.clone()),
            _ => return Err(Error::Slot { action: *action, slot: from, found: "does not hold it" }),
        };
        self.depart(action, step, to, cargo, Some((from.index, keep)))
    }

    pub(super) fn read_ahead(
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

    fn expect_disk(&mut self, action: &Action, step: usize, slot: Slot) -> Result<()> {
        self.hand_over(|departing| departing.slot.index == slot.index)?;
        match self.disk.held(slot.index) {
            Some(held) if held == step => Ok(()),
            Some(_) => Err(Error::Slot { action: *action, slot, found: "holds something else" }),
            None => Err(Error::Slot { action: *action, slot, found: "is empty" }),
        }
    }

    pub(super) fn free(&mut self, action: &Action, step: usize, slot: Slot) -> Result<()> {
        if slot.tier > 0 {
            self.expect_disk(action, step, slot)?;
            return self.disk.free(action, step, slot.index);
        }
        self.wait_for_copies(slot)?;
        match self.memory.get(slot.index) {
            Some(Content::Nothing) | None => Err(Error::Slot { action: *action, slot, found: "is empty" }),
            Some(&Content::Incoming { step, disk, keep: false }) => {
                self.disk.free(action, step, disk)?;
                self.memory.replace(slot.index, Content::Nothing);
                Ok(())
            }
            Some(_) => {
                self.memory.replace(slot.index, Content::Nothing);
                Ok(())
            }
        }
    }

    pub(super) fn wait(&mut self, action: &Action, step: usize, slot: Slot) -> Result<()> {
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
        self.hand_over(|departing| departing.is_from(slot))?;
        let leaving = |outgoing: &&Outgoing| outgoing.memory.is_some_and(|(memory, _)| memory == slot.index);
        let steps: Vec<usize> =
            self.disk.outgoing.iter().filter(leaving).map(|outgoing| outgoing.step).collect();
        for step in steps {
            self.disk.wait(step);
        }
        self.settle()
    }

    pub(super) fn fill(&mut self, action: &Action, slot: Slot, content: Content<R>) -> Result<()> {
        if slot.tier > 0 {
            return Err(Error::Slot {
                action: *action,
                slot,
                found: "is not in memory, and holds states alone",
            });
        }
        self.hand_over(|departing| departing.is_from(slot))?;
        if matches!(self.memory.get(slot.index), Some(Content::Bytes(..))) {
            self.wait_for_copies(slot)?;
        }
        if !matches!(self.memory.get(slot.index), None | Some(Content::Nothing)) {
            return Err(Error::Slot { action: *action, slot, found: "is in use" });
        }
        self.memory.replace(slot.index, content);
        Ok(())
    }
}
