//! Prints how long plans take, one JSON object a line: seconds, the best of many runs.
//! `cargo run --release --example timings`

use std::hint::black_box;
use std::time::Instant;

use reprop_schedule::{
    Action, Async, Channels, Costs, HRevolve, Mixed, Multistage, Revolve, Tier, advances, snapshots,
};

/// Runs for about a fifth of a second, at least three times.
fn best_of(mut work: impl FnMut() -> usize) -> (f64, usize) {
    let begin = Instant::now();
    let (mut best, mut result, mut runs) = (f64::INFINITY, 0, 0);
    while runs < 3 || begin.elapsed().as_secs_f64() < 0.2 {
        let start = Instant::now();
        result = black_box(work());
        best = best.min(start.elapsed().as_secs_f64());
        runs += 1;
    }
    (best, result)
}

/// The number of actions, each of them looked at as a program that obeys them would.
fn run_through(schedule: impl Iterator<Item = Action>) -> usize {
    schedule.fold(0, |count, action| {
        black_box(numbers(&action));
        count + 1
    })
}

fn numbers(action: &Action) -> (usize, usize) {
    match *action {
        Action::Forward { from, to } => (from, to),
        Action::Save { step, slot }
        | Action::Load { step, slot, .. }
        | Action::Free { step, slot }
        | Action::Wait { step, slot }
        | Action::Record { step, slot }
        | Action::ReverseRecorded { step, slot } => (step, slot.index),
        Action::Copy { from, to, .. } => (from.index, to.index),
        Action::Reverse { step } => (step, 0),
    }
}

fn main() -> Result<(), reprop_schedule::Error> {
    let tiers = [Tier::new(10, 0.0, 0.0), Tier::new(30, 10.0, 10.0)];
    let disk = Costs::unit().disk(50.0, 50.0)?;
    let print = |name: &str, (seconds, actions): (f64, usize)| {
        println!("{{\"name\": \"{name}\", \"seconds\": {seconds:e}, \"actions\": {actions}}}");
    };
    let revolve = |steps, slots| Revolve::new(steps, slots).map_or(0, run_through);
    print("revolve 1000 30", best_of(|| revolve(black_box(1000), 30)));
    print("revolve 10000 30", best_of(|| revolve(black_box(10_000), 30)));
    print("revolve 1000000 30", best_of(|| revolve(black_box(1_000_000), 30)));
    let multistage = || Multistage::new(black_box(1000), 10, 20, &Costs::unit()).map_or(0, run_through);
    print("multistage 1000 10 20", best_of(multistage));
    print("mixed 100 10", best_of(|| Mixed::new(black_box(100), 10).map_or(0, run_through)));
    print("mixed 1000 30", best_of(|| Mixed::new(black_box(1000), 30).map_or(0, run_through)));
    let h_revolve = || HRevolve::new(black_box(500), &tiers, &Costs::unit()).map_or(0, run_through);
    print("h-revolve 500 10 30", best_of(h_revolve));
    let closed =
        || (advances(black_box(1_000_000_000), 30) + snapshots(black_box(1_000_000_000), 30)) as usize;
    print("counts 1000000000 30", best_of(closed));
    let background =
        |steps: usize| Async::new(black_box(steps), 10, &disk, Channels::Shared).map_or(0, run_through);
    print("async 1000 10", best_of(|| background(1000)));
    print("async 100000 10", best_of(|| background(100_000)));
    Ok(())
}
