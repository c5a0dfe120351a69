//! Reference arithmetic in `f64` and helpers shared by the tests.
#![allow(dead_code, missing_docs)]

use reprop_kernels::attention::Keep;
use reprop_kernels::{Isa, Workspace};

/// A small deterministic generator: uniform in `-1..1`.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        (z >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    pub fn vec(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.next()).collect()
    }
}

pub fn f64s(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| f64::from(x)).collect()
}

/// `m x k` times `k x n`, row-major.
pub fn matmul(a: &[f64], b: &[f64], m: usize, k: usize, n: usize) -> Vec<f64> {
    let mut c = vec![0.0; m * n];
    for i in 0..m {
        for p in 0..k {
            for j in 0..n {
                c[i * n + j] += a[i * k + p] * b[p * n + j];
            }
        }
    }
    c
}

pub fn transpose<T: Copy>(a: &[T], rows: usize, cols: usize) -> Vec<T> {
    (0..cols).flat_map(|j| (0..rows).map(move |i| a[i * cols + j])).collect()
}

/// Largest difference, relative to the largest reference value (or to one, if all are smaller than it).
pub fn error(got: &[f32], want: &[f64]) -> f64 {
    assert_eq!(got.len(), want.len());
    let scale = want.iter().fold(1.0f64, |m, w| m.max(w.abs()));
    got.iter().zip(want).fold(0.0f64, |m, (g, w)| {
        let e = (f64::from(*g) - w).abs() / scale;
        if e.is_nan() { f64::INFINITY } else { m.max(e) }
    })
}

#[track_caller]
pub fn assert_close(what: &str, got: &[f32], want: &[f64], tolerance: f64) {
    let e = error(got, want);
    assert!(e <= tolerance, "{what}: error {e:.3e} above {tolerance:.1e}");
}

#[track_caller]
pub fn assert_same_bits(what: &str, a: &[f32], b: &[f32]) {
    assert_eq!(a.len(), b.len());
    let differ = a.iter().zip(b).position(|(a, b)| a.to_bits() != b.to_bits());
    assert!(differ.is_none(), "{what}: bits differ at {differ:?}");
}

/// Runs `f` with `threads` threads.
pub fn on_threads<R: Send>(threads: usize, f: impl FnOnce() -> R + Send) -> R {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(f)
}

/// How an output and its gradients are made: the same bits.
#[derive(Clone, Copy)]
pub enum Way {
    /// By a forward that saves, and a derivative.
    Two(Keep),
    /// Both in one.
    One,
}

/// The results of `run`, which must be the same for every [`Way`].
#[track_caller]
pub fn by_any_way(run: impl Fn(Way) -> Vec<Vec<f32>>) -> Vec<Vec<f32>> {
    let kept = run(Way::Two(Keep::Probabilities));
    for (what, way) in [("recomputed", Way::Two(Keep::Nothing)), ("in one", Way::One)] {
        for (a, b) in kept.iter().zip(&run(way)) {
            assert_same_bits(&format!("kept or {what}"), a, b);
        }
    }
    kept
}

/// A workspace for every instruction set of this CPU.
pub fn workspaces() -> Vec<Workspace> {
    Isa::available().into_iter().map(Workspace::new).collect()
}

/// `f` must give the same bits on 1, 2, 3, 4 and 8 threads.
#[track_caller]
pub fn assert_thread_invariant(what: &str, f: impl Fn(&Workspace) -> Vec<Vec<f32>> + Sync) {
    for ws in workspaces() {
        let one = on_threads(1, || f(&ws));
        for threads in [2, 3, 4, 8] {
            let many = on_threads(threads, || f(&ws));
            for (a, b) in one.iter().zip(&many) {
                assert_same_bits(&format!("{what}, {threads} threads, {}", ws.isa().name()), a, b);
            }
        }
    }
}

/// `erf` by its series of positive terms, exact to rounding for the arguments of tests.
pub fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum, mut n) = (x, x, 0.0);
    while term.abs() > 1e-18 * sum.abs() {
        n += 1.0;
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
    }
    sum * 2.0 / std::f64::consts::PI.sqrt() * (-x * x).exp()
}

pub fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + erf(x / 2f64.sqrt()))
}

pub fn layer_norm(x: &[f64], scale: &[f64], bias: &[f64], eps: f64) -> Vec<f64> {
    let width = scale.len();
    x.chunks(width)
        .flat_map(|x| {
            let mean = x.iter().sum::<f64>() / width as f64;
            let var = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / width as f64;
            let r = 1.0 / (var + eps).sqrt();
            (0..width).map(move |i| (x[i] - mean) * r * scale[i] + bias[i])
        })
        .collect()
}

pub fn linear(x: &[f64], w: &[f64], b: &[f64]) -> Vec<f64> {
    let n = b.len();
    let k = w.len() / n;
    let rows = x.len() / k;
    let mut y = matmul(x, w, rows, k, n);
    y.iter_mut().enumerate().for_each(|(i, y)| *y += b[i % n]);
    y
}

/// Gradient of `f` by central differences in `f64`: exact to about `1e-9` for smooth `f`.
pub fn gradient(at: &[f64], f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    const STEP: f64 = 1e-5;
    let mut x = at.to_vec();
    (0..x.len())
        .map(|i| {
            x[i] = at[i] + STEP;
            let up = f(&x);
            x[i] = at[i] - STEP;
            let down = f(&x);
            x[i] = at[i];
            (up - down) / (2.0 * STEP)
        })
        .collect()
}

/// Gradient of `f` with respect to each of several tensors.
pub fn gradients(at: &[Vec<f64>], f: impl Fn(&[Vec<f64>]) -> f64) -> Vec<Vec<f64>> {
    (0..at.len())
        .map(|i| {
            gradient(&at[i], |x| {
                let mut t = at.to_vec();
                t[i] = x.to_vec();
                f(&t)
            })
        })
        .collect()
}

pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Property tests run this many cases and write nothing beside the sources.
pub fn cases(count: u32) -> proptest::test_runner::Config {
    proptest::test_runner::Config { cases: count, failure_persistence: None, ..Default::default() }
}
