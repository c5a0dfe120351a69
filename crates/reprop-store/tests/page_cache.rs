//! The page cache hides nothing: first what is asked of the system, then, where it can be seen, what it does.

mod common;

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use common::{key, payload, small};
use reprop_store::{DiskConfig, FileLayer, LayerFile, Store, SystemFiles};

/// The real files, with a list of what is asked of them.
#[derive(Debug, Clone, Default)]
struct Listed(Arc<Mutex<Vec<Asked>>>);

/// What, where, how many bytes.
type Asked = (&'static str, u64, u64);

#[derive(Debug)]
struct ListedFile(Box<dyn LayerFile>, Listed);

impl Listed {
    fn note(&self, what: &'static str, offset: u64, length: u64) {
        self.0.lock().unwrap().push((what, offset, length));
    }
}

impl FileLayer for Listed {
    fn open(&self, path: &Path, direct: bool) -> io::Result<Box<dyn LayerFile>> {
        Ok(Box::new(ListedFile(SystemFiles.open(path, direct)?, self.clone())))
    }
}

impl LayerFile for ListedFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.1.note("write", offset, bytes.len() as u64);
        self.0.write_at(bytes, offset)
    }
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.1.note("read", offset, bytes.len() as u64);
        self.0.read_at(bytes, offset)
    }
    fn allocate(&self, length: u64) -> io::Result<()> {
        self.0.allocate(length)
    }
    fn truncate(&self, length: u64) -> io::Result<()> {
        self.0.truncate(length)
    }
    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }
    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
    fn write_back(&self, offset: u64, length: u64) -> io::Result<()> {
        self.1.note("write back", offset, length);
        self.0.write_back(offset, length)
    }
    fn forget(&self, offset: u64, length: u64) -> io::Result<()> {
        self.1.note("forget", offset, length);
        self.0.forget(offset, length)
    }
    fn alignment(&self) -> usize {
        self.0.alignment()
    }
}

#[test]
fn every_write_is_written_back_before_its_ticket_and_every_read_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let list = Listed::default();
    let store = small(folder.path()).direct(false).layer(Arc::new(list.clone())).create().unwrap();
    for step in 0..2 {
        store.put(key(step), payload(step, 5000)).unwrap().wait().unwrap();
    }
    store.get(key(1)).unwrap();
    let expected = [
        ("write", 0, 8192),
        ("write back", 0, 8192),
        ("write", 8192, 8192),
        ("write back", 8192, 8192),
        ("read", 8192, 8192),
        ("forget", 8192, 8192),
    ];
    assert_eq!(*list.0.lock().unwrap(), expected);
    store.finish().unwrap();
}

/// Of a file's pages, how many are in the page cache, as `fincore` tells; `None` where there is no such program.
fn cached(path: &Path) -> Option<u64> {
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
            eprintln!("without fincore, the page cache cannot be looked into");
            return;
        };
        assert!(after_write <= 64 << 10, "{after_write} bytes stay, direct {direct}");
        store.get(key(0)).unwrap();
        let after_read = cached(&file).unwrap();
        assert!(after_read <= 64 << 10, "{after_read} bytes stay, direct {direct}");
        store.finish().unwrap();
    }
}
