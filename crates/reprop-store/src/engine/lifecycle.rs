//! How a store begins and ends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use super::state::{Entry, Kept, Life, Phase, Reading, State};
use super::{BackgroundStore, Settings, Shared, worker};
use crate::buffer::Spare;
use crate::codec::Chooser;
use crate::medium::{Medium, Record};
use crate::{Error, Report, Result, Store};

impl BackgroundStore {
    /// Starts the threads. `records` are the snapshots there already.
    pub(crate) fn start(
        medium: Box<dyn Medium>,
        store: u64,
        settings: Settings,
        records: Vec<Record>,
    ) -> Result<Self> {
        let mut state = State { store, durable: settings.every > 0, ..State::default() };
        for Record { frame, place } in records {
            let sequence = frame.sequence;
            state.next = state.next.max(sequence.saturating_add(1));
            state.report.hold(place.span);
            state.index.insert(frame.key, sequence);
            let entry = Entry {
                key: frame.key,
                length: frame.raw,
                phase: Phase::Stored(Kept::new(&frame, place)),
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
            spare: Spare::new(settings.read_ahead),
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
        state.index.iter().find_map(|(_, sequence)| match &state.entries.get(sequence)?.phase {
            Phase::Failed(error) => Some(*error.clone()),
            Phase::Queued(_) | Phase::Writing(_) | Phase::Stored(_) => None,
        })
    }

    /// Ends as `finish` does, once.
    pub(super) fn end(&self) -> Result<Report> {
        self.stop(Life::Draining);
        let lost = self.lost();
        // After a failure, the last durable point is what can be gone on with.
        let keep = self.settings.keep || lost.is_some() && self.shared.medium.resumable();
        match (lost, self.shared.medium.close(keep)) {
            (Some(error), _) => Err(error),
            (None, Err(error)) => Err(Error::io("close", &self.shared.medium.path(None), None, error)),
            (None, Ok(())) => Ok(self.stats()),
        }
    }
}

impl Drop for BackgroundStore {
    fn drop(&mut self) {
        if self.outcome.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            return;
        }
        self.stop(Life::Abandoned);
        let keep = self.settings.keep || self.shared.medium.resumable();
        // There is nobody left to tell; whoever wants to know calls `finish`.
        let _untold = catch_unwind(AssertUnwindSafe(|| self.shared.medium.close(keep)));
    }
}
