//! The plan for 1000 steps, ten slots and `W = 50`, and those around it.

use reprop_schedule::{Async, Channels, Costs, check, lower_bound, orderly_bound};

/// A fifth more or fewer steps, two slots and ten steps' time more or less: the corners and the middle. With eight slots `W` goes
/// to 50 only, with nine to 60: see the test below.
#[test]
fn plans_around_the_middle_are_within_three_percent() {
    let corners = [(8, 50.0), (9, 60.0), (12, 40.0), (12, 60.0)];
    let around = [800, 1200].into_iter().flat_map(|steps| corners.map(|(slots, w)| (steps, slots, w)));
    for (steps, slots, w) in around.chain([(1000, 10, 50.0)]) {
        let (makespan, bound) = planned(steps, slots, w);
        assert!(makespan <= 1.03 * bound, "({steps}, {slots}, {w}): {makespan} {bound}");
    }
}

/// With eight slots two repetitions of Revolve reach `C(10, 2) = 45` steps. Where a write takes 1.25 times as many and more, plan
/// and bound part; but even there no orderly schedule is half a percent better.
#[test]
fn writes_far_longer_than_two_repetitions_reach_leave_the_three_percent() {
    let (makespan, bound) = planned(1000, 8, 55.0);
    assert!(makespan <= 1.03 * bound, "{makespan} {bound}");
    let (makespan, bound) = planned(1000, 8, 62.0);
    assert!(makespan <= 1.041 * bound, "{makespan} {bound}");
    let costs = Costs::unit().disk(62.0, 62.0).unwrap();
    let orderly = orderly_bound(1000, 8, &costs, Channels::Shared).unwrap();
    assert!(makespan <= 1.005 * orderly, "{makespan} {orderly}");
}

/// What the checked plan takes, and the bound for any schedule.
fn planned(steps: usize, slots: usize, w: f64) -> (f64, f64) {
    let costs = Costs::unit().disk(w, w).unwrap();
    let plan = Async::new(steps, slots, &costs, Channels::Shared).unwrap();
    let makespan = plan.run().unwrap().makespan;
    check(steps, &[slots, usize::MAX], plan).unwrap();
    let bound = lower_bound(steps, slots, &costs, Channels::Shared).unwrap();
    println!("({steps}, {slots}, {w}): {makespan} against at least {bound:.1}");
    assert!(bound <= makespan);
    (makespan, bound)
}
