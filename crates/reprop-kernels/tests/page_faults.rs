//! A steady training step touches no fresh memory.

mod common;

#[path = "../examples/units/transformer.rs"]
#[allow(dead_code)]
mod transformer;

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

#[test]
fn a_steady_transformer_step_has_no_page_faults() {
    let ws = Workspace::default();
    common::on_threads(2, || {
        let mut unit = transformer::Unit::new(1, &ws);
        // How many buffers are lent at once depends on which task runs beside which: the pool has seen every case
        // after a few steps, not after one.
        let steady = (0..40).map(|_| {
            let before = faults();
            unit.step(&ws);
            faults() - before
        });
        let mut in_a_row = 0;
        for faults in steady {
            in_a_row = if faults == 0 { in_a_row + 1 } else { 0 };
            if in_a_row == 5 {
                return;
            }
        }
        panic!("no five steps in a row without a page fault; the workspace holds {:?}", ws.usage());
    });
}

#[test]
fn a_workspace_lends_the_same_memory_again() {
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
