//! Two memory slots: the bound against the exact optimum, and against plans of longer chains.

mod exhaustive;

use exhaustive::{Case, optimum};
use reprop_schedule::{Async, Channels, Costs, lower_bound};

/// All lengths that a search over all orders does quickly, writes and reads of unequal length, on both channels.
#[test]
fn the_bound_for_two_slots_never_exceeds_the_exact_optimum() {
    let (mut cases, mut near) = (0, 0);
    for steps in 3..=8_u8 {
        for (forward, backward) in [(1, 1), (1, 0), (2, 3)] {
            for (write, read) in [(0, 3), (2, 6), (4, 4), (6, 2), (3, 12)] {
                for shared in [true, false] {
                    let case = Case { forward, backward, write, read, shared, ..Case::unit(steps, 2, 0) };
                    let costs = Costs::new(f64::from(forward), f64::from(backward)).unwrap();
                    let costs = costs.disk(f64::from(write), f64::from(read)).unwrap();
                    let channels = if shared { Channels::Shared } else { Channels::Separate };
                    let plan = Async::new(usize::from(steps), 2, &costs, channels).unwrap();
                    let makespan = plan.run().unwrap().makespan;
                    let best = optimum(&case, makespan as usize) as f64;
                    let bound = lower_bound(usize::from(steps), 2, &costs, channels).unwrap();
                    assert!(bound <= best + 1e-9, "{case:?}: {bound} {best}");
                    cases += 1;
                    near += usize::from(best <= 1.1 * bound);
                }
            }
        }
    }
    println!("{near} of {cases} bounds are within 10 % of the optimum");
    assert!(2 * near > cases);
}

#[test]
fn no_plan_for_two_slots_beats_the_bound() {
    for (number, steps) in (2..400).step_by(13).enumerate() {
        for (write, read) in [(2.0, 2.0), (20.0, 20.0), (40.0, 10.0), (5.0, 30.0), (60.0, 60.0), (0.5, 7.5)] {
            let backward = [1.0, 0.0, 2.5][number % 3];
            let costs = Costs::new(1.0, backward).unwrap().disk(write, read).unwrap();
            let plan = Async::new(steps, 2, &costs, Channels::Shared).unwrap();
            let makespan = plan.run().unwrap().makespan;
            let bound = lower_bound(steps, 2, &costs, Channels::Shared).unwrap();
            assert!(bound <= makespan + 1e-9, "{steps} {costs:?}: {bound} {makespan}");
        }
    }
}
