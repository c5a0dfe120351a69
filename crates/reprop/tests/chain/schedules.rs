//! Every schedule of `reprop-schedule` gives the bits of storing everything.

use reprop::chain::Checkpointed;
use reprop_schedule::{Method, Request, Stored, check};
use reprop_store::MemoryStore;

use crate::common::{Network, WIDTH, bits, loss_in_f64, run, stored};

fn request(method: Method, steps: usize, slots: usize) -> Request {
    Request {
        slots: Some(slots),
        disk_slots: Some(3),
        write: Some(2.0),
        read: Some(1.5),
        ..Request::new(method, steps)
    }
}

#[test]
fn every_schedule_gives_the_bits_of_storing_everything() {
    for steps in [1, 2, 3, 10, 37, 100] {
        let expected = stored(steps);
        for slots in [1, 2, 3, 5, 12] {
            for method in Method::ALL {
                let request = request(method, steps, slots);
                let counts =
                    check(steps, &[steps.max(slots), usize::MAX], request.schedule().unwrap()).unwrap();
                let store = MemoryStore::unbounded();
                let mut network = Network::new(steps);
                let how = Checkpointed::schedule(request.schedule().unwrap()).store(&store);
                let done = run(&mut network, how).unwrap();
                assert_eq!(bits(&done), expected, "{method} on {steps} steps with {slots} slots");
                // What the interpreter predicted is what was done.
                let report = &done.report;
                assert_eq!(u128::from(report.advances), counts.advances, "{method}");
                assert_eq!(u128::from(network.evaluations), counts.forward_evaluations(), "{method}");
                assert_eq!(u128::from(report.disk_writes), counts.disk_writes, "{method}");
                assert_eq!(u128::from(report.disk_reads), counts.disk_reads, "{method}");
                assert_eq!(u128::from(report.snapshots), counts.snapshots_written, "{method}");
                assert_eq!(report.peak_slots, counts.peak_slots[0], "{method}");
                assert_eq!((report.steps, report.forward_evaluations), (steps, network.evaluations));
            }
        }
    }
}

#[test]
fn kept_states_and_kept_tapes_give_the_same_bits() {
    for steps in [1, 2, 30] {
        let states =
            run(&mut Network::new(steps), Checkpointed::schedule(Stored::new(steps).unwrap())).unwrap();
        assert_eq!(bits(&states), stored(steps));
    }
}

/// Central differences of a loop in `f64`: the quotient is exact to about `1e-8`, the gradient is a sum of floats of
/// order 1.
#[test]
fn gradients_are_those_of_finite_differences() {
    const TOLERANCE: f64 = 2e-5;
    let (steps, h) = (12, 1e-5);
    let done = run(&mut Network::new(steps), Checkpointed::stored(steps).unwrap()).unwrap();
    let slope = |weight: f64, start: f64, index: usize| {
        let at = |sign: f64| loss_in_f64(steps, (index, sign * weight), (index % WIDTH, sign * start));
        (at(1.0) - at(-1.0)) / (2.0 * h)
    };
    let close =
        |found: f32, wanted: f64| (f64::from(found) - wanted).abs() < TOLERANCE * (1.0 + wanted.abs());
    for index in 0..WIDTH * WIDTH {
        let wanted = slope(h, 0.0, index);
        assert!(close(done.sum.1[index], wanted), "weight {index}: {} against {wanted}", done.sum.1[index]);
    }
    for index in 0..WIDTH {
        let wanted = slope(0.0, h, index);
        assert!(
            close(done.adjoint[index], wanted),
            "start {index}: {} against {wanted}",
            done.adjoint[index]
        );
    }
    assert!((f64::from(done.sum.0) - loss_in_f64(steps, (0, 0.0), (0, 0.0))).abs() < TOLERANCE);
}

#[test]
fn an_online_plan_ends_where_the_chain_says() {
    for steps in [1, 2, 9, 64] {
        for slots in [1, 3, 7] {
            let mut network = Network::new(steps);
            let done = run(&mut network, Checkpointed::online(slots).unwrap()).unwrap();
            assert_eq!(bits(&done), stored(steps));
            assert_eq!((done.report.steps, network.asked), (steps, (1..=steps).collect()));
        }
    }
}
