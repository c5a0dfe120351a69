//! States whose bytes come late, as from a device: steps go on meanwhile, and nothing else changes.

use std::future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use burn::tensor::TensorData;
use reprop::chain::{Async, Chain, ChainReport, Checkpointed, Departure, State, Steps, Unreadable};
use reprop_schedule::{Costs, DiskRevolve};
use reprop_store::MemoryStore;

use crate::common::{Timed, times};

const STEPS: usize = 60;

/// Copies asked for and not there yet, and steps that were taken while there were some.
#[derive(Default)]
struct Journal {
    coming: AtomicU64,
    beside: AtomicU64,
}

/// A number whose bytes are there when they were looked for so many times.
#[derive(Clone)]
struct Late {
    value: f64,
    looks: u32,
    journal: Arc<Journal>,
}

impl State for Late {
    fn bytes(&self) -> usize {
        self.value.bytes()
    }

    fn element_bytes(&self) -> usize {
        self.value.element_bytes()
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.value.write(out);
    }

    fn depart(&self, out: &mut Departure) {
        let Self { value, mut looks, journal } = self.clone();
        journal.coming.fetch_add(1, Ordering::Relaxed);
        out.copy(future::poll_fn(move |context| {
            if looks > 0 {
                looks -= 1;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            journal.coming.fetch_sub(1, Ordering::Relaxed);
            Poll::Ready(TensorData::new(vec![value], [1]))
        }));
    }

    fn read(&self, bytes: &mut &[u8]) -> Result<Self, Unreadable> {
        Ok(Self { value: self.value.read(bytes)?, ..self.clone() })
    }
}

/// The gradient, what it took, and how many steps were taken beside a copy.
fn run(looks: u32, how: Checkpointed<'_>) -> (u64, ChainReport, u64) {
    let journal = Arc::new(Journal::default());
    let start = Late { value: 0.7, looks, journal: Arc::clone(&journal) };
    let advance = |step: usize, x: Late| {
        let beside = u64::from(x.journal.coming.load(Ordering::Relaxed) > 0);
        x.journal.beside.fetch_add(beside, Ordering::Relaxed);
        Late { value: (3.1 * x.value).sin() + step as f64 * 0.01, ..x }
    };
    let reverse = |_, x: Late, adjoint: f64, (): &mut ()| adjoint * 3.1 * (3.1 * x.value).cos();
    let steps = Steps::new(advance, reverse, |_: &Late, (): &mut ()| 1.0);
    let done = Chain::new(steps).run(start, (), how).unwrap();
    assert_eq!(journal.coming.load(Ordering::Relaxed), 0, "every copy is taken up");
    (done.adjoint.to_bits(), done.report, journal.beside.load(Ordering::Relaxed))
}

#[test]
fn steps_go_on_beside_copies_and_gradients_and_transfers_stay_the_same() {
    let costs = Costs::unit().disk(0.5, 0.5).unwrap();
    let stored = run(0, Checkpointed::stored(STEPS).unwrap()).0;
    let planned = |looks| {
        let store = MemoryStore::unbounded();
        let schedule = DiskRevolve::new(STEPS, 2, &costs).unwrap();
        run(looks, Checkpointed::schedule(schedule).store(&store))
    };
    let asynchronous = |looks| {
        let store = MemoryStore::unbounded();
        let plan = Timed { plan: Async::new(3).steps(STEPS), measured: times(1.0, 3.0) };
        run(looks, Checkpointed::planner(plan).store(&store))
    };
    let runs: [&dyn Fn(u32) -> (u64, ChainReport, u64); 2] = [&planned, &asynchronous];
    for (kind, run) in runs.into_iter().enumerate() {
        let (gradient, report, beside) = run(0);
        assert_eq!((gradient, beside), (stored, 0), "kind {kind}");
        assert!(report.disk_writes > 1, "kind {kind} writes {}", report.disk_writes);
        for looks in [1, 2, 9, 5000] {
            let (gradient, late, beside) = run(looks);
            assert_eq!(gradient, stored, "kind {kind}, {looks} looks");
            // A copy is looked for some times before the next action.
            assert!(looks < 9 || beside > 0, "kind {kind}, {looks} looks: no step was taken beside a copy");
            assert_eq!(
                (late.disk_writes, late.disk_reads, late.bytes_written, late.bytes_read, late.peak_slots),
                (
                    report.disk_writes,
                    report.disk_reads,
                    report.bytes_written,
                    report.bytes_read,
                    report.peak_slots
                ),
                "kind {kind}, {looks} looks"
            );
        }
    }
}
