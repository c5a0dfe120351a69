//! Bytes that change, and files that go.

use reprop_store::{Codec, Durability, Error, Store};

use crate::LENGTH;
use crate::common::{faulty, key, payload, small};

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
