//! Chains on a real store whose files are slow, full or damaged.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use reprop::chain::{Async, Checkpointed, Error, Measured};
use reprop::{Activity, Trace};
use reprop_store::{DiskConfig, Durability, FileLayer, LayerFile, Store, SystemFiles};

use crate::common::{Network, Timed, bits, run, stored, times};

/// The system's files, with faults.
#[derive(Debug, Default)]
struct Faults {
    /// Each write takes at least so long.
    delay: Duration,
    /// Writes that still find room; negative without end.
    room: AtomicI64,
    /// Writes until the disk dies; negative without end.
    life: AtomicI64,
    /// The read, counted from 1, in which a bit is flipped; 0 for none.
    flipped: usize,
    reads: AtomicUsize,
}

#[derive(Debug)]
struct Layer(Arc<Faults>);

#[derive(Debug)]
struct File {
    file: Box<dyn LayerFile>,
    faults: Arc<Faults>,
}

impl FileLayer for Layer {
    fn open(&self, path: &Path, direct: bool) -> io::Result<Box<dyn LayerFile>> {
        Ok(Box::new(File { file: SystemFiles.open(path, direct)?, faults: Arc::clone(&self.0) }))
    }
}

impl LayerFile for File {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        std::thread::sleep(self.faults.delay);
        if self.faults.life.load(Ordering::Relaxed) == 0 {
            return Err(io::Error::other("the disk is dead"));
        }
        self.faults.life.fetch_sub(1, Ordering::Relaxed);
        if self.faults.room.load(Ordering::Relaxed) == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.faults.room.fetch_sub(1, Ordering::Relaxed);
        self.file.write_at(bytes, offset)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.file.read_at(bytes, offset)?;
        if self.faults.reads.fetch_add(1, Ordering::Relaxed) + 1 == self.faults.flipped && read > 0 {
            bytes[read / 100] ^= 4;
        }
        Ok(read)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.file.allocate(length)
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.file.truncate(length)
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn write_back(&self, offset: u64, length: u64) -> io::Result<()> {
        self.file.write_back(offset, length)
    }

    fn forget(&self, offset: u64, length: u64) -> io::Result<()> {
        self.file.forget(offset, length)
    }

    fn alignment(&self) -> usize {
        self.file.alignment()
    }
}

/// No faults.
fn sound() -> Faults {
    Faults { room: AtomicI64::new(-1), life: AtomicI64::new(-1), ..Faults::default() }
}

fn config(folder: &Path, faults: Faults) -> DiskConfig {
    DiskConfig::new(folder.join("snapshots")).layer(Arc::new(Layer(Arc::new(faults))))
}

/// Interval by interval as if writes took no longer than three steps, on a disk whose writes take five milliseconds: the
/// computation has to wait, says so, and what it measured makes the next plan another.
#[test]
fn a_slow_disk_makes_stalls_that_are_told_and_another_plan() {
    const DELAY: f64 = 5e-3;
    let folder = tempfile::tempdir().unwrap();
    let faults = Faults { delay: Duration::from_secs_f64(DELAY), ..sound() };
    let store = config(folder.path(), faults).create().unwrap();
    let steps = 100;
    let plan = Timed { plan: Async::new(2).steps(steps), measured: times(1.0, 3.0) };
    let done = run(&mut Network::new(steps), Checkpointed::planner(plan).store(&store)).unwrap();
    assert_eq!(bits(&done), stored(steps));
    let report = &done.report;
    // All writes but those of the tail are waited for, since the steps in between take next to nothing.
    assert!(report.disk_writes >= 10, "{report:?}");
    assert!(report.stall_seconds > 5.0 * DELAY && report.stall_seconds <= report.seconds, "{report:?}");
    assert!(report.measured.write.is_some_and(|write| write >= DELAY), "{report:?}");
    // The same steps, with the writes as they were: too dear.
    let again = Measured { write: report.measured.write, ..times(1e-4, 1e-4) };
    let quick = Timed { plan: Async::new(2).steps(steps), measured: times(1e-4, 1e-4) };
    let slow = Timed { plan: Async::new(2).steps(steps), measured: again };
    let writes = |plan: Timed| {
        run(&mut Network::new(steps), Checkpointed::planner(plan).store(&store)).unwrap().report.disk_writes
    };
    assert!(writes(quick) > 2 * writes(slow));
    store.finish().unwrap();
}

#[test]
fn a_trace_has_a_row_for_transfers_beside_the_steps() {
    let folder = tempfile::tempdir().unwrap();
    let store = config(folder.path(), sound()).create().unwrap();
    let (steps, trace) = (60, Trace::new());
    let plan = Timed { plan: Async::new(2).steps(steps), measured: times(1.0, 3.0) };
    let how = Checkpointed::planner(plan).store(&store).trace(&trace);
    let report = run(&mut Network::new(steps), how).unwrap().report;
    let spans = trace.spans();
    let count = |activity| spans.iter().filter(|span| span.activity == activity).count();
    assert_eq!(count(Activity::Grads), steps);
    assert!(count(Activity::Forward) > 0);
    // Each write and each read that was waited for; what was still on its way when it was let go is not noted.
    assert!(report.disk_reads > 0 && count(Activity::Io) as u64 >= report.disk_reads, "{report:?}");
    assert!(spans.iter().all(|span| (span.activity == Activity::Io) == (span.worker == Trace::IO)));
    store.finish().unwrap();
}

#[test]
fn a_disk_that_fills_up_in_the_middle_costs_time_and_no_bit() {
    let steps = 400;
    let expected = stored(steps);
    for room in [0, 1, 2, 5, 17] {
        for slots in [1, 3] {
            for plan in [Async::new(slots).steps(steps), Async::new(slots)] {
                let folder = tempfile::tempdir().unwrap();
                let faults = Faults { room: AtomicI64::new(room), ..sound() };
                let store = config(folder.path(), faults).create().unwrap();
                let plan = Timed { plan, measured: times(1.0, 4.0) };
                let done = run(&mut Network::new(steps), Checkpointed::planner(plan).store(&store)).unwrap();
                assert_eq!(bits(&done), expected, "room for {room}, {slots} slots");
                assert!(done.report.without_room > 0, "room for {room}: {:?}", done.report);
                assert!(done.report.peak_slots <= slots);
            }
        }
    }
}

#[test]
fn a_flipped_bit_is_an_error_and_never_a_gradient() {
    let steps = 60;
    let folder = tempfile::tempdir().unwrap();
    // Opening may read, too: the flip comes late enough to meet a snapshot.
    let faults = Faults { flipped: 6, ..sound() };
    let store = config(folder.path(), faults).create().unwrap();
    let plan = Timed { plan: Async::new(2).steps(steps), measured: times(1.0, 3.0) };
    let error = run(&mut Network::new(steps), Checkpointed::planner(plan).store(&store)).err();
    assert!(matches!(&error, Some(Error::Store(reprop_store::Error::Corrupt { .. }))), "{error:?}");
}

/// A disk that dies at any write leaves what a killed process leaves: the last durable point. Whoever goes on from there, on the
/// way forward or inside the reverse pass, ends with the same bits.
#[test]
fn a_run_cut_short_at_any_write_goes_on_from_its_last_point_with_the_same_bits() {
    let steps = 150;
    let expected = stored(steps);
    let plan = || Timed { plan: Async::new(3).steps(steps), measured: times(1.0, 12.0) };
    let (mut forward, mut inside) = (0, 0);
    for life in (0..90).step_by(2) {
        for every in [1, 3] {
            let folder = tempfile::tempdir().unwrap();
            let config = |faults| config(folder.path(), faults).durability(Durability::Every(1));
            let faults = Faults { life: AtomicI64::new(life), ..sound() };
            // A disk that dies before anything is there cannot even be opened.
            if let Ok(store) = config(faults).create() {
                let how = Checkpointed::planner(plan()).store(&store).durable(every, "a chain");
                if let Ok(done) = run(&mut Network::new(steps), how) {
                    assert_eq!(bits(&done), expected);
                    continue;
                }
            }
            let Ok((store, recovered)) = config(sound()).open_existing() else { continue };
            let how = |identity: &str| {
                Checkpointed::planner(plan())
                    .store(&store)
                    .durable(every, identity)
                    .resume(recovered.meta.clone())
            };
            let other = run(&mut Network::new(steps), how("another chain")).err();
            assert!(matches!(other, Some(Error::ForeignPoint { .. })), "{other:?}");
            let mut network = Network::new(steps);
            let done = run(&mut network, how("a chain")).unwrap();
            assert_eq!(bits(&done), expected, "died at write {life}, a point every {every}");
            assert!(done.report.resumed_at.is_some(), "{:?}", done.report);
            // A run that goes on inside the reverse pass does not reverse the upper steps again.
            let reversed = network.evaluations - done.report.advances;
            *(if reversed < steps as u64 { &mut inside } else { &mut forward }) += 1;
            store.finish().unwrap();
        }
    }
    assert!(forward > 5 && inside > 5, "{forward} on the way forward, {inside} inside");
}
