//! What the engine knows, under its one lock.
//!
//! Each `put` gets a number, and its entry lives under that number for as long as anybody needs it:
//! - `live`: the key still means this entry;
//! - `held`: a durable point, or one being written, names it, so its place must not be written over;
//! - `busy`: a thread is reading or writing it.
//!
//! When none of the three holds, the entry goes and its place is free again.

use std::collections::{BTreeSet, VecDeque};

use super::points::Commit;
use crate::codec::Coding;
use crate::frame::Frame;
use crate::medium::{Medium, Place};
use crate::sorted::Sorted;
use crate::{Dtype, Error, Key, Payload, Report, Result, Ticket};

/// How far the write of a snapshot is.
#[derive(Debug)]
pub(super) enum Phase {
    Queued(Box<Write>),
    Writing(Box<Write>),
    Stored(Kept),
    Failed(Box<Error>),
}

/// What is written, and who is told.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) payload: Payload,
    pub(super) ticket: Ticket,
}

/// What has to be known of a snapshot on the medium beside its entry's key and number. There may be a hundred thousand of
/// them, so it is small.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    offset: u64,
    span: u64,
    segment: u32,
    /// Bytes of the span beside what is stored: header and padding.
    beside: u32,
    crc: u32,
    dtype: Dtype,
    coding: Coding,
}

impl Kept {
    pub(super) fn new(frame: &Frame, place: Place) -> Self {
        let &Frame { stored, crc, dtype, coding, .. } = frame;
        let Place { segment, offset, span } = place;
        // A manifest that names more than the span holds gives a frame that no read agrees with.
        let beside = span.saturating_sub(stored) as u32;
        Self { offset, span, segment, beside, crc, dtype, coding }
    }

    fn place(&self) -> Place {
        Place { segment: self.segment, offset: self.offset, span: self.span }
    }
}

/// How far the read of a snapshot is.
#[derive(Debug, Default)]
pub(super) enum Reading {
    #[default]
    Idle,
    Queued,
    Running,
    Ready(Box<Payload>),
    Failed(Box<Error>),
}

#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "four independent yes or no, explained above")]
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) length: u64,
    pub(super) phase: Phase,
    pub(super) reading: Reading,
    /// Whether its read was asked for by `prefetch`, and counts against the bound of those.
    pub(super) ahead: bool,
    /// Callers of `get` that wait for it.
    pub(super) waiters: u32,
    pub(super) live: bool,
    pub(super) held: bool,
    pub(super) busy: bool,
}

impl Entry {
    /// What tells an entry's frame from others, if it is on the medium.
    fn frame(&self, store: u64, sequence: u64) -> Option<(Frame, Place)> {
        let Phase::Stored(kept) = &self.phase else { return None };
        let &Kept { span, beside, crc, dtype, coding, .. } = kept;
        let stored = span.saturating_sub(beside.into());
        let frame = Frame { store, key: self.key, sequence, dtype, coding, raw: self.length, stored, crc };
        Some((frame, kept.place()))
    }
}

/// Work for the writers, in order.
#[derive(Debug)]
pub(super) enum Job {
    Write(u64),
    Commit(Commit),
}

/// Whether the store takes calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Life {
    #[default]
    Open,
    /// `finish`: writers do what is queued, then end.
    Draining,
    /// Dropped: threads end as soon as they can.
    Abandoned,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// Tells this store's frames from those of an earlier one in the same place.
    pub(super) store: u64,
    pub(super) life: Life,
    pub(super) index: Sorted<Key, u64>,
    pub(super) entries: Sorted<u64, Entry>,
    pub(super) next: u64,
    pub(super) jobs: VecDeque<Job>,
    pub(super) reads: VecDeque<u64>,
    /// Writes queued or under way, and their bytes.
    pub(super) pending: usize,
    pub(super) pending_bytes: u64,
    /// Commits queued or under way, and whether one is under way: points are made one after the other.
    pub(super) commits: usize,
    pub(super) committing: bool,
    /// Writes under way: a commit waits for them.
    pub(super) writing: usize,
    /// Snapshots read ahead or about to be.
    pub(super) ahead: usize,
    /// Errors of background work that no call has told of.
    pub(super) failures: VecDeque<Error>,
    /// Whether there are durable points.
    pub(super) durable: bool,
    /// Live entries that no point names yet, if there are points.
    pub(super) fresh: BTreeSet<u64>,
    /// Entries that a point names, gone since.
    pub(super) gone: Vec<u64>,
    /// Offers of a point so far.
    pub(super) offers: u64,
    pub(super) report: Report,
}

impl State {
    /// Lets calls through while the store is open and nothing failed that they should tell of.
    pub(super) fn admit(&mut self) -> Result<()> {
        if self.life != Life::Open {
            return Err(Error::Finished);
        }
        self.failures.pop_front().map_or(Ok(()), Err)
    }

    /// The live entry of a key.
    pub(super) fn find(&mut self, key: Key) -> Result<(u64, &mut Entry)> {
        let sequence = *self.index.get(&key).ok_or(Error::Missing { key })?;
        let entry = self.entries.get_mut(&sequence).ok_or(Error::Missing { key })?;
        Ok((sequence, entry))
    }

    /// Takes a snapshot into the queue.
    pub(super) fn enqueue(&mut self, key: Key, payload: Payload) -> Ticket {
        let sequence = self.next;
        let length = payload.len() as u64;
        let ticket = Ticket::pending();
        self.next += 1;
        self.index.insert(key, sequence);
        self.entries.insert(
            sequence,
            Entry {
                key,
                length,
                phase: Phase::Queued(Box::new(Write { payload, ticket: ticket.clone() })),
                reading: Reading::Idle,
                ahead: false,
                waiters: 0,
                live: true,
                held: false,
                busy: false,
            },
        );
        if self.durable {
            self.fresh.insert(sequence);
        }
        self.jobs.push_back(Job::Write(sequence));
        self.pending += 1;
        self.pending_bytes += length;
        self.report.puts += 1;
        ticket
    }

    /// Hands a queued snapshot to a writer.
    pub(super) fn begin_write(&mut self, sequence: u64) -> Option<(Key, Payload)> {
        let entry = self.entries.get_mut(&sequence)?;
        let Phase::Queued(write) = &entry.phase else { return None };
        let Write { payload, ticket } = &**write;
        let (payload, ticket) = (payload.clone(), ticket.clone());
        entry.phase = Phase::Writing(Box::new(Write { payload: payload.clone(), ticket }));
        self.writing += 1;
        Some((entry.key, payload))
    }

    /// Hands a stored snapshot to a reader, if it is still wanted.
    pub(super) fn begin_read(&mut self, sequence: u64) -> Option<(Frame, Place)> {
        let entry = self.entries.get_mut(&sequence)?;
        if !matches!(entry.reading, Reading::Queued) {
            return None;
        }
        let begun = entry.frame(self.store, sequence)?;
        entry.reading = Reading::Running;
        entry.busy = true;
        Some(begun)
    }

    /// The frame of a snapshot on the medium, and where it lies.
    pub(super) fn frame(&self, sequence: u64) -> Option<(Frame, Place)> {
        self.entries.get(&sequence)?.frame(self.store, sequence)
    }

    /// A write is no longer pending.
    pub(super) fn settled(&mut self, bytes: u64) {
        self.pending -= 1;
        self.pending_bytes -= bytes;
    }

    /// Forgets a key. Whether it was there.
    pub(super) fn forget(&mut self, key: Key, medium: &dyn Medium) -> bool {
        let Some(sequence) = self.index.remove(&key) else { return false };
        self.report.removes += 1;
        let never_named = !self.durable || self.fresh.remove(&sequence);
        let Some(entry) = self.entries.get_mut(&sequence) else { return true };
        entry.live = false;
        if entry.ahead {
            entry.ahead = false;
            self.ahead -= 1;
        }
        if let Reading::Queued = std::mem::take(&mut entry.reading) {
            self.reads.retain(|queued| *queued != sequence);
        }
        if never_named {
            self.cancel(sequence);
        } else {
            self.gone.push(sequence);
        }
        self.release(sequence, medium);
        true
    }

    /// A snapshot that is removed before its turn is never written.
    fn cancel(&mut self, sequence: u64) {
        let Some(entry) = self.entries.get(&sequence) else { return };
        let Phase::Queued(write) = &entry.phase else { return };
        write.ticket.settle(Err(Error::Missing { key: entry.key }));
        let length = entry.length;
        self.entries.remove(&sequence);
        self.jobs.retain(|job| !matches!(job, Job::Write(queued) if *queued == sequence));
        self.settled(length);
    }

    /// Lets an entry go if nobody needs it.
    pub(super) fn release(&mut self, sequence: u64, medium: &dyn Medium) {
        let Some(entry) = self.entries.get(&sequence) else { return };
        if entry.live
            || entry.held
            || entry.busy
            || matches!(entry.phase, Phase::Queued(_) | Phase::Writing(_))
        {
            return;
        }
        if let Phase::Stored(kept) = &entry.phase {
            let place = kept.place();
            medium.release(place);
            self.report.held -= place.span;
        }
        self.entries.remove(&sequence);
    }

    /// Settles every ticket whose work will not be done.
    pub(super) fn abandon(&mut self) {
        for job in self.jobs.drain(..) {
            match job {
                Job::Write(sequence) => {
                    if let Some(Entry { key, phase: Phase::Queued(write), .. }) = self.entries.get(&sequence)
                    {
                        write.ticket.settle(Err(Error::Closed { key: *key }));
                    }
                }
                Job::Commit(commit) => commit.ticket.settle(Err(Error::Finished)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_a_stored_snapshot_is_little() {
        assert!(size_of::<(u64, Entry)>() <= 96, "{}", size_of::<(u64, Entry)>());
    }
}
