//! The memory tier.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Error, Key, Payload, Report, Result, Store, Ticket};

/// Snapshots in memory, up to a number of bytes. Nothing is copied, and nothing waits.
///
/// ```
/// use reprop_store::{Dtype, Key, MemoryStore, Payload, Store};
///
/// let store = MemoryStore::new(10);
/// store.put(Key::new(0, 0), Payload::new(Dtype::U8, vec![7; 8]))?;
/// let error = store.put(Key::new(0, 1), Payload::new(Dtype::U8, vec![7; 8])).unwrap_err();
/// assert!(error.is_full());
/// assert_eq!(store.get(Key::new(0, 0))?.bytes(), [7; 8]);
/// # Ok::<(), reprop_store::Error>(())
/// ```
#[derive(Debug)]
pub struct MemoryStore {
    budget: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    snapshots: BTreeMap<Key, Payload>,
    report: Report,
    finished: bool,
}

impl MemoryStore {
    /// A pool of at most `budget` bytes of payload.
    pub fn new(budget: u64) -> Self {
        Self { budget, state: Mutex::default() }
    }

    /// A pool as large as memory.
    pub fn unbounded() -> Self {
        Self::new(u64::MAX)
    }

    /// Nothing under this lock can leave the state half changed, so a poisoned one is as good.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.lock();
        if state.finished { Err(Error::Finished) } else { Ok(state) }
    }
}

impl Store for MemoryStore {
    fn put(&self, key: Key, payload: Payload) -> Result<Ticket> {
        let mut state = self.open()?;
        let needed = payload.len() as u64;
        let replaced = state.snapshots.get(&key).map_or(0, |old| old.len() as u64);
        let others = state.report.held - replaced;
        if needed > self.budget - others {
            let reason = format!("{others} of {} bytes are taken", self.budget);
            return Err(Error::Full { key, medium: "the memory pool".into(), needed, reason });
        }
        if state.snapshots.insert(key, payload).is_some() {
            state.report.removes += 1;
            state.report.held -= replaced;
        }
        state.report.puts += 1;
        state.report.hold(needed);
        Ok(Ticket::kept())
    }

    fn prefetch(&self, key: Key) -> Result<bool> {
        if self.open()?.snapshots.contains_key(&key) { Ok(true) } else { Err(Error::Missing { key }) }
    }

    fn get(&self, key: Key) -> Result<Payload> {
        let mut state = self.open()?;
        let payload = state.snapshots.get(&key).cloned().ok_or(Error::Missing { key })?;
        state.report.gets += 1;
        Ok(payload)
    }

    fn remove(&self, key: Key) -> Result<()> {
        let mut state = self.open()?;
        let payload = state.snapshots.remove(&key).ok_or(Error::Missing { key })?;
        state.report.removes += 1;
        state.report.held -= payload.len() as u64;
        Ok(())
    }

    fn contains(&self, key: Key) -> bool {
        self.lock().snapshots.contains_key(&key)
    }

    fn keys(&self) -> Vec<Key> {
        self.lock().snapshots.keys().copied().collect()
    }

    fn commit(&self, _meta: &[u8]) -> Result<Option<Ticket>> {
        self.open().and(Err(Error::NotDurable))
    }

    fn stats(&self) -> Report {
        self.lock().report.clone()
    }

    fn finish(&self) -> Result<Report> {
        let mut state = self.lock();
        state.finished = true;
        state.snapshots.clear();
        state.report.held = 0;
        Ok(state.report.clone())
    }
}
