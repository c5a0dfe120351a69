//! Prints how far asynchronous plans are above the lower bound, one `(steps, slots, W)` a line.
//! `cargo run --release --example bounds [-- STEPS SLOTS W]`

use reprop_schedule::{Async, Channels, Costs, lower_bound, orderly_bound, simulate};

const CASES: [(usize, usize, f64); 14] = [
    (1000, 10, 10.0),
    (1000, 10, 20.0),
    (1000, 10, 50.0),
    (1000, 5, 20.0),
    (500, 10, 50.0),
    (1000, 20, 100.0),
    (909, 20, 40.0),
    (1000, 1, 20.0),
    (1000, 1, 50.0),
    (1000, 2, 20.0),
    (1000, 3, 20.0),
    (1000, 4, 20.0),
    (2000, 10, 50.0),
    (5000, 20, 100.0),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let cases = match &given[..] {
        [steps, slots, w] => vec![(steps.parse()?, slots.parse()?, w.parse()?)],
        _ => CASES.to_vec(),
    };
    println!(" steps  slots      W       plan      bound   above    orderly   above");
    for (steps, slots, w) in cases {
        let costs = Costs::unit().disk(w, w)?;
        let plan = Async::new(steps, slots, &costs, Channels::Shared)?;
        let makespan = simulate(plan, &costs, Channels::Shared).makespan;
        let bound = lower_bound(steps, slots, &costs, Channels::Shared)?;
        let orderly = orderly_bound(steps, slots, &costs, Channels::Shared)?;
        let above = |bound: f64| 100.0 * (makespan / bound - 1.0);
        print!("{steps:6} {slots:6} {w:6} {makespan:10} {bound:10.1} {:6.1} %", above(bound));
        println!(" {orderly:10.1} {:6.1} %", above(orderly));
    }
    Ok(())
}
