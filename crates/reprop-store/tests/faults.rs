//! Each way a disk can fail: an error with the step in it, never garbage, and the rest still readable.

mod common;

use common::{faulty, key, names, payload, small};
use reprop_store::testing::{EIO, ENOSPC};
use reprop_store::{Codec, DiskConfig, Durability, Error, Store};

const LENGTH: usize = 40_000;

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

#[test]
fn every_flipped_bit_is_an_error_that_names_file_step_and_numbers() {
    // Bits of the magic number, version, dtype, codec, padding, store, run, step, write, lengths, checksums, payload.
    for bit in [3, 70, 97, 105, 115, 130, 200, 260, 330, 400, 460, 515, 550, 600, 40_000, 8 * 40_071] {
        for codec in [Codec::None, Codec::Lz4] {
            let folder = tempfile::tempdir().unwrap();
            let (store, files) = faulty(small(folder.path()).codec(codec));
            files.set(|faults| faults.flip_written = Some(bit));
            store.put(key(5), payload(5, LENGTH)).unwrap().wait().unwrap();
            let error = store.get(key(5)).unwrap_err();
            let Error::Corrupt { path, key: found_key, expected, found, .. } = &error else {
                panic!("bit {bit}: {error}")
            };
            assert!(path.ends_with("segment-00000"));
            assert_eq!(*found_key, key(5));
            assert_ne!(expected, found, "bit {bit}");
            assert!(store.get(key(5)).is_err(), "it stays damaged");
            store.finish().unwrap();
        }
    }
}

#[test]
fn a_bit_flipped_on_the_way_back_is_an_error_once() {
    let folder = tempfile::tempdir().unwrap();
    let (store, files) = faulty(small(folder.path()));
    store.put(key(5), payload(5, LENGTH)).unwrap().wait().unwrap();
    files.set(|faults| faults.flip_read = Some(100_000));
    assert!(matches!(store.get(key(5)), Err(Error::Corrupt { .. })));
    assert_eq!(store.get(key(5)).unwrap(), payload(5, LENGTH));
    store.finish().unwrap();
}

#[test]
fn an_older_snapshot_in_the_place_of_a_lost_write_is_not_taken_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _files) = faulty(small(folder.path()));
    let segment = folder.path().join("segment-00000");
    store.put(key(5), payload(5, LENGTH)).unwrap().wait().unwrap();
    let before = std::fs::read(&segment).unwrap();
    store.remove(key(5)).unwrap();
    store.put(key(5), payload(6, LENGTH)).unwrap().wait().unwrap();
    std::fs::write(&segment, before).unwrap();
    let error = store.get(key(5)).unwrap_err();
    assert!(error.to_string().contains("the number of the write should be 1 and is 0"), "{error}");
    store.finish().unwrap();
}

#[test]
fn a_truncated_file_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _files) = faulty(small(folder.path()));
    store.put(key(0), payload(0, LENGTH)).unwrap().wait().unwrap();
    let segment = std::fs::OpenOptions::new().write(true).open(folder.path().join("segment-00000")).unwrap();
    segment.set_len(20_000).unwrap();
    let error = store.get(key(0)).unwrap_err();
    assert!(matches!(error, Error::Io { .. }) && error.to_string().contains("ends"), "{error}");
    store.finish().unwrap();
}

#[test]
fn a_removed_folder_is_told_by_the_next_point_and_by_the_next_file() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("snapshots");
    let (store, _files) = faulty(small(&folder).durability(Durability::Every(1)));
    store.put(key(0), payload(0, LENGTH)).unwrap().wait().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(store.get(key(0)).unwrap(), payload(0, LENGTH), "open files outlive their names");
    let error = store.commit(b"here").unwrap().unwrap().wait().unwrap_err();
    assert!(error.to_string().contains("removed"), "{error}");
    assert!(store.put(key(1), payload(1, LENGTH)).is_err(), "told by the next call");
    let error = store.put(key(1), payload(1, 100_000)).unwrap().wait().unwrap_err();
    assert!(matches!(error, Error::Io { .. }) && error.key() == Some(key(1)), "{error}");
    assert!(store.finish().is_err());
}

#[test]
fn a_point_that_fails_leaves_the_one_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let config = small(folder.path()).durability(Durability::Every(1));
    let (store, files) = faulty(config.clone());
    store.put(key(0), payload(0, LENGTH)).unwrap();
    store.commit(b"first").unwrap().unwrap().wait().unwrap();
    files.set(|faults| faults.sync_error = Some(EIO));
    store.put(key(1), payload(1, LENGTH)).unwrap();
    store.remove(key(0)).unwrap();
    store.commit(b"second").unwrap().unwrap().wait().unwrap_err();
    files.heal();
    drop(store);
    let (store, recovered) = config.open_existing().unwrap();
    assert_eq!(recovered.meta, b"first");
    assert_eq!(store.keys(), [key(0)]);
    assert_eq!(store.get(key(0)).unwrap(), payload(0, LENGTH));
    store.finish().unwrap();
}

#[test]
fn what_a_failed_point_had_to_say_goes_into_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let config = small(folder.path()).durability(Durability::Every(1));
    let (store, files) = faulty(config.clone());
    store.put(key(0), payload(0, LENGTH)).unwrap();
    store.commit(b"first").unwrap().unwrap().wait().unwrap();
    store.put(key(1), payload(1, LENGTH)).unwrap();
    store.put(key(2), payload(2, LENGTH)).unwrap();
    store.remove(key(0)).unwrap();
    files.set(|faults| {
        faults.file = "manifest";
        faults.write_error = Some((0, ENOSPC));
    });
    store.commit(b"second").unwrap().unwrap().wait().unwrap_err();
    files.heal();
    assert!(store.remove(key(1)).is_err(), "the failure is told here, and step 1 goes all the same");
    store.put(key(3), payload(3, LENGTH)).unwrap();
    store.commit(b"third").unwrap().unwrap().wait().unwrap();
    drop(store);
    let (store, recovered) = config.open_existing().unwrap();
    assert_eq!((&*recovered.meta, recovered.point), (&b"third"[..], 2));
    assert_eq!(store.keys(), [key(2), key(3)]);
    for step in [2, 3] {
        assert_eq!(store.get(key(step)).unwrap(), payload(step, LENGTH));
    }
    store.finish().unwrap();
}

#[test]
fn a_panic_in_the_background_is_an_error_and_the_thread_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (store, files) = faulty(small(folder.path()));
    files.set(|faults| faults.panic = true);
    let error = store.put(key(0), payload(0, LENGTH)).unwrap().wait().unwrap_err();
    assert!(matches!(&error, Error::Panicked { message, .. } if message == "the panic asked for"), "{error}");
    assert!(store.remove(key(0)).is_err());
    store.put(key(1), payload(1, LENGTH)).unwrap().wait().unwrap();
    assert_eq!(store.get(key(1)).unwrap(), payload(1, LENGTH));
    store.finish().unwrap();
}

#[test]
fn a_run_that_ends_with_a_loss_leaves_its_last_point() {
    let folder = tempfile::tempdir().unwrap();
    let config = small(folder.path()).durability(Durability::Every(1));
    let (store, files) = faulty(config.clone());
    store.put(key(0), payload(0, LENGTH)).unwrap();
    store.commit(b"good").unwrap().unwrap().wait().unwrap();
    files.set(|faults| faults.write_error = Some((0, EIO)));
    store.put(key(1), payload(1, LENGTH)).unwrap();
    assert_eq!(store.finish().unwrap_err().key(), Some(key(1)));
    let (store, recovered) = config.open_existing().unwrap();
    assert_eq!(recovered.meta, b"good");
    assert_eq!(store.get(key(0)).unwrap(), payload(0, LENGTH));
    store.finish().unwrap();
    assert!(names(folder.path()).is_empty());
}

#[test]
fn an_offer_that_meets_an_earlier_failure_can_be_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let (store, files) = faulty(small(folder.path()).durability(Durability::Every(2)));
    assert!(store.commit(b"one").unwrap().is_none());
    files.set(|faults| faults.write_error = Some((0, EIO)));
    store.put(key(1), payload(1, LENGTH)).unwrap().wait().unwrap_err();
    files.heal();
    assert!(store.commit(b"two").is_err());
    // Step 1 is still wanted and lost: a point with it cannot be.
    let point = store.commit(b"two").unwrap().expect("the second offer is taken");
    assert_eq!(point.wait().unwrap_err().key(), Some(key(1)));
    assert!(store.remove(key(1)).is_err());
    assert!(store.commit(b"three").unwrap().is_none());
    store.commit(b"four").unwrap().unwrap().wait().unwrap();
    store.finish().unwrap();
}

#[test]
fn a_full_disk_at_a_point_is_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let (store, files) = faulty(small(folder.path()).durability(Durability::Every(1)));
    files.set(|faults| {
        faults.file = "manifest";
        faults.room = Some(0);
    });
    let error = store.commit(b"no room").unwrap().unwrap().wait().unwrap_err();
    assert!(error.is_full() && error.key().is_none(), "{error}");
    files.heal();
    assert!(store.commit(b"told here").is_err());
    store.commit(b"room").unwrap().unwrap().wait().unwrap();
    store.finish().unwrap();
}

#[test]
fn a_reading_thread_that_is_late_does_not_read_twice_or_read_what_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let (store, files) = faulty(small(folder.path()).readers(2).read_ahead(8));
    for step in 0..4 {
        store.put(key(step), payload(step, LENGTH)).unwrap().wait().unwrap();
    }
    files.set(|faults| faults.hold_reads = true);
    for step in 0..4 {
        assert!(store.prefetch(key(step)).unwrap());
    }
    // Two are being read; their places must not be written over before those reads end.
    store.remove(key(0)).unwrap();
    store.remove(key(3)).unwrap();
    for step in 10..14 {
        store.put(key(step), payload(step, LENGTH)).unwrap().wait().unwrap();
    }
    files.heal();
    for step in [1, 2, 10, 11, 12, 13] {
        assert_eq!(store.get(key(step)).unwrap(), payload(step, LENGTH));
    }
    let report = store.finish().unwrap();
    assert_eq!((report.failed_reads, report.held), (0, 6 * 40_960));
    assert!(report.reads <= 8, "{report}");
}
