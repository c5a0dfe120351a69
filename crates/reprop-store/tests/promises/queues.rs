//! Snapshots from `put` to `get`: bounded queues, waits that are told, lengths and codecs.

use std::time::Duration;

use reprop_store::{Codec, DiskConfig, Dtype, Error, Key, Payload, Store};

use crate::LENGTH;
use crate::common::{faulty, key, noise, payload, small};

// Promise 1: tickets, ownership, bounded queues, stall.

#[test]
fn a_snapshot_can_be_got_from_the_moment_it_is_put() {
    let folder = tempfile::tempdir().unwrap();
    let (store, files) = faulty(small(folder.path()));
    files.set(|faults| faults.hold_writes = true);
    let ticket = store.put(key(0), payload(0, LENGTH)).unwrap();
    assert!(ticket.outcome().is_none());
    assert_eq!(store.get(key(0)).unwrap(), payload(0, LENGTH));
    assert!(store.prefetch(key(0)).unwrap());
    files.heal();
    ticket.wait().unwrap();
    assert!(matches!(ticket.outcome(), Some(Ok(()))));
    assert_eq!(store.get(key(0)).unwrap(), payload(0, LENGTH));
    let report = store.finish().unwrap();
    assert_eq!((report.gets, report.reads), (2, 1), "the first came out of the queue");
    assert_eq!(report.stall_put, Duration::ZERO);
}

#[test]
fn a_full_queue_has_put_wait_and_the_wait_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (store, files) = faulty(small(folder.path()).queue(2, u64::MAX));
    files.set(|faults| faults.hold_writes = true);
    store.put(key(0), payload(0, LENGTH)).unwrap();
    store.put(key(1), payload(1, LENGTH)).unwrap();
    assert_eq!(store.stats().stall_put, Duration::ZERO);
    std::thread::scope(|scope| {
        let third = scope.spawn(|| store.put(key(2), payload(2, LENGTH)).unwrap());
        // It cannot end before the files are released, however long this takes.
        std::thread::sleep(Duration::from_millis(20));
        assert!(!third.is_finished());
        assert!(!store.contains(key(2)));
        files.heal();
        third.join().unwrap();
    });
    assert_eq!(store.finish().unwrap().writes, 3);
    assert!(store.stats().stall_put > Duration::ZERO);
}

#[test]
fn a_queue_is_bounded_in_bytes_too_and_a_larger_snapshot_goes_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (store, files) = faulty(small(folder.path()).queue(100, 1000));
    store.put(key(0), payload(0, LENGTH)).unwrap();
    store.put(key(1), payload(1, 600)).unwrap().wait().unwrap();
    files.set(|faults| faults.hold_writes = true);
    store.put(key(2), payload(2, 600)).unwrap();
    std::thread::scope(|scope| {
        let next = scope.spawn(|| store.put(key(3), payload(3, 600)).unwrap());
        std::thread::sleep(Duration::from_millis(20));
        assert!(!next.is_finished());
        files.heal();
        next.join().unwrap();
    });
    store.finish().unwrap();
}

#[test]
fn reading_ahead_is_bounded_and_what_was_read_ahead_costs_no_second_read() {
    let folder = tempfile::tempdir().unwrap();
    let (store, files) = faulty(small(folder.path()).read_ahead(2));
    for step in 0..3 {
        store.put(key(step), payload(step, LENGTH)).unwrap().wait().unwrap();
    }
    files.set(|faults| faults.hold_reads = true);
    assert!(store.prefetch(key(2)).unwrap());
    assert!(store.prefetch(key(1)).unwrap());
    assert!(!store.prefetch(key(0)).unwrap(), "two are on their way");
    assert!(store.prefetch(key(1)).unwrap(), "asking twice is no third");
    files.heal();
    assert_eq!(store.get(key(2)).unwrap(), payload(2, LENGTH));
    assert!(store.prefetch(key(0)).unwrap());
    assert_eq!(store.get(key(1)).unwrap(), payload(1, LENGTH));
    assert_eq!(store.get(key(0)).unwrap(), payload(0, LENGTH));
    assert_eq!(store.finish().unwrap().reads, 3);
}

#[test]
fn waiting_for_a_read_is_reported_as_stall() {
    let folder = tempfile::tempdir().unwrap();
    let (store, files) = faulty(small(folder.path()));
    store.put(key(0), payload(0, LENGTH)).unwrap().wait().unwrap();
    files.set(|faults| faults.bytes_per_second = Some(4e6));
    store.get(key(0)).unwrap();
    // 40,960 bytes at 4 MB/s: a sleep is never shorter than asked.
    let report = store.stats();
    assert!(report.stall_get >= Duration::from_millis(10), "{report}");
    assert!(report.read_seconds(LENGTH as u64).unwrap() >= 0.010);
    store.finish().unwrap();
}

#[test]
fn a_slow_disk_shows_in_the_estimate_of_a_write() {
    let folder = tempfile::tempdir().unwrap();
    let (store, files) = faulty(small(folder.path()));
    assert_eq!(store.stats().write_seconds(1), None);
    files.set(|faults| faults.bytes_per_second = Some(4e6));
    for step in 0..3 {
        store.put(key(step), payload(step, LENGTH)).unwrap().wait().unwrap();
    }
    assert!(store.stats().write_seconds(LENGTH as u64).unwrap() >= 0.010);
    store.finish().unwrap();
}

#[test]
fn a_snapshot_removed_before_its_turn_is_never_written() {
    let folder = tempfile::tempdir().unwrap();
    let (store, files) = faulty(small(folder.path()).queue(10, u64::MAX));
    files.set(|faults| faults.hold_writes = true);
    store.put(key(0), payload(0, LENGTH)).unwrap();
    while !folder.path().join("segment-00000").exists() {
        std::thread::yield_now(); // until the writer is at step 0
    }
    let cancelled = store.put(key(1), payload(1, LENGTH)).unwrap();
    store.remove(key(1)).unwrap();
    assert!(matches!(cancelled.wait(), Err(Error::Missing { .. })));
    files.heal();
    let report = store.finish().unwrap();
    assert_eq!((report.puts, report.writes, report.held), (2, 1, 40_960));
}

// Promise 2: see `faults.rs` for what is damaged; here, what is not.

#[test]
fn lengths_at_every_edge_and_the_largest_numbers_come_back() {
    let lengths = [0, 1, 4023, 4024, 4025, 4096, 65_535, 65_536, 300_000];
    for codec in [Codec::None, Codec::ShuffleZstd, Codec::Lz4, Codec::Auto] {
        for direct in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let store = small(folder.path()).codec(codec).direct(direct).create().unwrap();
            for (i, &length) in lengths.iter().enumerate() {
                let key = Key::new(u64::MAX, u64::MAX - i as u64);
                store.put(key, Payload::new(Dtype::F64, noise(7, length))).unwrap().wait().unwrap();
                let back = store.get(key).unwrap();
                assert_eq!(back.dtype(), Dtype::F64);
                assert_eq!(back.bytes(), noise(7, length), "{codec:?} {length}");
            }
            store.finish().unwrap();
        }
    }
}

#[test]
fn compression_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let store = small(folder.path()).codec(Codec::ShuffleZstd).create().unwrap();
    store.put(key(0), Payload::new(Dtype::F32, vec![7; 1 << 20])).unwrap().wait().unwrap();
    assert_eq!(store.get(key(0)).unwrap().bytes(), vec![7; 1 << 20]);
    let report = store.finish().unwrap();
    assert_eq!((report.raw_written, report.raw_read), (1 << 20, 1 << 20));
    assert_eq!(report.stored_written, 4096);
    assert!((report.compression() - 256.0).abs() < 1e-9);
}

#[test]
fn auto_compresses_on_a_slow_disk() {
    let folder = tempfile::tempdir().unwrap();
    let (store, files) = faulty(DiskConfig::new(folder.path()).codec(Codec::Auto));
    files.set(|faults| faults.bytes_per_second = Some(4e6));
    let mut stored = Vec::new();
    for step in 0..8 {
        let before = store.stats().stored_written;
        store.put(key(step), Payload::new(Dtype::F32, vec![step as u8; 400_000])).unwrap().wait().unwrap();
        stored.push(store.stats().stored_written - before);
    }
    assert_eq!(stored[0], 401_408, "the first trial is without");
    assert!(stored[6..].iter().all(|&bytes| bytes <= 8192), "{stored:?}");
    store.finish().unwrap();
}
