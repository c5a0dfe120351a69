//! Cross-entropy and embedding against `f64`.

mod common;

use common::{Rng, assert_close, assert_thread_invariant, f64s, gradient, workspaces};
use proptest::prelude::*;
use reprop_kernels::cross_entropy::{IGNORE, cross_entropy};
use reprop_kernels::embedding;

fn reference(z: &[f64], labels: &[u32], classes: usize, smoothing: f64) -> f64 {
    let rows = z.chunks(classes).zip(labels).filter(|(_, label)| **label != IGNORE);
    let counted = rows.clone().count().max(1);
    rows.map(|(z, &label)| {
        let log_sum = z.iter().map(|z| z.exp()).sum::<f64>().ln();
        (0..classes)
            .map(|c| {
                let q = smoothing / classes as f64 + if c == label as usize { 1.0 - smoothing } else { 0.0 };
                q * (log_sum - z[c])
            })
            .sum::<f64>()
    })
    .sum::<f64>()
        / counted as f64
}

proptest! {
    #![proptest_config(common::cases(32))]

    #[test]
    fn cross_entropy_and_its_gradient_equal_f64(
        rows in 0usize..20, classes in 1usize..40, smoothing in 0.0f32..0.5, ignore: bool, seed: u64,
    ) {
        let mut rng = Rng(seed);
        let logits: Vec<f32> = rng.vec(rows * classes).iter().map(|z| 4.0 * z).collect();
        let labels: Vec<u32> = (0..rows)
            .map(|i| if ignore && i % 3 == 0 { IGNORE } else { ((rng.next() + 1.0) * 1e4) as u32 % classes as u32 })
            .collect();
        let eps = f64::from(smoothing);
        let want = reference(&f64s(&logits), &labels, classes, eps);
        let slope = gradient(&f64s(&logits), |z| reference(z, &labels, classes, eps));
        for ws in workspaces() {
            let mut d = vec![0.0; logits.len()];
            let loss = cross_entropy(&logits, &labels, classes, smoothing, &mut d, &ws);
            assert_close("loss", &[loss], &[want], 1e-6);
            assert_close("gradient", &d, &slope, 1e-6);
        }
    }

    #[test]
    fn embedding_picks_rows_and_adds_gradients_up(entries in 1usize..20, width in 1usize..80, count in 0usize..50, seed: u64) {
        let mut rng = Rng(seed);
        let table = rng.vec(entries * width);
        let tokens: Vec<u32> = (0..count).map(|_| ((rng.next() + 1.0) * 1e4) as u32 % entries as u32).collect();
        let dy = rng.vec(count * width);
        let mut y = vec![0.0; count * width];
        embedding::forward(&table, width, &tokens, &mut y);
        let mut want = vec![0.0; table.len()];
        for (i, &token) in tokens.iter().enumerate() {
            let from = token as usize * width;
            prop_assert_eq!(&y[i * width..(i + 1) * width], &table[from..from + width]);
            for j in 0..width {
                want[from + j] += f64::from(dy[i * width + j]);
            }
        }
        let mut d = vec![0.0; table.len()];
        embedding::vjp(width, &tokens, &dy, &mut d);
        assert_close("table", &d, &want, 1e-6);
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let mut rng = Rng(4);
    let (rows, classes) = (133, 77);
    let logits = rng.vec(rows * classes);
    let labels: Vec<u32> = (0..rows as u32).map(|i| i * 7 % classes as u32).collect();
    assert_thread_invariant("losses", |ws| {
        let (mut d, mut table) = (vec![0.0; logits.len()], vec![0.0; logits.len()]);
        let loss = cross_entropy(&logits, &labels, classes, 0.1, &mut d, ws);
        embedding::vjp(classes, &labels, &d, &mut table);
        vec![vec![loss], d, table]
    });
}

#[test]
fn large_offsets_cost_no_accuracy() {
    let logits: Vec<f32> = (0..10).map(|i| 1000.0 + i as f32).collect();
    let want = reference(&(0..10).map(f64::from).collect::<Vec<_>>(), &[3], 10, 0.1);
    for ws in workspaces() {
        let mut d = vec![0.0; 10];
        assert_close("loss", &[cross_entropy(&logits, &[3], 10, 0.1, &mut d, &ws)], &[want], 1e-6);
    }
}
