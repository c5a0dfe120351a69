//! The blob tier: the same promises over three calls.

mod common;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use common::{key, names, payload};
use reprop_store::{BlobConfig, Blobs, Codec, Error, FolderBlobs, Key, Store};

const LENGTH: usize = 10_000;

/// Blobs in a map, with room for so many, that can be told to fail.
#[derive(Clone, Default)]
struct MapBlobs {
    map: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    room: Option<usize>,
    no_deleting: bool,
}

impl Blobs for MapBlobs {
    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut map = self.map.lock().unwrap();
        if self.room.is_some_and(|room| map.len() >= room) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        assert!(map.insert(name.into(), bytes.into()).is_none(), "names are new");
        Ok(())
    }

    fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        self.map.lock().unwrap().get(name).cloned().ok_or(io::ErrorKind::NotFound.into())
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        if self.no_deleting {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.map.lock().unwrap().remove(name).map(drop).ok_or(io::ErrorKind::NotFound.into())
    }
}

#[test]
fn snapshots_come_back_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    come_back(FolderBlobs::new(folder.path()).unwrap());
    assert!(names(folder.path()).is_empty());
}

#[cfg(feature = "object-store")]
#[test]
fn an_object_store_is_a_place_for_blobs() {
    use object_store::ObjectStore;
    use object_store::memory::InMemory;

    let objects = Arc::new(InMemory::new());
    come_back(reprop_store::ObjectBlobs::new(objects.clone()).unwrap());
    let left = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert!(left.block_on(objects.list_with_delimiter(None)).unwrap().objects.is_empty());
}

/// Puts snapshots and gets them back, last in, first out.
fn come_back(blobs: impl Blobs + 'static) {
    let store = BlobConfig::new(blobs).codec(Codec::Auto).writers(3).readers(2).create().unwrap();
    for step in 0..20 {
        store.put(key(step), payload(step, step as usize * 500)).unwrap();
    }
    for step in (0..20).rev() {
        if step > 0 {
            store.prefetch(key(step - 1)).unwrap();
        }
        assert_eq!(store.get(key(step)).unwrap(), payload(step, step as usize * 500));
        if step % 2 == 0 {
            store.remove(key(step)).unwrap();
        }
    }
    assert!(matches!(store.commit(b""), Err(Error::NotDurable)));
    store.finish().unwrap();
}

#[test]
fn two_stores_share_one_place() {
    let blobs = MapBlobs::default();
    let stores = [(); 2].map(|()| BlobConfig::new(blobs.clone()).create().unwrap());
    for (run, store) in stores.iter().enumerate() {
        store.put(Key::new(0, 0), payload(run as u64, LENGTH)).unwrap().wait().unwrap();
    }
    for (run, store) in stores.iter().enumerate() {
        assert_eq!(store.get(Key::new(0, 0)).unwrap(), payload(run as u64, LENGTH));
    }
    drop(stores);
    assert!(blobs.map.lock().unwrap().is_empty());
}

#[test]
fn a_damaged_cut_or_lost_blob_is_an_error() {
    let blobs = MapBlobs::default();
    let store = BlobConfig::new(blobs.clone()).create().unwrap();
    store.put(key(4), payload(4, LENGTH)).unwrap().wait().unwrap();
    let change = |change: fn(&mut Vec<u8>)| blobs.map.lock().unwrap().values_mut().for_each(change);
    change(|blob| blob[5000] ^= 4);
    assert!(matches!(store.get(key(4)), Err(Error::Corrupt { .. })));
    change(|blob| blob[5000] ^= 4);
    assert_eq!(store.get(key(4)).unwrap(), payload(4, LENGTH));
    change(|blob| blob.truncate(blob.len() - 1));
    assert!(store.get(key(4)).unwrap_err().to_string().contains("10071 bytes, 10072 are expected"));
    blobs.map.lock().unwrap().clear();
    let error = store.get(key(4)).unwrap_err();
    assert!(matches!(error, Error::Io { key: Some(_), .. }), "{error}");
    store.finish().unwrap();
}

#[test]
fn no_room_is_told_apart() {
    let store = BlobConfig::new(MapBlobs { room: Some(2), ..MapBlobs::default() }).create().unwrap();
    for step in 0..2 {
        store.put(key(step), payload(step, LENGTH)).unwrap().wait().unwrap();
    }
    assert!(store.put(key(2), payload(2, LENGTH)).unwrap().wait().unwrap_err().is_full());
    assert!(store.remove(key(2)).unwrap_err().is_full());
    assert_eq!(store.get(key(1)).unwrap(), payload(1, LENGTH));
    // A removed one makes room before the next is written.
    store.remove(key(0)).unwrap();
    store.put(key(3), payload(3, LENGTH)).unwrap().wait().unwrap();
    store.finish().unwrap();
}

#[test]
fn blobs_that_could_not_be_deleted_are_told_by_finish() {
    let store = BlobConfig::new(MapBlobs { no_deleting: true, ..MapBlobs::default() }).create().unwrap();
    store.put(key(0), payload(0, LENGTH)).unwrap();
    assert!(matches!(store.finish(), Err(Error::Io { action: "close", .. })));
}
