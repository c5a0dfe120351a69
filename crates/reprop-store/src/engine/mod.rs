//! Background writing and reading, whatever the medium.
//!
//! Callers and I/O threads share one [`State`] under one lock, which nobody holds during I/O. Two conditions go with it:
//! `work` wakes threads, `progress` wakes callers. A writer takes jobs in order; a reader takes reads, those that a caller
//! waits for first.

mod lifecycle;
mod points;
mod settings;
mod state;
mod worker;

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::buffer::Spare;
use crate::codec::Chooser;
use crate::medium::Medium;
use crate::{Error, Key, Payload, Report, Result, Store, Ticket};
pub(crate) use settings::{Settings, background_settings};
use state::{Entry, Life, Phase, Reading, State};

struct Shared {
    medium: Box<dyn Medium>,
    /// Tells this store's frames from those of an earlier one in the same place.
    store: u64,
    state: Mutex<State>,
    chooser: Mutex<Chooser>,
    /// What reads of uncoded snapshots are read into.
    spare: Arc<Spare>,
    work: Condvar,
    progress: Condvar,
}

impl Shared {
    /// The state is changed in steps that cannot panic half way, so a poisoned lock is as good.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[allow(clippy::unused_self, reason = "reads as what it is: waiting on the shared state")]
    fn wait<'a>(&self, condition: &Condvar, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        condition.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn chooser(&self) -> MutexGuard<'_, Chooser> {
        self.chooser.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A store whose I/O is done by threads of its own: made by [`DiskConfig`](crate::DiskConfig) and
/// [`BlobConfig`](crate::BlobConfig).
///
/// Dropping it without [`finish`](Store::finish) discards what is queued, and removes the files unless they are kept
/// or hold a durable point. It never panics, and tells of no error: `finish` does.
pub struct BackgroundStore {
    shared: Arc<Shared>,
    settings: Settings,
    threads: Mutex<Vec<JoinHandle<()>>>,
    outcome: Mutex<Option<Result<Report>>>,
}

impl BackgroundStore {
    /// The state, if the store takes calls and has nothing to tell first.
    fn admit(&self) -> Result<MutexGuard<'_, State>> {
        let mut state = self.shared.lock();
        state.admit()?;
        Ok(state)
    }

    /// Waits until the queue has room, and counts the wait.
    fn room<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        fits: impl Fn(&State) -> bool,
    ) -> Result<MutexGuard<'a, State>> {
        if fits(&state) {
            return Ok(state);
        }
        let start = Instant::now();
        while state.life == Life::Open && !fits(&state) {
            state = self.shared.wait(&self.shared.progress, state);
        }
        state.report.stall_put += start.elapsed();
        state.admit()?;
        Ok(state)
    }
}

impl Store for BackgroundStore {
    fn put(&self, key: Key, payload: Payload) -> Result<Ticket> {
        let (queue, queue_bytes) = (self.settings.queue, self.settings.queue_bytes);
        let bytes = payload.len() as u64;
        // Anything fits into an empty queue.
        let mut state = self.room(self.admit()?, |state| {
            let within = state.pending_bytes.saturating_add(bytes) <= queue_bytes;
            state.pending == 0 || state.pending < queue && within
        })?;
        let replaced = state.forget(key, &*self.shared.medium);
        let ticket = state.enqueue(key, payload);
        drop(state);
        self.shared.work.notify_all();
        if replaced {
            self.shared.progress.notify_all();
        }
        Ok(ticket)
    }

    fn prefetch(&self, key: Key) -> Result<bool> {
        let mut guard = self.admit()?;
        let state = &mut *guard;
        let full = state.ahead >= self.settings.read_ahead;
        let (sequence, entry) = state.find(key)?;
        match entry.phase {
            Phase::Queued(_) | Phase::Writing(_) => return Ok(true),
            Phase::Failed(ref error) => return Err(*error.clone()),
            Phase::Stored(_) => {}
        }
        if !matches!(entry.reading, Reading::Idle) {
            return Ok(true);
        }
        if full {
            return Ok(false);
        }
        entry.reading = Reading::Queued;
        entry.ahead = true;
        state.ahead += 1;
        state.reads.push_back(sequence);
        drop(guard);
        self.shared.work.notify_all();
        Ok(true)
    }

    fn get(&self, key: Key) -> Result<Payload> {
        let mut guard = self.admit()?;
        let mut start = None;
        let answer = loop {
            let state = &mut *guard;
            if state.life != Life::Open {
                break Err(Error::Finished);
            }
            let (sequence, entry) = match state.find(key) {
                Ok(found) => found,
                Err(error) => break Err(error),
            };
            match &entry.phase {
                Phase::Queued(write) | Phase::Writing(write) => break Ok(write.payload.clone()),
                Phase::Failed(error) => break Err(*error.clone()),
                Phase::Stored(_) => {}
            }
            match std::mem::take(&mut entry.reading) {
                Reading::Ready(payload) => {
                    done_ahead(entry).then(|| state.ahead -= 1);
                    break Ok(*payload);
                }
                Reading::Failed(error) => {
                    done_ahead(entry).then(|| state.ahead -= 1);
                    break Err(*error);
                }
                Reading::Running => entry.reading = Reading::Running,
                Reading::Idle | Reading::Queued => {
                    // Whoever waits goes before whoever reads ahead.
                    entry.reading = Reading::Queued;
                    state.reads.retain(|queued| *queued != sequence);
                    state.reads.push_front(sequence);
                    self.shared.work.notify_all();
                }
            }
            if let Some(entry) = state.entries.get_mut(&sequence) {
                entry.waiters += 1;
            }
            start.get_or_insert_with(Instant::now);
            guard = self.shared.wait(&self.shared.progress, guard);
            if let Some(entry) = guard.entries.get_mut(&sequence) {
                entry.waiters -= 1;
            }
        };
        if let Some(start) = start {
            guard.report.stall_get += start.elapsed();
        }
        guard.report.gets += u64::from(answer.is_ok());
        answer
    }

    fn remove(&self, key: Key) -> Result<()> {
        let mut state = self.shared.lock();
        let told = state.admit();
        if let Err(Error::Finished) = told {
            return told;
        }
        let there = state.forget(key, &*self.shared.medium);
        drop(state);
        self.shared.progress.notify_all();
        told?;
        if there { Ok(()) } else { Err(Error::Missing { key }) }
    }

    fn contains(&self, key: Key) -> bool {
        self.shared.lock().index.contains_key(&key)
    }

    fn keys(&self) -> Vec<Key> {
        self.shared.lock().index.iter().map(|(key, _)| *key).collect()
    }

    fn commit(&self, meta: &[u8]) -> Result<Option<Ticket>> {
        let mut state = self.admit()?;
        if self.settings.every == 0 {
            return Err(Error::NotDurable);
        }
        if !(state.offers + 1).is_multiple_of(self.settings.every) {
            state.offers += 1;
            return Ok(None);
        }
        // An offer that meets an earlier failure has not been made.
        let mut state = self.room(state, |state| state.commits < self.settings.queue)?;
        state.offers += 1;
        let ticket = state.take_point(meta);
        drop(state);
        self.shared.work.notify_all();
        Ok(Some(ticket))
    }

    fn stats(&self) -> Report {
        self.shared.lock().report.clone()
    }

    fn finish(&self) -> Result<Report> {
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(outcome) = &*outcome {
            return outcome.clone();
        }
        let result = self.end();
        *outcome = Some(result.clone());
        result
    }
}

/// Whether this entry's read was asked for ahead; it is no longer.
fn done_ahead(entry: &mut Entry) -> bool {
    std::mem::take(&mut entry.ahead)
}

impl fmt::Debug for BackgroundStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.shared.medium.path(None);
        f.debug_struct("BackgroundStore")
            .field("path", &path)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
