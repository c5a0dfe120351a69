//! Prints how far asynchronous plans are above the bounds, as the table in the documentation of `Async` has it.
//! `cargo run --release --example bounds [-- STEPS SLOTS W]`

use reprop_schedule::{Async, Channels, Costs, lower_bound, orderly_bound, simulate};

const CASES: [(usize, usize, f64); 16] = [
    (1000, 1, 20.0),
    (1000, 1, 50.0),
    (1000, 2, 20.0),
    (1000, 3, 20.0),
    (1000, 4, 20.0),
    (1000, 5, 20.0),
    (250, 8, 100.0),
    (500, 10, 10.0),
    (500, 10, 50.0),
    (1000, 10, 10.0),
    (1000, 10, 20.0),
    (1000, 10, 50.0),
    (2000, 10, 50.0),
    (1000, 20, 100.0),
    (909, 20, 40.0),
    (1000, 30, 10.0),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let cases = match &given[..] {
        [steps, slots, w] => vec![(steps.parse()?, slots.parse()?, w.parse()?)],
        _ => CASES.to_vec(),
    };
    println!("| steps, slots, W | plan | any schedule | above | orderly ones | above |");
    println!("|---|---|---|---|---|---|");
    for (steps, slots, w) in cases {
        let costs = Costs::unit().disk(w, w)?;
        let plan = Async::new(steps, slots, &costs, Channels::Shared)?;
        let makespan = simulate(plan, &costs, Channels::Shared).makespan;
        let bound = lower_bound(steps, slots, &costs, Channels::Shared)?;
        let orderly = orderly_bound(steps, slots, &costs, Channels::Shared)?;
        let above = |bound: f64| 100.0 * (makespan / bound - 1.0);
        print!("| {steps}, {slots}, {w} | {makespan} | {bound:.1} | {:.1} % ", above(bound));
        println!("| {orderly:.1} | {:.1} % |", above(orderly));
    }
    Ok(())
}
