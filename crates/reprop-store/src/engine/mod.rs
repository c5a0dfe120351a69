//! Background writing and reading, whatever the medium.
//!
//! Callers and I/O threads share one [`State`] under one lock, which nobody holds during I/O. Two conditions go with it:
//! `work` wakes threads, `progress` wakes callers. A writer takes jobs in order; a reader takes reads, those that a caller
//! waits for first.

mod points;
mod settings;
mod state;
mod worker;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use crate::codec::Chooser;
use crate::medium::{Medium, Record};
use crate::{Error, Key, Payload, Report, Result, Store, Ticket};
pub(crate) use settings::Settings;
use state::{Entry, Life, Phase, Reading, State};

struct Shared {
    medium: Box<dyn Medium>,
    /// Tells this store's frames from those of an earlier one in the same place.
    store: u64,
    state: Mutex<State>,
    chooser: Mutex<Chooser>,
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

/// A store whose I/O is done by threads of its own: made by [`DiskConfig`](crate::DiskConfig).
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
    /// Starts the threads. `records` are the snapshots there already.
    pub(crate) fn start(
        medium: Box<dyn Medium>,
        store: u64,
        settings: Settings,
        records: Vec<Record>,
    ) -> Result<Self> {
        let mut state = State::default();
        for Record { frame, place } in records {
            let sequence = frame.sequence;
            state.next = state.next.max(sequence + 1);
            state.report.hold(place.span);
            state.index.insert(frame.key, sequence);
            let entry = Entry {
                key: frame.key,
                ticket: Ticket::kept(),
                length: frame.raw,
                phase: Phase::Stored(frame, place),
                reading: Reading::Idle,
                ahead: false,
                waiters: 0,
                live: true,
                held: true,
                busy: false,
            };
            state.entries.insert(sequence, entry);
        }
        let shared = Arc::new(Shared {
            medium,
            store,
            state: Mutex::new(state),
            chooser: Mutex::new(Chooser::new(settings.codec)),
            work: Condvar::new(),
            progress: Condvar::new(),
        });
        let (writers, readers) = (settings.writers, settings.readers);
        let started = Self { shared, settings, threads: Mutex::default(), outcome: Mutex::default() };
        for index in 0..writers {
            started.spawn(format!("store-write-{index}"), worker::write_loop)?;
        }
        for index in 0..readers {
            started.spawn(format!("store-read-{index}"), worker::read_loop)?;
        }
        Ok(started)
    }

    fn spawn(&self, name: String, work: fn(&Shared)) -> Result<()> {
        let shared = self.shared.clone();
        let thread = thread::Builder::new().name(name).spawn(move || work(&shared)).map_err(|error| {
            Error::io("start an I/O thread for", &self.shared.medium.path(None), None, error)
        })?;
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }

    /// The state, if the store takes calls and has nothing to tell first.
    fn admit(&self) -> Result<MutexGuard<'_, State>> {
        let mut state = self.shared.lock();
        state.admit()?;
        Ok(state)
    }

    /// Waits until the queue has room for `bytes` more. Anything fits into an empty queue.
    fn room<'a>(&'a self, mut state: MutexGuard<'a, State>, bytes: u64) -> Result<MutexGuard<'a, State>> {
        let fits = |state: &State| {
            let within = state.pending_bytes.saturating_add(bytes) <= self.settings.queue_bytes;
            state.pending == 0 || state.pending < self.settings.queue && within
        };
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

    /// Ends the threads, and gives the state what they leave.
    fn stop(&self, how: Life) {
        let mut state = self.shared.lock();
        if state.life == Life::Open {
            state.life = how;
        }
        drop(state);
        self.shared.work.notify_all();
        self.shared.progress.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // A panic in a job is caught and told as that job's error.
            let _told = thread.join();
        }
        self.shared.lock().abandon();
    }

    /// The first failure that was not told, or that lost a snapshot still wanted.
    fn lost(&self) -> Option<Error> {
        let mut state = self.shared.lock();
        if let Some(error) = state.failures.pop_front() {
            return Some(error);
        }
        state.index.values().find_map(|sequence| match &state.entries.get(sequence)?.phase {
            Phase::Failed(error) => Some(error.clone()),
            Phase::Queued(_) | Phase::Writing(_) | Phase::Stored(..) => None,
        })
    }
}

impl Store for BackgroundStore {
    fn put(&self, key: Key, payload: Payload) -> Result<Ticket> {
        let mut state = self.room(self.admit()?, payload.len() as u64)?;
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
            Phase::Failed(ref error) => return Err(error.clone()),
            Phase::Stored(..) => {}
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
                Phase::Queued(payload) | Phase::Writing(payload) => break Ok(payload.clone()),
                Phase::Failed(error) => break Err(error.clone()),
                Phase::Stored(..) => {}
            }
            match std::mem::take(&mut entry.reading) {
                Reading::Ready(payload) => {
                    done_ahead(entry).then(|| state.ahead -= 1);
                    break Ok(payload);
                }
                Reading::Failed(error) => {
                    done_ahead(entry).then(|| state.ahead -= 1);
                    break Err(error);
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
        self.shared.lock().index.keys().copied().collect()
    }

    fn commit(&self, meta: &[u8]) -> Result<Option<Ticket>> {
        let mut state = self.admit()?;
        if self.settings.every == 0 {
            return Err(Error::NotDurable);
        }
        state.offers += 1;
        if state.offers % self.settings.every != 0 {
            return Ok(None);
        }
        let ticket = self.room(state, 0)?.take_point(meta);
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
        self.stop(Life::Draining);
        let closed = self.shared.medium.close(self.settings.keep);
        let result = match (self.lost(), closed) {
            (Some(error), _) => Err(error),
            (None, Err(error)) => Err(Error::io("close", &self.shared.medium.path(None), None, error)),
            (None, Ok(())) => Ok(self.stats()),
        };
        *outcome = Some(result.clone());
        result
    }
}

/// Whether this entry's read was asked for ahead; it is no longer.
fn done_ahead(entry: &mut Entry) -> bool {
    std::mem::take(&mut entry.ahead)
}

impl Drop for BackgroundStore {
    fn drop(&mut self) {
        if self.outcome.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            return;
        }
        self.stop(Life::Abandoned);
        let keep = self.settings.keep || self.shared.medium.resumable();
        // There is nobody left to tell; whoever wants to know calls `finish`.
        let _untold = self.shared.medium.close(keep);
    }
}
