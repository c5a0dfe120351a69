//! Failures at durable points, and threads that are late.

use reprop_store::testing::{EIO, ENOSPC};
use reprop_store::{Durability, Error, Store};

use crate::LENGTH;
use crate::common::{faulty, key, names, payload, small};

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

#[test]
fn no_room_for_what_was_removed_meanwhile_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let (store, files) = faulty(small(folder.path()));
    files.set(|faults| faults.hold_writes = true);
    let ticket = store.put(key(0), payload(0, LENGTH)).unwrap();
    while folder.path().join("segment-00000").metadata().map_or(0, |file| file.len()) == 0 {
        std::thread::yield_now(); // until room is reserved and the write held
    }
    store.remove(key(0)).unwrap();
    files.set(|faults| {
        faults.room = Some(0);
        faults.hold_writes = false;
    });
    assert!(ticket.wait().unwrap_err().is_full());
    files.heal();
    store.put(key(1), payload(1, LENGTH)).unwrap().wait().unwrap();
    let report = store.finish().unwrap();
    assert_eq!((report.failed_writes, report.writes), (1, 1));
}
