//! LSTM and GRU cells and optimizers' updates against `f64`.

mod common;

use common::{Rng, assert_close, assert_thread_invariant, dot, f64s, gradients, workspaces};
use proptest::prelude::*;
use reprop_kernels::gemm::PackedWeight;
use reprop_kernels::optimizer::{AdamW, Sgd};
use reprop_kernels::recurrent::{GruCell, GruGrads, LstmCell, LstmGrads};

const TOLERANCE: f64 = 5e-6;

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Tensors: x, h, c, input weight, hidden weight, bias. Returns `h'` and `c'` one after the other.
fn lstm(t: &[Vec<f64>], n: usize) -> Vec<f64> {
    let (a, b) = (common::linear(&t[0], &t[3], &t[5]), common::linear(&t[1], &t[4], &vec![0.0; 4 * n]));
    let rows = t[1].len() / n;
    let (mut h, mut c) = (vec![0.0; rows * n], vec![0.0; rows * n]);
    for (i, j) in (0..rows).flat_map(|i| (0..n).map(move |j| (i, j))) {
        let gate = |g: usize| a[i * 4 * n + g * n + j] + b[i * 4 * n + g * n + j];
        c[i * n + j] = sigmoid(gate(1)) * t[2][i * n + j] + sigmoid(gate(0)) * gate(2).tanh();
        h[i * n + j] = sigmoid(gate(3)) * c[i * n + j].tanh();
    }
    h.append(&mut c);
    h
}

/// Tensors: x, h, input weight, hidden weight, input bias, hidden bias.
fn gru(t: &[Vec<f64>], n: usize) -> Vec<f64> {
    let (a, b) = (common::linear(&t[0], &t[2], &t[4]), common::linear(&t[1], &t[3], &t[5]));
    (0..t[1].len())
        .map(|at| {
            let (i, j) = (at / n, at % n);
            let gate = |v: &[f64], g: usize| v[i * 3 * n + g * n + j];
            let (r, z) = (sigmoid(gate(&a, 0) + gate(&b, 0)), sigmoid(gate(&a, 1) + gate(&b, 1)));
            let n = (gate(&a, 2) + r * gate(&b, 2)).tanh();
            (1.0 - z) * n + z * t[1][at]
        })
        .collect()
}

fn run_lstm(
    t: &[Vec<f32>],
    d: &[f32],
    (inputs, n): (usize, usize),
    ws: &reprop_kernels::Workspace,
) -> Vec<Vec<f32>> {
    let input = PackedWeight::new(ws.isa(), &t[3], inputs, 4 * n);
    let hidden = PackedWeight::new(ws.isa(), &t[4], n, 4 * n);
    let cell = LstmCell { input: &input, hidden: &hidden, bias: &t[5] };
    let (mut h, mut c) = (vec![0.0; t[1].len()], vec![0.0; t[2].len()]);
    let saved = cell.forward(&t[0], (&t[1], &t[2]), (&mut h, &mut c), ws);
    let mut g: Vec<Vec<f32>> = t.iter().map(|t| vec![1.0; t.len()]).collect();
    let [x, dh, dc, input, hidden, bias] = g.get_disjoint_mut([0, 1, 2, 3, 4, 5]).unwrap();
    let grads = LstmGrads { x, h: dh, c: dc, input, hidden, bias, accumulate: true };
    cell.vjp(&t[0], (&t[1], &t[2]), saved, d.split_at(h.len()), grads, ws);
    h.append(&mut c);
    g.insert(0, h);
    g
}

proptest! {
    #![proptest_config(common::cases(12))]

    #[test]
    fn lstm_and_its_gradients_equal_f64(rows in 1usize..4, inputs in 1usize..6, n in 1usize..12, seed: u64) {
        let mut rng = Rng(seed);
        let t: Vec<Vec<f32>> = [rows * inputs, rows * n, rows * n, inputs * 4 * n, n * 4 * n, 4 * n].map(|l| rng.vec(l)).into();
        let d = rng.vec(2 * rows * n);
        let t64: Vec<Vec<f64>> = t.iter().map(|t| f64s(t)).collect();
        let mut want = gradients(&t64, |t| dot(&lstm(t, n), &f64s(&d)));
        // Parameters' gradients are added to ones.
        want[3..].iter_mut().flatten().for_each(|w| *w += 1.0);
        want.insert(0, lstm(&t64, n));
        for ws in workspaces() {
            for (i, (got, want)) in run_lstm(&t, &d, (inputs, n), &ws).iter().zip(&want).enumerate() {
                assert_close(&format!("result {i}"), got, want, TOLERANCE);
            }
        }
    }

    #[test]
    fn gru_and_its_gradients_equal_f64(rows in 1usize..4, inputs in 1usize..6, n in 1usize..12, seed: u64) {
        let mut rng = Rng(seed);
        let t: Vec<Vec<f32>> = [rows * inputs, rows * n, inputs * 3 * n, n * 3 * n, 3 * n, 3 * n].map(|l| rng.vec(l)).into();
        let d = rng.vec(rows * n);
        let t64: Vec<Vec<f64>> = t.iter().map(|t| f64s(t)).collect();
        let want = gradients(&t64, |t| dot(&gru(t, n), &f64s(&d)));
        for ws in workspaces() {
            let input = PackedWeight::new(ws.isa(), &t[2], inputs, 3 * n);
            let hidden = PackedWeight::new(ws.isa(), &t[3], n, 3 * n);
            let cell = GruCell { input: &input, hidden: &hidden, input_bias: &t[4], hidden_bias: &t[5] };
            let mut h = vec![0.0; t[1].len()];
            let saved = cell.forward(&t[0], &t[1], &mut h, &ws);
            assert_close("h", &h, &gru(&t64, n), TOLERANCE);
            let mut g: Vec<Vec<f32>> = t.iter().map(|t| vec![0.0; t.len()]).collect();
            let [x, dh, input, hidden, input_bias, hidden_bias] = g.get_disjoint_mut([0, 1, 2, 3, 4, 5]).unwrap();
            let grads = GruGrads { x, h: dh, input, hidden, input_bias, hidden_bias, accumulate: false };
            cell.vjp(&t[0], &t[1], saved, &d, grads, &ws);
            for (i, (got, want)) in g.iter().zip(&want).enumerate() {
                assert_close(&format!("gradient {i}"), got, want, TOLERANCE);
            }
        }
    }

    #[test]
    fn optimizers_equal_f64(len in 0usize..100, steps in 1u32..6, seed: u64) {
        let mut rng = Rng(seed);
        let start = rng.vec(len);
        let adam = AdamW { learning_rate: 0.01, beta1: 0.9, beta2: 0.99, eps: 1e-8, weight_decay: 0.1 };
        let sgd = Sgd { learning_rate: 0.1, momentum: 0.9, weight_decay: 0.01 };
        for ws in workspaces() {
            let (mut p, mut m, mut v) = (start.clone(), vec![0.0; len], vec![0.0; len]);
            let (mut q, mut b) = (start.clone(), vec![0.0; len]);
            let (mut p64, mut m64, mut v64) = (f64s(&start), vec![0.0; len], vec![0.0; len]);
            let (mut q64, mut b64) = (f64s(&start), vec![0.0; len]);
            for step in 1..=steps {
                let g = rng.vec(len);
                adam.update(step, &mut p, &g, &mut m, &mut v, &ws);
                sgd.update(&mut q, &g, &mut b, &ws);
                for i in 0..len {
                    let g = f64::from(g[i]);
                    m64[i] = 0.9 * m64[i] + 0.1 * g;
                    v64[i] = 0.99 * v64[i] + 0.01 * g * g;
                    let (mean, square) = (m64[i] / (1.0 - 0.9f64.powi(step as i32)), v64[i] / (1.0 - 0.99f64.powi(step as i32)));
                    p64[i] -= 0.01 * (0.1 * p64[i] + mean / (square.sqrt() + 1e-8));
                    let g = g + 0.01 * q64[i];
                    b64[i] = 0.9 * b64[i] + g;
                    q64[i] -= 0.1 * (g + 0.9 * b64[i]);
                }
            }
            assert_close("AdamW", &p, &p64, 1e-5);
            assert_close("SGD", &q, &q64, 1e-6);
        }
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let mut rng = Rng(2);
    let (rows, inputs, n) = (70, 33, 40);
    let t: Vec<Vec<f32>> =
        [rows * inputs, rows * n, rows * n, inputs * 4 * n, n * 4 * n, 4 * n].map(|l| rng.vec(l)).into();
    let d = rng.vec(2 * rows * n);
    assert_thread_invariant("lstm", |ws| run_lstm(&t, &d, (inputs, n), ws));
}
