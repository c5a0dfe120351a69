//! Very many snapshots, few at a time: neither files nor descriptors grow. A binary of its own, since it counts the
//! descriptors of the process.

mod common;

use common::{key, names, payload};
use reprop_store::{DiskConfig, Durability, Store};

const STEPS: u64 = 100_000;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn bytes(folder: &std::path::Path) -> u64 {
    names(folder).iter().map(|name| folder.join(name).metadata().unwrap().len()).sum()
}

#[test]
fn a_hundred_thousand_snapshots_pass_through_the_same_files() {
    let folder = tempfile::tempdir().unwrap();
    let config = DiskConfig::new(folder.path()).segment_bytes(1 << 20).durability(Durability::Every(1));
    let store = config.create().unwrap();
    let content = payload(1, 256);
    let mut settled = None;
    for step in 0..STEPS {
        store.put(key(step), content.clone()).unwrap();
        if step >= 8 {
            store.remove(key(step - 8)).unwrap();
        }
        if step % 500 == 499 {
            store.commit(&step.to_le_bytes()).unwrap();
        }
        if step == 4000 {
            settled = Some((descriptors(), names(folder.path())));
        }
    }
    let (descriptors_before, names_before) = settled.unwrap();
    assert_eq!(descriptors(), descriptors_before);
    assert_eq!(names(folder.path()), names_before);
    // Between two points 508 frames of a block are held, and twice as many while a point is being made: segments of
    // 1 and 2 MiB. The manifest is written anew when it is four times as long as it has to be.
    let (most, total) = (4 << 20, bytes(folder.path()));
    assert!(total <= most, "{total} bytes");
    assert_eq!(store.get(key(STEPS - 1)).unwrap(), content);
    let report = store.finish().unwrap();
    assert_eq!((report.puts, report.held), (STEPS, 8 * 4096));
    assert!(report.peak_held <= most, "{}", report.peak_held);
    assert_eq!(report.points, STEPS / 500);
}
