//! Expect: the last column of `async` flat in the length, that of `revolve` growing; memory, files and descriptors flat.
//!
//! Seconds a step of a chain, there and back, for growing lengths under Revolve and under the asynchronous plan with the same
//! slots: `cargo run --release -p reprop --example long_chain`. Or `-- STATE_BYTES SLOTS PLAN LENGTH...`, such as
//! `-- 256 8 async 1000000`; PLAN is `stored`, `revolve` or `async`.

use reprop::chain::{Async, Chain, ChainReport, Checkpointed, Steps};
use reprop_schedule::Revolve;
use reprop_store::{DiskConfig, Store};

/// Length in time, and number, of the small steps that a step of the chain is made of.
const H: f32 = 0.05;
const SMALL: usize = 4;

/// An oscillator, `q' = p` and `p' = -q - q^3`, by the symplectic method of Euler, which keeps it on its orbit: no number
/// grows much or fades, however long the chain is. Gives the place at the beginning of each small step.
fn oscillate(q: &mut f32, p: &mut f32) -> [f32; SMALL] {
    [(); SMALL].map(|()| {
        let before = *q;
        *p -= H * (before + before * before * before);
        *q += H * *p;
        before
    })
}

/// A step of the chain. A function of its own, so that it is compiled to the same code whoever calls it.
#[inline(never)]
fn forth(q: &mut [f32], p: &mut [f32]) {
    q.iter_mut().zip(p).for_each(|(q, p)| {
        oscillate(q, p);
    });
}

/// Its derivatives by what it begins with, from those by what it ends with.
#[inline(never)]
fn back((q, p): (&[f32], &[f32]), dq: &mut [f32], dp: &mut [f32]) {
    for ((&q, &p), (dq, dp)) in q.iter().zip(p).zip(dq.iter_mut().zip(dp)) {
        for place in oscillate(&mut q.clone(), &mut p.clone()).into_iter().rev() {
            *dp += H * *dq;
            *dq -= H * (1.0 + 3.0 * place * place) * *dp;
        }
    }
}

/// A pass over the chain of oscillators, places first and speeds behind; the loss is the last state's first element. Gives its
/// derivative by the first state's first.
fn run(width: usize, how: Checkpointed<'_>) -> Result<(f32, ChainReport), reprop::chain::Error> {
    let advance = |_: usize, mut x: Vec<f32>| {
        let (q, p) = x.split_at_mut(width / 2);
        forth(q, p);
        x
    };
    let reverse = |_: usize, x: Vec<f32>, mut adjoint: Vec<f32>, (): &mut ()| {
        let (dq, dp) = adjoint.split_at_mut(width / 2);
        back(x.split_at(width / 2), dq, dp);
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
    // Else every copy of a state would touch fresh pages.
    reprop::keep_freed_memory();
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
