//! The tier beside memory: disk slots over a store.

use std::num::NonZeroUsize;
use std::time::Instant;

use reprop_schedule::{Action, Slot};
use reprop_store::{Dtype, Error as StoreError, Key, Payload, Store, Ticket};

use super::{Departure, Error, Measured, Result, State};

/// The sequence of the states in a store.
pub(super) const STATES: u64 = 0;
/// The sequence of what a durable point needs beside them.
pub(super) const POINT: u64 = 1;

/// A snapshot that may still be copied out of its device.
pub(super) enum Cargo {
    Coming(Dtype, Departure),
    There(Payload),
}

impl Cargo {
    /// That of a state, asked for.
    pub fn of<S: State>(state: &S) -> Self {
        let mut bytes = Departure::new();
        bytes.bytes().reserve(state.bytes());
        state.depart(&mut bytes);
        let dtype = match state.element_bytes() {
            8 => Dtype::F64,
            4 => Dtype::F32,
            2 => Dtype::F16,
            _ => Dtype::Bytes,
        };
        Self::Coming(dtype, bytes)
    }

    pub fn is_there(&mut self) -> bool {
        match self {
            Self::Coming(_, bytes) => bytes.is_there(),
            Self::There(_) => true,
        }
    }

    /// As the store takes it, waited for.
    pub fn into_payload(self) -> Payload {
        match self {
            Self::Coming(dtype, bytes) => Payload::new(dtype, bytes.into_bytes()),
            Self::There(payload) => payload,
        }
    }
}

/// A snapshot that is leaving for a slot of the store, which has not been given it yet.
pub(super) struct Departing {
    pub action: Action,
    pub step: usize,
    pub slot: Slot,
    /// As of [`Outgoing`].
    pub memory: Option<(usize, bool)>,
    pub cargo: Cargo,
    pub begun: Instant,
}

impl Departing {
    /// Whether it leaves from that memory slot.
    pub fn is_from(&self, slot: Slot) -> bool {
        self.memory.is_some_and(|(memory, _)| memory == slot.index)
    }
}

/// A write under way.
pub(super) struct Outgoing {
    pub step: usize,
    /// The memory slot it left from, and whether that keeps it; none if it left from the working state.
    pub memory: Option<(usize, bool)>,
    pub ticket: Ticket,
    pub begun: Instant,
}

/// Disk slots, each a snapshot in the store under its step's number.
pub(super) struct Disk<'s> {
    store: Option<&'s dyn Store>,
    /// The number after that of the step that each slot holds. There may be a great many.
    slots: Vec<Option<NonZeroUsize>>,
    /// In the order in which they left.
    pub departing: Vec<Departing>,
    pub outgoing: Vec<Outgoing>,
    /// Steps whose snapshots found no room.
    pub failed: Vec<usize>,
    pub stall: f64,
    pub raw_written: u64,
    pub raw_read: u64,
    /// Bytes of one snapshot.
    size: usize,
    /// Writes that have ended.
    pub written: usize,
    /// Whether a transfer has ended since the store was last asked for its times.
    pub news: bool,
    /// When a snapshot was last asked for ahead, and what a read takes.
    asked: Option<Instant>,
    read_seconds: f64,
}

impl<'s> Disk<'s> {
    pub fn new(store: Option<&'s dyn Store>) -> Self {
        Self {
            store,
            slots: vec![],
            departing: vec![],
            outgoing: vec![],
            failed: vec![],
            stall: 0.0,
            raw_written: 0,
            raw_read: 0,
            size: 0,
            written: 0,
            news: false,
            asked: None,
            read_seconds: 0.0,
        }
    }

    pub fn store(&self) -> Option<&'s dyn Store> {
        self.store
    }

    fn of(&self, action: &Action) -> Result<&'s dyn Store> {
        self.store.ok_or(Error::NoStore { action: *action })
    }

    /// What transfers take, as far as the store knows.
    pub fn measured(&mut self) -> Measured {
        self.news = false;
        let report = self.store.filter(|_| self.size > 0).map(Store::stats);
        let (write, read) = report.map_or((None, None), |report| {
            (report.write_seconds(self.size as u64), report.read_seconds(self.size as u64))
        });
        self.read_seconds = read.unwrap_or(0.0);
        Measured { write, read, ..Measured::default() }
    }

    /// Whether a transfer is under way: a write, as far as anybody looked, or a read, by the time that reads take.
    pub fn is_busy(&self) -> bool {
        let reading = |asked: Instant| asked.elapsed().as_secs_f64() < self.read_seconds;
        !self.departing.is_empty() || !self.outgoing.is_empty() || self.asked.is_some_and(reading)
    }

    /// Whether a slot holds a step, or is about to.
    pub fn is_taken(&self, index: usize) -> bool {
        self.held(index).is_some() || self.departing.iter().any(|departing| departing.slot.index == index)
    }

    /// The step that a slot holds.
    pub fn held(&self, index: usize) -> Option<usize> {
        self.slots.get(index).copied().flatten().map(|after| after.get() - 1)
    }

    /// Puts down what the slots of a resumed run hold.
    pub fn restore(&mut self, steps: &[usize]) {
        self.slots = steps.iter().map(|&step| NonZeroUsize::new(step + 1)).collect();
    }

    /// Hands a snapshot to the store; gives its ticket, or nothing if there was no room for it.
    pub fn put(
        &mut self,
        action: &Action,
        step: usize,
        index: usize,
        payload: &Payload,
    ) -> Result<Option<Ticket>> {
        let store = self.of(action)?;
        if self.slots.len() <= index {
            self.slots.resize(index + 1, None);
        }
        self.slots[index] = NonZeroUsize::new(step + 1);
        self.raw_written += payload.len() as u64;
        self.size = payload.len();
        let key = key(step);
        match self.ask(key, || store.put(key, payload.clone())) {
            Err(Error::Store(error)) if error.is_full() && error.key() == Some(key) => {
                self.failed.push(step);
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    /// Asks for a snapshot ahead; false if it has to be asked for again.
    pub fn prefetch(&mut self, step: usize) -> Result<bool> {
        let Some(store) = self.store else { return Ok(true) };
        self.asked = Some(Instant::now());
        self.ask(key(step), || store.prefetch(key(step)))
    }

    /// The snapshot in a slot, which goes on holding it or not.
    pub fn take(&mut self, action: &Action, step: usize, index: usize, keep: bool) -> Result<Payload> {
        let store = self.of(action)?;
        let payload = self.ask(key(step), || store.get(key(step)))?;
        self.raw_read += payload.len() as u64;
        (self.size, self.news) = (payload.len(), true);
        if !keep {
            self.free(action, step, index)?;
        }
        Ok(payload)
    }

    /// Forgets the snapshot in a slot.
    pub fn free(&mut self, action: &Action, step: usize, index: usize) -> Result<()> {
        let store = self.of(action)?;
        self.slots[index] = None;
        self.outgoing.retain(|outgoing| outgoing.step != step);
        let lost = self.failed.contains(&step);
        match store.remove(key(step)) {
            // What found no room may not be there; and a call to remove does its work whatever it tells of others.
            Err(error) if !lost && error.key() == Some(key(step)) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Calls the store and counts the wait. A failure of another snapshot's write is told by its ticket, so the call is
    /// repeated.
    pub fn ask<T>(&mut self, own: Key, call: impl Fn() -> Result<T, StoreError>) -> Result<T> {
        let start = Instant::now();
        let result = loop {
            match call() {
                Err(error) if self.told_by_ticket(&error, own) => {}
                result => break result,
            }
        };
        self.stall += start.elapsed().as_secs_f64();
        Ok(result?)
    }

    /// The store tells a failure to whoever calls next, which may be after the ticket told it, or after the snapshot was
    /// forgotten: one that found no room is then no news.
    fn told_by_ticket(&self, error: &StoreError, own: Key) -> bool {
        let of = |key: Key| self.outgoing.iter().any(|outgoing| key == self::key(outgoing.step));
        error.key().is_some_and(|key| key != own && (error.is_full() || of(key)))
    }

    /// Waits for a write.
    pub fn wait(&mut self, step: usize) {
        let ticket =
            self.outgoing.iter().find(|outgoing| outgoing.step == step).map(|found| found.ticket.clone());
        if let Some(ticket) = ticket {
            let start = Instant::now();
            // How it went is found when the outgoing ones are looked through.
            let _ = ticket.wait();
            self.stall += start.elapsed().as_secs_f64();
        }
    }
}

/// The name of a state in the store.
pub(super) fn key(step: usize) -> Key {
    Key::new(STATES, step as u64)
}

/// A state as the store takes it, waited for.
pub(super) fn payload<S: State>(state: &S) -> Payload {
    Cargo::of(state).into_payload()
}

/// The state of these bytes, of the kind of `like`.
pub(super) fn state<S: State>(like: &S, payload: &Payload, step: usize) -> Result<S> {
    like.read(&mut payload.bytes()).map_err(|source| Error::Foreign { step, source })
}
