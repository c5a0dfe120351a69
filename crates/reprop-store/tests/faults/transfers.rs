//! Writes and reads that fail, and room that runs out.

use reprop_store::testing::EIO;
use reprop_store::{DiskConfig, Error, Store};

use crate::LENGTH;
use crate::common::{faulty, key, names, payload, small};

#[test]
fn short_writes_and_reads_lose_nothing() {
    for (direct, short) in [(true, 5000), (false, 777)] {
        let folder = tempfile::tempdir().unwrap();
        let (store, files) = faulty(small(folder.path()).direct(direct));
        files.set(|faults| faults.short = Some(short));
        for step in 0..5 {
            store.put(key(step), payload(step, LENGTH)).unwrap().wait().unwrap();
        }
        for step in 0..5 {
            assert_eq!(store.get(key(step)).unwrap(), payload(step, LENGTH));
        }
        store.finish().unwrap();
    }
}

#[test]
fn a_file_that_takes_nothing_more_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let (store, files) = faulty(small(folder.path()));
    files.set(|faults| faults.short = Some(0));
    let error = store.put(key(0), payload(0, LENGTH)).unwrap().wait().unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
    assert!(store.finish().is_err());
}

#[test]
fn a_failed_write_is_told_by_the_ticket_the_next_call_every_get_and_finish() {
    let folder = tempfile::tempdir().unwrap();
    let (store, files) = faulty(small(folder.path()));
    store.put(key(0), payload(0, LENGTH)).unwrap().wait().unwrap();
    files.set(|faults| faults.write_error = Some((0, EIO)));
    let ticket = store.put(key(1), payload(1, LENGTH)).unwrap();
    let failed = ticket.wait().unwrap_err();
    assert_eq!(failed.key(), Some(key(1)));
    assert!(failed.to_string().contains(folder.path().to_str().unwrap()), "{failed}");
    files.heal();

    let told = store.put(key(2), payload(2, LENGTH)).unwrap_err();
    assert_eq!(told.key(), Some(key(1)));
    store.put(key(2), payload(2, LENGTH)).unwrap();
    assert_eq!(store.get(key(1)).unwrap_err().key(), Some(key(1)));
    assert_eq!(store.get(key(1)).unwrap_err().key(), Some(key(1)));
    assert!(store.prefetch(key(1)).is_err());
    assert_eq!(store.get(key(0)).unwrap(), payload(0, LENGTH));
    assert_eq!(store.get(key(2)).unwrap(), payload(2, LENGTH));
    assert_eq!(store.stats().failed_writes, 1);
    assert_eq!(store.finish().unwrap_err().key(), Some(key(1)));
    assert_eq!(store.finish().unwrap_err().key(), Some(key(1)), "a second call gives the same answer");
}

#[test]
fn a_failed_write_that_nobody_asked_about_is_told_by_finish() {
    let folder = tempfile::tempdir().unwrap();
    let (store, files) = faulty(small(folder.path()));
    files.set(|faults| faults.write_error = Some((0, EIO)));
    store.put(key(3), payload(3, LENGTH)).unwrap();
    assert_eq!(store.finish().unwrap_err().key(), Some(key(3)));
    assert!(names(folder.path()).is_empty(), "the files go all the same");
}

#[test]
fn a_lost_snapshot_that_was_given_up_is_forgiven() {
    let folder = tempfile::tempdir().unwrap();
    let (store, files) = faulty(small(folder.path()));
    files.set(|faults| faults.write_error = Some((0, EIO)));
    store.put(key(1), payload(1, LENGTH)).unwrap().wait().unwrap_err();
    files.heal();
    // The error is told here; the snapshot is removed all the same.
    assert_eq!(store.remove(key(1)).unwrap_err().key(), Some(key(1)));
    assert!(!store.contains(key(1)));
    assert_eq!(store.finish().unwrap().failed_writes, 1);
}

#[test]
fn a_failed_read_is_told_and_can_be_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let (store, files) = faulty(small(folder.path()));
    store.put(key(1), payload(1, LENGTH)).unwrap().wait().unwrap();
    files.set(|faults| faults.read_error = Some((0, EIO)));
    let error = store.get(key(1)).unwrap_err();
    assert_eq!(error.key(), Some(key(1)));
    assert!(error.to_string().contains("segment-00000"), "{error}");
    files.heal();
    assert_eq!(store.get(key(1)).unwrap(), payload(1, LENGTH));
    assert_eq!(store.finish().unwrap().failed_reads, 1);
}

#[test]
fn a_prefetch_that_fails_is_told_by_the_next_call() {
    let folder = tempfile::tempdir().unwrap();
    let (store, files) = faulty(small(folder.path()));
    store.put(key(1), payload(1, LENGTH)).unwrap().wait().unwrap();
    files.set(|faults| faults.read_error = Some((0, EIO)));
    assert!(store.prefetch(key(1)).unwrap());
    while store.stats().failed_reads == 0 {
        std::thread::yield_now();
    }
    files.heal();
    assert_eq!(store.put(key(2), payload(2, 10)).unwrap_err().key(), Some(key(1)));
    assert_eq!(store.get(key(1)).unwrap(), payload(1, LENGTH));
    store.finish().unwrap();
}

#[test]
fn a_prefetch_that_fails_unseen_is_told_by_finish() {
    let folder = tempfile::tempdir().unwrap();
    let (store, files) = faulty(small(folder.path()));
    store.put(key(1), payload(1, LENGTH)).unwrap().wait().unwrap();
    files.set(|faults| faults.read_error = Some((0, EIO)));
    assert!(store.prefetch(key(1)).unwrap());
    while store.stats().failed_reads == 0 {
        std::thread::yield_now();
    }
    assert_eq!(store.finish().unwrap_err().key(), Some(key(1)));
}

/// Fills the disk, and goes on with what is left, as a chain does that can recompute.
#[test]
fn a_full_disk_is_told_apart_and_earlier_snapshots_stay() {
    let folder = tempfile::tempdir().unwrap();
    let (store, files) = faulty(small(folder.path()));
    for step in 0..3 {
        store.put(key(step), payload(step, LENGTH)).unwrap().wait().unwrap();
    }
    files.set(|faults| faults.room = Some(30_000));
    let error = store.put(key(3), payload(3, LENGTH)).unwrap().wait().unwrap_err();
    assert!(error.is_full(), "{error}");
    assert_eq!(error.key(), Some(key(3)));
    assert!(store.get(key(0)).unwrap_err().is_full(), "told by the next call");
    for step in 0..3 {
        assert_eq!(store.get(key(step)).unwrap(), payload(step, LENGTH));
    }
    store.remove(key(3)).unwrap();
    files.heal();
    store.put(key(4), payload(4, LENGTH)).unwrap().wait().unwrap();
    assert_eq!(store.get(key(4)).unwrap(), payload(4, LENGTH));
    assert_eq!(store.finish().unwrap().failed_writes, 1);
}

#[test]
fn room_that_runs_out_inside_a_write_is_told_apart_too() {
    let folder = tempfile::tempdir().unwrap();
    let (store, files) = faulty(small(folder.path()));
    store.put(key(0), payload(0, 10_000)).unwrap().wait().unwrap();
    // Room is reserved for a second one; the file system takes a part of it and no more.
    files.set(|faults| {
        faults.room = Some(8192);
        faults.short = Some(4096);
    });
    let error = store.put(key(1), payload(1, 20_000)).unwrap().wait().unwrap_err();
    assert!(error.is_full(), "{error}");
    assert!(store.remove(key(1)).unwrap_err().is_full());
    assert_eq!(store.get(key(0)).unwrap(), payload(0, 10_000));
    store.finish().unwrap();
}

#[test]
fn a_budget_is_a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _files) = faulty(DiskConfig::new(folder.path()).segment_bytes(4096).budget(100_000));
    let mut stored = 0;
    let error = loop {
        match store.put(key(stored), payload(stored, 8000)).unwrap().wait() {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
    };
    assert!(error.is_full(), "{error}");
    assert!(error.to_string().contains("100000"), "{error}");
    // Frames of 8192 bytes, in segments of 8192, 16384, 32768 and what is left below 100000, which is 40960.
    assert_eq!(stored, 12);
    assert!(store.remove(key(stored)).unwrap_err().is_full());
    store.remove(key(0)).unwrap();
    store.put(key(99), payload(99, 8000)).unwrap().wait().unwrap();
    store.finish().unwrap();
}
