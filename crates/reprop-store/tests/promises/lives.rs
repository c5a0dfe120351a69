//! How a store begins and ends, and what it refuses.

use reprop_store::{Durability, Error, MemoryStore, Store};

use crate::LENGTH;
use crate::common::{faulty, key, names, payload, small};

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

// Promise 5: see `page_cache.rs`.

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
