//! The I/O threads.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use super::Shared;
use super::points::Commit;
use super::state::{Entry, Job, Kept, Life, Phase, Reading};
use crate::buffer::AlignedBuffer;
use crate::codec::{Coding, Workshop};
use crate::frame::{Frame, HEADER};
use crate::medium::{Place, full};
use crate::{Error, Key, Payload, Result};

/// What an I/O thread works with, made once.
#[derive(Default)]
struct Tools {
    buffer: AlignedBuffer,
    workshop: Workshop,
}

/// What a writer does next.
enum Work {
    Write { sequence: u64, key: Key, payload: Payload },
    Commit(Commit),
}

/// The life of a writer: writes and commits in the order they came.
pub(super) fn write_loop(shared: &Shared) {
    let mut tools = Tools::default();
    while let Some(work) = next_work(shared) {
        match work {
            Work::Write { sequence, key, payload } => write(shared, &mut tools, sequence, key, payload),
            Work::Commit(commit) => make_durable(shared, commit),
        }
        shared.work.notify_all();
        shared.progress.notify_all();
    }
}

/// The life of a reader.
pub(super) fn read_loop(shared: &Shared) {
    let mut tools = Tools::default();
    while let Some((frame, place)) = next_read(shared) {
        read(shared, &mut tools, &frame, place);
        shared.progress.notify_all();
    }
}

fn next_work(shared: &Shared) -> Option<Work> {
    let mut state = shared.lock();
    loop {
        match (state.life, state.jobs.front()) {
            (Life::Abandoned, _) | (Life::Draining, None) => return None,
            (Life::Open, None) => state = shared.wait(&shared.work, state),
            // A commit is the difference to the one before it and names the writes before it; another writer may still
            // be at either.
            (_, Some(Job::Commit(_))) if state.writing > 0 || state.committing => {
                state = shared.wait(&shared.work, state);
            }
            (_, Some(_)) => match state.jobs.pop_front() {
                Some(Job::Write(sequence)) => {
                    if let Some((key, payload)) = state.begin_write(sequence) {
                        return Some(Work::Write { sequence, key, payload });
                    }
                }
                Some(Job::Commit(commit)) => {
                    state.committing = true;
                    return Some(Work::Commit(commit));
                }
                None => {}
            },
        }
    }
}

fn next_read(shared: &Shared) -> Option<(Frame, Place)> {
    let mut state = shared.lock();
    loop {
        if state.life != Life::Open {
            return None;
        }
        match state.reads.pop_front() {
            Some(sequence) => {
                if let Some(begun) = state.begin_read(sequence) {
                    return Some(begun);
                }
            }
            None => state = shared.wait(&shared.work, state),
        }
    }
}

fn write(shared: &Shared, tools: &mut Tools, sequence: u64, key: Key, payload: Payload) {
    let start = Instant::now();
    let written = guarded(key, || store(shared, tools, sequence, key, &payload));
    let took = start.elapsed();
    let length = payload.len() as u64;
    // The last sharer frees the bytes: not under the lock.
    drop(payload);

    let mut guard = shared.lock();
    let state = &mut *guard;
    state.writing -= 1;
    state.settled(length);
    let Some(entry) = state.entries.get_mut(&sequence) else { return };
    let (phase, outcome) = match written {
        Ok((frame, place, seconds)) => {
            state.report.writes += 1;
            state.report.raw_written += length;
            state.report.stored_written += place.span;
            state.report.busy_write += took;
            state.report.write.observe(length, seconds);
            state.report.hold(place.span);
            (Phase::Stored(Kept::new(&frame, place)), Ok(()))
        }
        Err(error) => {
            state.report.failed_writes += 1;
            // No room for what was removed meanwhile is no loss; any other error tells that the disk is bad.
            if entry.live || !error.is_full() {
                state.failures.push_back(error.clone());
            }
            (Phase::Failed(Box::new(error.clone())), Err(error))
        }
    };
    let old = std::mem::replace(&mut entry.phase, phase);
    if let Phase::Writing(write) = &old {
        write.ticket.settle(outcome);
    }
    state.release(sequence, &*shared.medium);
    drop(guard);
    drop(old);
}

/// Encodes a snapshot and writes its frame; tells what every such write takes, without the room that is made once for many.
fn store(
    shared: &Shared,
    tools: &mut Tools,
    sequence: u64,
    key: Key,
    payload: &Payload,
) -> Result<(Frame, Place, f64)> {
    let raw = payload.len();
    let wanted = shared.chooser().choose(raw as u64);
    let bound = shared.medium.padded(HEADER + wanted.bound(raw));
    let start = Instant::now();
    let buffer = tools.buffer.first(bound);
    let (coding, stored) = tools.workshop.encode(wanted, payload, &mut buffer[HEADER..]);
    let used = HEADER + stored;
    let length = shared.medium.padded(used);
    buffer[used..length].fill(0);
    let frame = Frame {
        store: shared.store,
        key,
        sequence,
        dtype: payload.dtype(),
        coding,
        raw: raw as u64,
        stored: stored as u64,
        crc: crc32fast::hash(&buffer[HEADER..used]),
    };
    frame.write_header(buffer);
    let encoding = start.elapsed().as_secs_f64();
    let failed = |error| write_error(shared, key, length as u64, error);
    shared.medium.make_room(length).map_err(failed)?;
    let start = Instant::now();
    let place = shared.medium.write(sequence, &buffer[..length]).map_err(failed)?;
    let writing = start.elapsed().as_secs_f64();
    shared.chooser().observe(wanted, raw as u64, stored as u64, encoding, writing);
    Ok((frame, place, encoding + writing))
}

fn write_error(shared: &Shared, key: Key, needed: u64, error: io::Error) -> Error {
    let path = shared.medium.path(None);
    if full(&error) {
        return Error::Full { key, medium: path.display().to_string(), needed, reason: error.to_string() };
    }
    Error::io("write a snapshot to", &path, Some(key), error)
}

fn make_durable(shared: &Shared, commit: Commit) {
    let point = shared.lock().point(&commit);
    let done = point.and_then(|point| {
        let committed = catch_unwind(AssertUnwindSafe(|| shared.medium.commit(point)))
            .unwrap_or_else(|panic| Err(io::Error::other(format!("it panicked: {}", message(&*panic)))));
        committed
            .map_err(|error| Error::io("make a point durable in", &shared.medium.path(None), None, error))
    });
    let mut state = shared.lock();
    state.commits -= 1;
    state.committing = false;
    let ticket = commit.ticket.clone();
    match &done {
        Ok(()) => state.point_done(&commit, &*shared.medium),
        Err(error) => {
            state.failures.push_back(error.clone());
            state.point_failed(commit, &*shared.medium);
        }
    }
    ticket.settle(done);
}

fn read(shared: &Shared, tools: &mut Tools, frame: &Frame, place: Place) {
    let start = Instant::now();
    let payload = guarded(frame.key, || fetch(shared, tools, frame, place));
    let took = start.elapsed();

    let mut guard = shared.lock();
    let state = &mut *guard;
    let Some(entry) = state.entries.get_mut(&frame.sequence) else { return };
    entry.busy = false;
    match payload {
        Ok(payload) => {
            state.report.reads += 1;
            state.report.raw_read += frame.raw;
            state.report.stored_read += place.span;
            state.report.busy_read += took;
            state.report.read.observe(frame.raw, took.as_secs_f64());
            entry.reading = if entry.live { Reading::Ready(Box::new(payload)) } else { Reading::Idle };
        }
        Err(error) => {
            state.report.failed_reads += 1;
            if entry.waiters > 0 {
                entry.reading = Reading::Failed(Box::new(error));
            } else {
                tell_later(entry, &mut state.ahead);
                state.failures.push_back(error);
            }
        }
    }
    state.release(frame.sequence, &*shared.medium);
}

/// A prefetch that failed with nobody waiting: the next call tells, and a later `get` tries once more.
fn tell_later(entry: &mut Entry, ahead: &mut usize) {
    entry.reading = Reading::Idle;
    if entry.ahead {
        entry.ahead = false;
        *ahead -= 1;
    }
}

/// Reads a frame, checks it and decodes it.
fn fetch(shared: &Shared, tools: &mut Tools, frame: &Frame, place: Place) -> Result<Payload> {
    let path = shared.medium.path(Some(place));
    let read = |buffer: &mut [u8]| {
        let done = shared.medium.read(place, buffer);
        done.map_err(|error| Error::io("read a snapshot from", &path, Some(frame.key), error))
    };
    if frame.coding == Coding::None {
        // Nothing to decode: the caller gets the buffer itself.
        let mut own = shared.spare.take();
        let buffer = own.first(place.span as usize);
        read(buffer)?;
        let length = frame.check(buffer, &path)?.len();
        return Ok(Payload::read(frame.dtype, own, (HEADER, length), shared.spare.clone()));
    }
    let buffer = tools.buffer.first(place.span as usize);
    read(buffer)?;
    let stored = frame.check(buffer, &path)?;
    let (raw, width) = (frame.raw as usize, frame.dtype.width());
    let bytes = tools.workshop.decode(frame.coding, stored, width, raw).map_err(|error| Error::Corrupt {
        path,
        key: frame.key,
        field: "the decoded length",
        expected: raw.to_string(),
        found: error.to_string(),
    })?;
    Ok(Payload::new(frame.dtype, bytes))
}

/// Turns a panic into an error, so that nobody waits for a thread that is gone.
fn guarded<T>(key: Key, work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(Error::Panicked { key, message: message(&*panic) }))
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}
