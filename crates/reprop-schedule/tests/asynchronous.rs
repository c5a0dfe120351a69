//! The asynchronous planner against the exact optimum, against every other strategy and against its bound.

mod exhaustive;

use exhaustive::optimum;
use reprop_schedule::{Async, Channels, Costs, DiskRevolve, advances, check, lower_bound, simulate};

fn costs(w: f64) -> Costs {
    Costs::unit().disk(w, w).unwrap()
}

#[test]
fn the_oracle_reproduces_the_exact_optima() {
    for (steps, slots, w, best) in [(8, 2, 2, 17), (8, 3, 2, 16), (10, 2, 2, 22), (10, 2, 4, 25), (10, 3, 3, 23)] {
        assert_eq!(optimum(steps, slots, w, 40), best);
    }
}

#[test]
fn small_plans_are_within_5_percent_of_the_optimum_on_average_and_never_above_any_other() {
    let (mut excess, mut cases, mut exact) = (0.0, 0, 0);
    for steps in 1..=10_u8 {
        for slots in 1..=3_u32 {
            for w in 0..=6_u8 {
                let (n, s) = (usize::from(steps), slots as usize);
                let costs = costs(f64::from(w));
                let plan = Async::new(n, s, &costs, Channels::Shared).unwrap();
                let run = simulate(plan.clone(), &costs, Channels::Shared);
                check(n, &[s, usize::MAX], plan).unwrap();
                let best = optimum(steps, slots, w, run.makespan as usize);
                let bound = lower_bound(n, s, &costs, Channels::Shared).unwrap();
                assert!(bound <= best as f64 + 1e-9, "bound {bound} above {best}: ({n}, {s}, {w})");
                let revolve = (advances(n, s) + n as u128) as f64;
                let disk = DiskRevolve::new(n, s, &costs).unwrap().makespan();
                assert!(run.makespan <= revolve.min(disk), "({n}, {s}, {w})");
                excess += run.makespan / best as f64 - 1.0;
                cases += 1;
                exact += usize::from(run.makespan == best as f64);
                if run.makespan > 1.05 * best as f64 { println!("({n},{s},{w}) {} against {best} bound {bound}", run.makespan); }
            }
        }
    }
    let mean = excess / f64::from(cases);
    println!("mean excess {:.2} %, {exact} of {cases} exact", 100.0 * mean);
    assert!(mean <= 0.05);
}

#[test]
fn long_plans() {
    for (n, s, w) in [(1000, 10, 50.0), (100, 5, 5.0), (500, 10, 10.0), (1000, 1, 50.0), (1000,3,20.0), (1000,20,100.0),(1000,30,10.0),(1000,10,10.0)] {
        let costs = costs(w);
        let t = std::time::Instant::now();
        let plan = Async::new(n, s, &costs, Channels::Shared).unwrap();
        let time = t.elapsed();
        let run = simulate(plan.clone(), &costs, Channels::Shared);
        check(n, &[s, usize::MAX], plan).unwrap();
        let bound = lower_bound(n, s, &costs, Channels::Shared).unwrap();
        println!("({n},{s},{w}) {} bound {bound} excess {:.1}% {time:?} stall {} transfer {}", run.makespan, 100.0*(run.makespan/bound-1.0), run.stall, run.transfer);
    }
}
