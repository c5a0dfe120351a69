//! Revolve's counts, laws and edges.

use proptest::prelude::*;
use reprop_schedule::{Revolve, Stored, advances, check, snapshots};

/// `t(n, s) = min_m m + t(m, s) + t(n - m, s - 1)` and, among the best `m`, the fewest snapshots: the
/// recurrence itself, nothing of the closed forms.
fn naive(steps: usize, slots: usize) -> Vec<Vec<(u128, u128)>> {
    let mut best = vec![vec![(u128::MAX / 4, 0_u128); steps + 1]; slots + 1];
    for (s, row) in best.iter_mut().enumerate() {
        row[1] = (0, 0);
        if s == 1 {
            for (n, cell) in row.iter_mut().enumerate().skip(2) {
                *cell = ((n * (n - 1) / 2) as u128, 1);
            }
        }
    }
    for s in 2..=slots {
        for n in 2..=steps {
            best[s][n] = (1..n)
                .map(|m| {
                    let ((a, p), (b, q)) = (best[s][m], best[s - 1][n - m]);
                    // The left part starts from the snapshot that is there already.
                    (m as u128 + a + b, 1 + q + p.saturating_sub(1))
                })
                .min()
                .unwrap();
        }
    }
    best
}

#[test]
fn known_counts_are_met() {
    for (steps, slots, t, written) in [(10, 3, 15, 6), (100, 10, 222, 55), (1000, 10, 3636, 714)] {
        let counts = check(steps, &[slots], Revolve::new(steps, slots).unwrap()).unwrap();
        assert_eq!((counts.advances, counts.snapshots_written), (t, written));
    }
}

#[test]
fn every_chain_to_200_steps_and_20_slots_costs_what_the_recurrence_says() {
    let best = naive(200, 20);
    for (slots, row) in best.iter().enumerate().skip(1) {
        for (steps, &optimum) in row.iter().enumerate().skip(1) {
            let schedule = Revolve::new(steps, slots).unwrap();
            let closed = schedule.counts();
            let counts = check(steps, &[slots], schedule).unwrap();
            assert_eq!((counts.advances, counts.snapshots_written), optimum, "({steps}, {slots})");
            assert_eq!(counts, closed, "({steps}, {slots})");
        }
    }
}

proptest! {
    #[test]
    fn any_chain_obeys_the_laws_at_the_cost_of_the_closed_form(steps in 1_usize..20_000, slots in 1_usize..60) {
        prop_assume!(advances(steps, slots) < 4_000_000);
        let counts = check(steps, &[slots], Revolve::new(steps, slots).unwrap()).unwrap();
        prop_assert_eq!(counts.advances, advances(steps, slots));
        prop_assert_eq!(counts.snapshots_written, snapshots(steps, slots));
    }
}

#[test]
fn ten_million_steps_run_through_in_constant_memory() {
    let steps = 10_000_000;
    let schedule = Revolve::new(steps, 50).unwrap();
    let closed = schedule.counts();
    assert_eq!(check(steps, &[50], schedule).unwrap(), closed);
}

#[test]
fn counts_of_the_longest_chains_do_not_overflow() {
    let n = usize::MAX as u128;
    assert_eq!(advances(usize::MAX, 1), n * (n - 1) / 2);
    assert_eq!(advances(usize::MAX, usize::MAX), n - 1);
    assert!(advances(usize::MAX, 2) > advances(usize::MAX, 3));
    assert_eq!(advances(1_000_000_000, 30), 9_878_900_592);
}

#[test]
fn one_step_needs_nothing_and_more_slots_than_steps_recompute_nothing() {
    assert_eq!(Revolve::new(1, 1).unwrap().count(), 1);
    assert_eq!(check(7, &[100], Revolve::new(7, 100).unwrap()).unwrap().advances, 6);
    assert!(Revolve::new(0, 3).unwrap_err().to_string().contains("0 steps"));
    assert!(Revolve::new(9, 0).unwrap_err().to_string().contains("9 steps cannot be reversed with 0 slots"));
}

#[test]
fn stored_states_cost_2n_minus_1_and_stored_tapes_n() {
    for steps in 1..40 {
        let states = Stored::new(steps).unwrap();
        let closed = states.counts();
        let counts = check(steps, &[steps], states).unwrap();
        assert_eq!(counts, closed);
        assert_eq!(counts.forward_evaluations(), 2 * steps as u128 - 1);
        let tapes = check(steps, &[steps], Stored::tapes(steps).unwrap()).unwrap();
        assert_eq!(tapes.forward_evaluations(), steps as u128);
    }
}
