//! A steady training step touches no fresh memory.

mod common;

#[path = "../examples/units/mod.rs"]
#[allow(dead_code)]
mod units;

use reprop_kernels::Workspace;

/// Page faults of this process so far that needed no disk.
fn faults() -> i64 {
    // SAFETY: `getrusage` fills the structure it is given; all-zero bytes are a valid one.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, &raw mut usage), 0);
        usage.ru_minflt
    }
}

/// How many buffers are lent at once depends on which task runs beside which: the pool has seen every case after a few
/// steps, not after one.
fn assert_becomes_steady(mut step: impl FnMut(&Workspace) + Send) {
    let ws = Workspace::default();
    common::on_threads(2, || {
        let mut in_a_row = 0;
        for _ in 0..40 {
            let before = faults();
            step(&ws);
            in_a_row = if faults() == before { in_a_row + 1 } else { 0 };
            if in_a_row == 5 {
                return;
            }
        }
        panic!("no five steps in a row without a page fault; the workspace holds {:?}", ws.usage());
    });
}

/// One test, because faults are counted for the whole process.
#[test]
fn steady_steps_have_no_page_faults() {
    let ws = Workspace::default();
    let mut unit = units::transformer::Unit::new(1, &ws);
    assert_becomes_steady(|ws| unit.step(ws));
    let mut unit = units::convolution::Unit::new(256, &ws);
    assert_becomes_steady(|ws| unit.step(ws));
    assert_lends_the_same_memory_again();
}

fn assert_lends_the_same_memory_again() {
    let ws = Workspace::default();
    ws.reserve(&[1000, 1000, 64]);
    let made = ws.usage().made;
    assert_eq!(made, 3);
    for _ in 0..10 {
        let (a, b) = (ws.take(1000), ws.take(990));
        assert_eq!((a.len(), b.len()), (1000, 990));
        assert!(a.as_ptr().addr().is_multiple_of(64));
    }
    assert_eq!(ws.usage().made, made);
    assert_eq!(ws.usage().lent, 0);
    ws.shrink();
    assert_eq!(ws.usage().owned, 0);
}
