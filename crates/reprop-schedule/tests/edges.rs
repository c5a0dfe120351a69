//! Every method at the edges: one step, one slot, more slots than steps; prices of zero and prices that are no whole numbers.

use reprop_schedule::{Channels, Method, Request, check};

/// `(forward, backward, write, read)`.
const PRICES: [(f64, f64, f64, f64); 6] = [
    (1.0, 1.0, 3.0, 3.0),
    (0.0, 0.0, 0.0, 0.0),
    (0.0, 1.5, 2.25, 0.0),
    (1.0, 0.0, 0.0, 0.7),
    (0.3, 0.7, 1.1, 1e-3),
    (1e-9, 1e9, 1e12, 1e-12),
];

#[test]
fn every_method_obeys_the_laws_at_every_edge() {
    for method in Method::ALL {
        for (steps, slots) in
            [(1, 1), (1, 9), (2, 1), (2, 2), (3, 7), (12, 1), (17, 2), (17, 16), (17, 17), (17, 90)]
        {
            for (forward, backward, write, read) in PRICES {
                for channels in [Channels::Shared, Channels::Separate] {
                    let asked = Request {
                        slots: Some(slots),
                        disk_slots: Some(steps),
                        write: Some(write),
                        read: Some(read),
                        forward,
                        backward,
                        channels,
                        ..Request::new(method, steps)
                    };
                    at_the_edge(&asked, slots);
                }
            }
        }
    }
}

fn at_the_edge(asked: &Request, slots: usize) {
    let memory = if asked.method == Method::Stored { asked.steps } else { slots };
    let counts = check(asked.steps, &[memory, asked.steps], asked.schedule().unwrap());
    let counts = counts.unwrap_or_else(|broken| panic!("{asked:?}: {broken}"));
    let report = asked.report().unwrap();
    assert_eq!(report.advances, counts.advances, "{asked:?}");
    let computed = asked.forward * counts.advances as f64 + asked.backward * asked.steps as f64;
    // Sums of the same numbers in another order.
    let rounding = 1e-9 * report.makespan.abs().max(1.0);
    assert!(report.makespan.is_finite() && report.makespan >= computed - rounding, "{asked:?} {report}");
    assert!(report.lower_bound <= report.makespan + rounding, "{asked:?} {report}");
    if slots + 1 >= asked.steps {
        // Every state fits: no plan takes longer than keeping them all.
        let stored = asked.forward * (asked.steps - 1) as f64 + asked.backward * asked.steps as f64;
        assert!(report.makespan <= stored + rounding, "{asked:?} {report}");
    }
}
