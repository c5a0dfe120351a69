//! A million steps of a small state: memory, descriptors and files stay where they are.

use std::fs;
use std::path::Path;

use peak_alloc::PeakAlloc;
use reprop::chain::{Async, Chain, Checkpointed, Measured, Move, Planner, Result, Steps, View};
use reprop_store::{DiskConfig, Store};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// A plan that takes a write for 300 forward steps, whatever the machine does.
struct Timed(Async);

impl Planner for Timed {
    fn begin(&mut self) {
        self.0.begin();
    }

    fn next(&mut self, view: &mut View<'_>) -> Result<Option<Move>> {
        let (step, transfer) = (Some(1.0), Some(300.0));
        let measured = Measured {
            forward: step,
            backward: Some(2.0),
            write: transfer,
            read: transfer,
            ..Measured::default()
        };
        self.0.next(&mut View { measured, written: view.written, failed: view.failed, more: view.more })
    }

    fn survives_full(&self) -> bool {
        true
    }
}

fn entries(folder: &Path) -> usize {
    fs::read_dir(folder).map_or(0, Iterator::count)
}

/// The most bytes allocated, descriptors open and files in the store during a pass; and its adjoint.
fn pass(steps: usize) -> (usize, usize, usize, f32) {
    let folder = tempfile::tempdir().unwrap();
    let snapshots = folder.path().join("snapshots");
    let store = DiskConfig::new(&snapshots).create().unwrap();
    let chain = Steps::new(
        |step, x: [f32; 8]| x.map(|x| 1.7 * x * (1.0 - x * x) + (step % 97) as f32 * 1e-4),
        |_, x: [f32; 8], adjoint: [f32; 8], (): &mut ()| {
            std::array::from_fn(|i| adjoint[i] * (1.7 - 5.1 * x[i] * x[i]))
        },
        |_: &[f32; 8], (): &mut ()| [1.0; 8],
    );
    let (mut descriptors, mut files, mut calls) = (0, 0, 0usize);
    ALLOCATOR.reset_peak_usage();
    let how = Checkpointed::planner(Timed(Async::new(8).steps(steps))).store(&store).progress(|_| {
        calls += 1;
        if calls.is_multiple_of(steps / 4) {
            descriptors = descriptors.max(entries(Path::new("/proc/self/fd")));
            files = files.max(entries(&snapshots));
        }
    });
    let done = Chain::new(chain).run([0.3; 8], (), how).unwrap();
    let peak = ALLOCATOR.peak_usage();
    assert!(done.report.disk_writes as usize > steps / 1000, "{:?}", done.report);
    assert!(done.report.peak_slots <= 8);
    store.finish().unwrap();
    assert_eq!(entries(folder.path()), 0);
    (peak, descriptors, files, done.adjoint[0])
}

#[test]
fn a_million_steps_need_no_more_memory_descriptors_or_files_than_fifty_thousand() {
    let (short_peak, short_descriptors, short_files, _) = pass(50_000);
    let (peak, descriptors, files, adjoint) = pass(1_000_000);
    assert!(adjoint.is_finite());
    // What grows is a name for each snapshot on disk: some hundred bytes for each of 3,300.
    let grown = peak.saturating_sub(short_peak);
    assert!(grown < 2 << 20, "{short_peak} -> {peak} bytes");
    assert_eq!((descriptors, files), (short_descriptors, short_files));
}
