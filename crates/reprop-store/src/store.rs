//! The one trait of every tier.

use crate::{Key, Payload, Report, Result, Ticket};

/// A place for snapshots. Any thread may call; nothing needs `&mut`.
///
/// # Errors of background work
/// A write or a prefetch that fails in the background is told at **the next call** of any kind, once, and again by
/// [`finish`](Store::finish) for as long as the snapshot is still wanted. The error names its snapshot
/// ([`Error::key`](crate::Error::key)). A call that returns such an error has done nothing and may be repeated, except
/// `remove`, which removes all the same. A snapshot whose write failed answers every `get` with that error; to give it
/// up, `remove` it: then `finish` holds it against nobody, and only the report's
/// [`failed_writes`](Report::failed_writes) remembers.
pub trait Store: Send + Sync {
    /// Takes a snapshot, in place of any older one of the same key.
    ///
    /// It returns at once, unless the queue is full: then it waits for room, and the wait is counted as
    /// [`stall_put`](Report::stall_put). From then on `get` finds it, written or not.
    ///
    /// # Errors
    /// [`Error::Full`](crate::Error::Full) if a memory pool has no room; an earlier failure of background work. The
    /// payload is not stored then: keep a clone, which shares its bytes, to try again.
    fn put(&self, key: Key, payload: Payload) -> Result<Ticket>;

    /// Asks for a snapshot that `get` will want soon. Returns whether it is on its way or already in memory; `false`
    /// means that as much as allowed is being read ahead, so ask again later.
    ///
    /// # Errors
    /// [`Error::Missing`](crate::Error::Missing), or an earlier failure of background work.
    fn prefetch(&self, key: Key) -> Result<bool>;

    /// The snapshot, after waiting for its read if need be; the wait is counted as [`stall_get`](Report::stall_get).
    /// The snapshot stays in the store.
    ///
    /// # Errors
    /// [`Error::Missing`](crate::Error::Missing), [`Error::Corrupt`](crate::Error::Corrupt),
    /// [`Error::Io`](crate::Error::Io), or an earlier failure of background work.
    fn get(&self, key: Key) -> Result<Payload>;

    /// Forgets a snapshot and frees its room.
    ///
    /// # Errors
    /// [`Error::Missing`](crate::Error::Missing), or an earlier failure of background work.
    fn remove(&self, key: Key) -> Result<()>;

    /// Whether `get` has something to look for.
    fn contains(&self, key: Key) -> bool;

    /// The keys held, in order.
    fn keys(&self) -> Vec<Key>;

    /// Offers a durable point: the snapshots held right now, and `meta`, a few bytes that tell the caller where it was.
    /// Either all of it survives a kill, or the point before it does.
    ///
    /// The store takes every k-th offer ([`Durability::Every`](crate::Durability::Every)) and makes it durable in the
    /// background. Returns the ticket of a point that was taken.
    ///
    /// # Errors
    /// [`Error::NotDurable`](crate::Error::NotDurable) if this store has no durability, or an earlier failure of
    /// background work.
    fn commit(&self, meta: &[u8]) -> Result<Option<Ticket>>;

    /// What has happened so far.
    fn stats(&self) -> Report;

    /// Waits for all that is queued, ends the background work, and removes the files unless they are to be kept. A
    /// second call gives the same answer.
    ///
    /// # Errors
    /// The first failure that no call has told of, or that lost a snapshot that was never given up. The store is
    /// finished all the same; but files with a durable point stay, since one can resume from it.
    fn finish(&self) -> Result<Report>;
}
