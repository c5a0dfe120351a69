//! Expect: the last column of `async` flat in the length, that of `revolve` growing; memory, files and descriptors flat.
//!
//! Seconds a step of a chain, there and back, for growing lengths under Revolve and under the asynchronous plan with the same
//! slots: `cargo run --release -p reprop --example long_chain`. Or `-- STATE_BYTES SLOTS PLAN LENGTH...`, such as
//! `-- 256 8 async 1000000`; PLAN is `stored`, `revolve` or `async`.

use reprop::chain::{Async, Chain, ChainReport, Checkpointed, Steps};
use reprop_schedule::Revolve;
use reprop_store::{DiskConfig, Store};

/// A step's length in time.
const H: f32 = 0.05;

/// `dx/dt = u(t) (x - x^3)` on each element by Euler's method: a step from `x`, and its derivative.
fn euler(x: f32, u: f32) -> (f32, f32) {
    (x + H * u * (x - x * x * x), 1.0 + H * u * (1.0 - 3.0 * x * x))
}

/// What drives the chain at a step: there and back, so that no number grows or fades however long it is.
fn drive(step: usize) -> f32 {
    (step % 97) as f32 / 48.0 - 1.0
}

/// A pass over the chain; the loss is the last state's first element. Gives its derivative by the first state's first.
fn run(width: usize, how: Checkpointed<'_>) -> Result<(f32, ChainReport), reprop::chain::Error> {
    let advance = |step: usize, mut x: Vec<f32>| {
        let u = drive(step);
        for x in &mut x {
            *x = euler(*x, u).0;
        }
        x
    };
    let reverse = |step: usize, x: Vec<f32>, mut adjoint: Vec<f32>, (): &mut ()| {
        let u = drive(step);
        adjoint.iter_mut().zip(&x).for_each(|(a, &x)| *a *= euler(x, u).1);
        adjoint
    };
    let seed = |last: &Vec<f32>, (): &mut ()| {
        let mut seed = vec![0.0; last.len()];
        seed[0] = 1.0;
        seed
    };
    let start = (0..width).map(|index| (index as f32 * 0.1).sin() * 0.3).collect();
    let done = Chain::new(Steps::new(advance, reverse, seed)).run(start, (), how)?;
    Ok((done.adjoint[0], done.report))
}

/// A line of `/proc/self/status`, in bytes; nothing elsewhere than on Linux.
fn status(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or("");
    line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (bytes, slots, plans, lengths): (usize, usize, Vec<&str>, Vec<usize>) = match &arguments[..] {
        [bytes, slots, plan, lengths @ ..] => {
            let lengths = lengths.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
            (bytes.parse()?, slots.parse()?, vec![plan.as_str()], lengths)
        }
        _ => (1 << 18, 16, vec!["revolve", "async"], vec![1_000, 10_000]),
    };
    println!(
        "plan        steps  evaluations/step  stall s  predicted s  seconds  peak MiB  us/step  derivative"
    );
    for plan in plans {
        for &steps in &lengths {
            let folder = tempfile::tempdir()?;
            // What waits to be written is in its memory slot anyway.
            let store = DiskConfig::new(folder.path().join("snapshots")).queue(slots, u64::MAX).create()?;
            let how = match plan {
                "stored" => Checkpointed::stored(steps)?,
                "revolve" => Checkpointed::schedule(Revolve::new(steps, slots)?),
                "async" => Checkpointed::planner(Async::new(slots).steps(steps)).store(&store),
                other => {
                    return Err(format!("there is no plan called {other}: stored, revolve or async").into());
                }
            };
            let (derivative, report) = run(bytes / 4, how)?;
            store.finish()?;
            let ChainReport { seconds, stall_seconds, predicted_seconds, forward_evaluations, .. } = report;
            let evaluations = forward_evaluations as f64 / steps as f64;
            let (peak, each) = (status("VmHWM") as f64 / f64::from(1 << 20), 1e6 * seconds / steps as f64);
            println!(
                "{plan:<8} {steps:>8} {evaluations:>17.2} {stall_seconds:>8.3} {predicted_seconds:>12.3} {seconds:>8.3} {peak:>9.1} {each:>8.2}  {derivative:e}"
            );
        }
    }
    Ok(())
}
