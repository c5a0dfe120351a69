//! Durable points, and calls from many threads.

use std::sync::Arc;
use std::time::Duration;

use reprop_store::testing::FaultyFiles;
use reprop_store::{Durability, Error, Key, Store};

use crate::LENGTH;
use crate::common::{faulty, key, names, payload, small};

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
fn a_point_is_not_overtaken_by_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let config = small(folder.path()).durability(Durability::Every(1)).queue(100, u64::MAX).writers(3);
    let (store, files) = faulty(config.clone());
    files.set(|faults| {
        faults.file = "segment";
        faults.hold_syncs = true;
    });
    store.put(key(0), payload(0, LENGTH)).unwrap();
    let first = store.commit(b"first").unwrap().unwrap();
    // It has nothing to make durable but itself, two writers are free, and still it has to wait.
    let second = store.commit(b"second").unwrap().unwrap();
    std::thread::sleep(Duration::from_millis(20));
    assert!(first.outcome().is_none() && second.outcome().is_none());
    files.heal();
    first.wait().unwrap();
    second.wait().unwrap();
    drop(store);
    let (store, recovered) = config.open_existing().unwrap();
    assert_eq!((&*recovered.meta, recovered.point), (&b"second"[..], 2));
    assert_eq!(store.get(key(0)).unwrap(), payload(0, LENGTH));
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
