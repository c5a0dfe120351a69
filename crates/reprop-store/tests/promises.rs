//! The six promises of the store. Threads are held and released, so nothing here depends on time.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{faulty, key, names, payload, small};
use reprop_store::testing::FaultyFiles;
use reprop_store::{Codec, DiskConfig, Dtype, Durability, Error, Key, MemoryStore, Payload, Store};

const LENGTH: usize = 40_000;

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
                store.put(key, Payload::new(Dtype::F64, common::noise(7, length))).unwrap().wait().unwrap();
                let back = store.get(key).unwrap();
                assert_eq!(back.dtype(), Dtype::F64);
                assert_eq!(back.bytes(), common::noise(7, length), "{codec:?} {length}");
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
    files.set(|faults| faults.bytes_per_second = Some(20e6));
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

// Promise 3: errors surface; see `faults.rs`. Here: ends.

#[test]
fn a_dropped_store_neither_panics_nor_hangs_nor_leaves_files() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("snapshots");
    let (store, files) = faulty(small(&folder).queue(10, u64::MAX));
    files.set(|faults| faults.hold_writes = true);
    let tickets: Vec<_> = (0..5).map(|step| store.put(key(step), payload(step, LENGTH)).unwrap()).collect();
    while !folder.join("segment-00000").exists() {
        std::thread::yield_now(); // until the writer is at the first
    }
    std::thread::scope(|scope| {
        scope.spawn(|| drop(store));
        files.heal();
    });
    assert!(tickets.iter().all(|ticket| ticket.outcome().is_some()), "nobody waits for ever");
    assert!(!folder.exists());
}

#[test]
fn a_finished_store_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let disk = small(folder.path()).create().unwrap();
    let memory = MemoryStore::new(100);
    for store in [&disk as &dyn Store, &memory] {
        store.put(key(0), payload(0, 10)).unwrap();
        let report = store.finish().unwrap();
        assert_eq!(report.puts, 1);
        assert!(matches!(store.put(key(0), payload(0, 10)), Err(Error::Finished)));
        assert!(matches!(store.get(key(0)), Err(Error::Finished)));
        assert!(matches!(store.prefetch(key(0)), Err(Error::Finished)));
        assert!(matches!(store.remove(key(0)), Err(Error::Finished)));
        assert!(matches!(store.commit(b""), Err(Error::Finished)));
        assert_eq!(store.finish().unwrap().puts, 1);
    }
}

#[test]
fn finish_frees_whoever_waits() {
    let folder = tempfile::tempdir().unwrap();
    let (store, files) = faulty(small(folder.path()));
    store.put(key(0), payload(0, LENGTH)).unwrap().wait().unwrap();
    files.set(|faults| faults.hold_reads = true);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| store.get(key(0)));
        let finisher = scope.spawn(|| store.finish());
        while !matches!(store.prefetch(key(0)), Err(Error::Finished)) {
            std::thread::yield_now();
        }
        files.heal();
        finisher.join().unwrap().unwrap();
        // It got its snapshot before the end or was told of the end; it did not wait for ever.
        let answer = reader.join().unwrap();
        assert!(matches!(&answer, Err(Error::Finished)) || answer.unwrap() == payload(0, LENGTH));
    });
}

#[test]
fn what_is_not_there_is_missing_in_every_tier() {
    let folder = tempfile::tempdir().unwrap();
    let disk = small(folder.path()).create().unwrap();
    for store in [&disk as &dyn Store, &MemoryStore::unbounded()] {
        assert!(matches!(store.get(key(9)), Err(Error::Missing { .. })));
        assert!(matches!(store.prefetch(key(9)), Err(Error::Missing { .. })));
        assert!(matches!(store.remove(key(9)), Err(Error::Missing { .. })));
        assert!(matches!(store.commit(b"meta"), Err(Error::NotDurable)));
    }
}

#[test]
fn settings_that_would_wait_for_ever_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let config = small(folder.path());
    for wrong in [
        config.clone().writers(0),
        config.clone().readers(0),
        config.clone().queue(0, 1),
        config.clone().read_ahead(0),
        config.clone().durability(Durability::Every(0)),
        config.clone().keep(true),
    ] {
        assert!(matches!(wrong.create(), Err(Error::Setting { .. })));
    }
    assert!(matches!(config.open_existing(), Err(Error::Setting { .. })));
    assert!(names(folder.path()).is_empty());
}

// Promise 5: the page cache hides nothing.

/// Of a file's pages, how many are in the page cache, as `fincore` tells; `None` where there is no such program.
fn cached(path: &std::path::Path) -> Option<u64> {
    let output = std::process::Command::new("fincore")
        .args(["-b", "-n", "-r", "-o", "RES"])
        .arg(path)
        .output()
        .ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

#[test]
fn neither_writes_nor_reads_stay_in_the_page_cache() {
    for direct in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let store = DiskConfig::new(folder.path()).direct(direct).create().unwrap();
        let file = folder.path().join("segment-00000");
        store.put(key(0), payload(0, 4 << 20)).unwrap().wait().unwrap();
        let Some(after_write) = cached(&file) else {
            eprintln!("fincore is not here: nothing was tested");
            return;
        };
        assert!(after_write <= 64 << 10, "{after_write} bytes stay, direct {direct}");
        store.get(key(0)).unwrap();
        let after_read = cached(&file).unwrap();
        assert!(after_read <= 64 << 10, "{after_read} bytes stay, direct {direct}");
        store.finish().unwrap();
    }
}

// Promise 6: clean-up and the lock.

#[test]
fn files_go_at_the_end_and_other_peoples_stay() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("notes.txt"), "mine").unwrap();
    let store = small(folder.path()).durability(Durability::Every(1)).create().unwrap();
    for step in 0..10 {
        store.put(key(step), payload(step, LENGTH)).unwrap();
    }
    store.commit(b"x").unwrap();
    store.finish().unwrap();
    assert_eq!(names(folder.path()), ["notes.txt"]);
}

#[test]
fn two_stores_on_one_folder_are_refused_with_its_name_and_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let config = small(folder.path()).durability(Durability::Every(1));
    let store = config.create().unwrap();
    for second in [config.create().map(drop), config.open_existing().map(drop)] {
        let error = second.unwrap_err();
        assert!(matches!(error, Error::Locked { pid: Some(pid), .. } if pid == std::process::id()));
        assert!(error.to_string().contains(folder.path().to_str().unwrap()), "{error}");
    }
    store.finish().unwrap();
    config.create().unwrap().finish().unwrap();
}

#[test]
fn kept_files_open_again_at_the_last_point() {
    let folder = tempfile::tempdir().unwrap();
    let config = small(folder.path()).durability(Durability::Every(2)).keep(true);
    let store = config.create().unwrap();
    store.put(key(0), payload(0, LENGTH)).unwrap();
    assert!(store.commit(b"one").unwrap().is_none(), "every second offer is taken");
    store.put(key(1), payload(1, LENGTH)).unwrap();
    assert!(store.commit(b"two").unwrap().is_some());
    store.put(key(2), payload(2, LENGTH)).unwrap();
    assert_eq!(store.finish().unwrap().points, 1);

    let error = config.create().map(drop).unwrap_err();
    assert!(matches!(error, Error::Resumable { points: 1, .. }), "{error}");
    let (store, recovered) = config.open_existing().unwrap();
    assert_eq!((&*recovered.meta, recovered.point, recovered.torn), (&b"two"[..], 1, 0));
    assert_eq!(store.keys(), [key(0), key(1)]);
    for step in 0..2 {
        assert_eq!(store.get(key(step)).unwrap(), payload(step, LENGTH));
    }
    store.finish().unwrap();
    config.discard_stale(true).keep(false).create().unwrap().finish().unwrap();
    assert!(names(folder.path()).is_empty());
}

#[test]
fn what_a_point_names_is_not_written_over_before_the_next_point() {
    let folder = tempfile::tempdir().unwrap();
    let config = small(folder.path()).durability(Durability::Every(1));
    let store = config.create().unwrap();
    for step in 0..4 {
        store.put(key(step), payload(step, LENGTH)).unwrap();
    }
    store.commit(b"point").unwrap().unwrap().wait().unwrap();
    // All replaced, some twice, some only removed: none of it is in a point.
    for step in 0..3 {
        store.put(key(step), payload(100 + step, LENGTH)).unwrap();
        store.put(key(step), payload(200 + step, LENGTH)).unwrap().wait().unwrap();
    }
    store.remove(key(3)).unwrap();
    drop(store); // as if killed
    let (store, recovered) = config.open_existing().unwrap();
    assert_eq!(recovered.meta, b"point");
    for step in 0..4 {
        assert_eq!(store.get(key(step)).unwrap(), payload(step, LENGTH));
    }
    store.finish().unwrap();
}

#[test]
fn commits_overlap_with_writes_and_keep_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let config = small(folder.path()).durability(Durability::Every(1)).queue(100, u64::MAX).writers(3);
    let (store, files) = faulty(config.clone());
    files.set(|faults| faults.hold_writes = true);
    let mut points = Vec::new();
    for step in 0..8 {
        store.put(key(step), payload(step, LENGTH)).unwrap();
        points.push(store.commit(&[step as u8]).unwrap().unwrap());
        if step % 2 == 1 {
            store.remove(key(step / 2)).unwrap();
        }
    }
    assert!(points.iter().all(|point| point.outcome().is_none()));
    files.heal();
    for point in points {
        point.wait().unwrap();
    }
    drop(store);
    let (store, recovered) = config.open_existing().unwrap();
    assert_eq!((&*recovered.meta, recovered.point), (&[7_u8][..], 8));
    // Step 3 was removed after the last point was taken, so it is in it.
    assert_eq!(store.keys(), [3, 4, 5, 6, 7].map(key));
    for step in 3..8 {
        assert_eq!(store.get(key(step)).unwrap(), payload(step, LENGTH));
    }
    store.finish().unwrap();
}

#[test]
fn any_thread_may_call() {
    let folder = tempfile::tempdir().unwrap();
    let files = Arc::new(FaultyFiles::new());
    let store = small(folder.path()).layer(files).writers(2).readers(2).create().unwrap();
    std::thread::scope(|scope| {
        for run in 0..4 {
            let store = &store;
            scope.spawn(move || {
                for step in 0..50 {
                    let key = Key::new(run, step);
                    store.put(key, payload(run * 1000 + step, 5000)).unwrap();
                    if step >= 3 {
                        let old = Key::new(run, step - 3);
                        store.prefetch(old).unwrap();
                        assert_eq!(store.get(old).unwrap(), payload(run * 1000 + step - 3, 5000));
                        store.remove(old).unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(store.keys().len(), 12);
    store.finish().unwrap();
}
