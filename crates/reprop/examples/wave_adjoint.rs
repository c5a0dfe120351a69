//! Expect: the gradient norm 3.359 from three plans, and rates of 2.02 to 2.00.
//!
//! The adjoint of a 2-D wave equation, as seismologists use it: how does the misfit of a recorded wave change with the
//! ground's velocity at each point? Checked by a Taylor test: what is left of `J(m + e v)` after the gradient's part falls with
//! `e^2`. `cargo run --release -p reprop --example wave_adjoint`, or `-- GRID STEPS SLOTS PLAN` to time one gradient under
//! `stored`, `revolve` or `async`.

use reprop::chain::{Async, Chain, ChainReport, Checkpointed, Steps};
use reprop_schedule::{Revolve, Stored};
use reprop_store::{DiskConfig, Store};

/// The field now and one step before.
type Field = (Vec<f64>, Vec<f64>);

const DT: f64 = 0.4;

/// `u'' = m ∇²u + source` on a square with fixed edges, by leapfrog; receivers in one row.
struct Wave {
    side: usize,
    /// Squared velocities.
    m: Vec<f64>,
    /// What the receivers recorded in the true ground, a row a step.
    recorded: Vec<Vec<f64>>,
}

impl Wave {
    /// Calls `row(place, laplacian)` for each row without its ends, but for the first and the last: where it begins, and the
    /// Laplacian of `u` along it.
    fn rows(&self, u: &[f64], mut row: impl FnMut(usize, &[f64])) {
        let (side, width) = (self.side, self.side - 2);
        let mut laplacian = vec![0.0; width];
        for at in (1..side - 1).map(|row| row * side + 1) {
            let around = |offset: usize| &u[at + offset - side..][..width];
            let (up, left, here, right, down) =
                (around(0), around(side - 1), around(side), around(side + 1), around(2 * side));
            for (i, out) in laplacian.iter_mut().enumerate() {
                *out = left[i] + right[i] + up[i] + down[i] - 4.0 * here[i];
            }
            row(at, &laplacian);
        }
    }

    fn receivers(&self) -> std::ops::Range<usize> {
        let row = self.side * (self.side - self.side / 4);
        row + 1..row + self.side - 1
    }

    fn advance(&self, step: usize, (u, mut before): Field) -> Field {
        self.rows(&u, |at, laplacian| {
            let range = at..at + laplacian.len();
            let (before, u, m) = (&mut before[range.clone()], &u[range.clone()], &self.m[range]);
            for (i, before) in before.iter_mut().enumerate() {
                *before = 2.0 * u[i] - *before + DT * DT * m[i] * laplacian[i];
            }
        });
        // A Ricker wavelet in the upper half.
        let phase = (0.12 * (step as f64 - 25.0)).powi(2);
        before[self.side * (self.side / 4) + self.side / 2] += DT * DT * (1.0 - 2.0 * phase) * (-phase).exp();
        (before, u)
    }

    /// The misfit's residuals after a step that led to `u`.
    fn residuals<'w>(&'w self, step: usize, u: &'w [f64]) -> impl Iterator<Item = (usize, f64)> + 'w {
        self.receivers().zip(&self.recorded[step]).map(|(at, recorded)| (at, u[at] - recorded))
    }

    /// The transposed step. The Laplacian is its own transpose; the gradient of `m` is added to `dm`.
    fn reverse(
        &self,
        step: usize,
        x: Field,
        (mut a, mut back): Field,
        (loss, dm): &mut (f64, Vec<f64>),
    ) -> Field {
        let (next, u) = self.advance(step, x);
        for (at, residual) in self.residuals(step, &next) {
            *loss += 0.5 * residual * residual;
            a[at] += residual;
        }
        self.rows(&u, |at, laplacian| {
            let range = at..at + laplacian.len();
            let (dm, a) = (&mut dm[range.clone()], &a[range]);
            for (i, dm) in dm.iter_mut().enumerate() {
                *dm += DT * DT * a[i] * laplacian[i];
            }
        });
        // The field after the step is not needed any more.
        let mut scaled = next;
        for ((scaled, a), m) in scaled.iter_mut().zip(&a).zip(&self.m) {
            *scaled = DT * DT * a * m;
        }
        self.rows(&scaled, |at, laplacian| {
            let range = at..at + laplacian.len();
            let (back, a) = (&mut back[range.clone()], &a[range]);
            for (i, back) in back.iter_mut().enumerate() {
                *back += 2.0 * a[i] + laplacian[i];
            }
        });
        // On the edge the field stays what it was two steps before, which is nothing.
        for a in &mut a {
            *a = -*a;
        }
        (back, a)
    }

    fn still(&self) -> Field {
        (vec![0.0; self.side * self.side], vec![0.0; self.side * self.side])
    }

    fn loss(&self) -> f64 {
        let (mut state, mut loss) = (self.still(), 0.0);
        for step in 0..self.recorded.len() {
            state = self.advance(step, state);
            loss += self.residuals(step, &state.0).map(|(_, r)| 0.5 * r * r).sum::<f64>();
        }
        loss
    }

    fn gradient(&self, how: Checkpointed<'_>) -> Result<(f64, Vec<f64>, ChainReport), reprop::chain::Error> {
        let steps = Steps::new(
            |step, x: Field| self.advance(step, x),
            |step, x: Field, adjoint: Field, sum: &mut (f64, Vec<f64>)| self.reverse(step, x, adjoint, sum),
            |_: &Field, _: &mut (f64, Vec<f64>)| self.still(),
        );
        let done = Chain::new(steps).run(self.still(), (0.0, vec![0.0; self.m.len()]), how)?;
        Ok((done.sum.0, done.sum.1, done.report))
    }
}

/// Even ground, with a record of ground that has a hard lump in it.
fn problem(side: usize, steps: usize) -> Wave {
    let lump = |at: usize| {
        let (row, column) = ((at / side) as f64 / side as f64 - 0.5, (at % side) as f64 / side as f64 - 0.45);
        1.0 + 0.5 * (-40.0 * (row * row + column * column)).exp()
    };
    let mut wave = Wave { side, m: (0..side * side).map(lump).collect(), recorded: vec![] };
    let mut state = wave.still();
    for step in 0..steps {
        state = wave.advance(step, state);
        let row = state.0[wave.receivers()].to_vec();
        wave.recorded.push(row);
    }
    Wave { m: vec![1.0; side * side], ..wave }
}

/// One gradient, timed, under a plan.
fn time(side: usize, steps: usize, slots: usize, plan: &str) -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    // What waits to be written is in its memory slot anyway.
    let store = DiskConfig::new(folder.path().join("snapshots")).queue(slots, u64::MAX).create()?;
    let wave = problem(side, steps);
    let how = match plan {
        "stored" => Checkpointed::schedule(Stored::new(steps)?),
        "revolve" => Checkpointed::schedule(Revolve::new(steps, slots)?),
        "async" => Checkpointed::planner(Async::new(slots).steps(steps)).store(&store),
        other => return Err(format!("there is no plan called {other}: stored, revolve or async").into()),
    };
    let (_, gradient, report) = wave.gradient(how)?;
    store.finish()?;
    let ChainReport { seconds, predicted_seconds, stall_seconds, forward_evaluations, peak_bytes, .. } =
        report;
    println!(
        "reprop {plan} {seconds:.4} s, predicted {predicted_seconds:.4} s, stalled {stall_seconds:.4} s, \
         {forward_evaluations} forward evaluations, snapshots of {:.1} MiB, gradient norm {:.3e}",
        peak_bytes as f64 / f64::from(1 << 20),
        norm(&gradient)
    );
    Ok(())
}

fn norm(gradient: &[f64]) -> f64 {
    gradient.iter().map(|g| g * g).sum::<f64>().sqrt()
}

/// Three plans, one gradient; and the Taylor test.
///
/// # Errors
///
/// A store that fails.
pub fn check() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let store = DiskConfig::new(folder.path().join("snapshots")).create()?;
    let (side, steps) = (40, 200);
    let mut wave = problem(side, steps);
    let (loss, gradient, _) = wave.gradient(Checkpointed::schedule(Stored::new(steps)?))?;
    let revolve = wave.gradient(Checkpointed::schedule(Revolve::new(steps, 8)?))?;
    let asynchronous = wave.gradient(Checkpointed::planner(Async::new(4).steps(steps)).store(&store))?;
    store.finish()?;
    for (name, gradient) in [("stored", &gradient), ("revolve", &revolve.1), ("async", &asynchronous.1)] {
        println!("{name:<8} gradient norm {:.3e}", norm(gradient));
    }
    assert!(gradient == revolve.1 && gradient == asynchronous.1, "the plans give different bits");
    let direction: Vec<f64> = (0..side * side).map(|at| (at as f64 * 0.37).sin()).collect();
    let slope: f64 = gradient.iter().zip(&direction).map(|(g, v)| g * v).sum();
    let ground = wave.m.clone();
    let mut before: Option<f64> = None;
    for halving in 0..5 {
        let size = 0.02 * 0.5f64.powi(halving);
        wave.m = ground.iter().zip(&direction).map(|(m, v)| m + size * v).collect();
        let left = (wave.loss() - loss - size * slope).abs();
        if let Some(before) = before {
            let rate = (before / left).log2();
            println!("e = {size:.5}: {left:.2e} left, rate {rate:.2}");
            // The third order is still seen at the largest steps.
            assert!((rate - 2.0).abs() < 0.1, "the remainder falls with e^{rate:.2}, not e^2");
        }
        before = Some(left);
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Else every copy of a state would touch fresh pages.
    reprop::keep_freed_memory();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [] => check(),
        [side, steps, slots, plan] => time(side.parse()?, steps.parse()?, slots.parse()?, plan),
        _ => Err("give GRID STEPS SLOTS PLAN, or nothing".into()),
    }
}
