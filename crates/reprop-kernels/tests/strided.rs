//! Strided 3x3 convolutions by transforms, against `f64`.

mod common;
#[path = "common/convolution.rs"]
mod convolution;

use common::{Rng, assert_close, assert_same_bits, assert_thread_invariant, f64s, workspaces};
use convolution::{Reference, TOLERANCE};
use proptest::prelude::*;
use reprop_kernels::Workspace;
use reprop_kernels::conv::{Images, Stride, Strided3x3, WinogradWeight};

fn run_strided(
    images: Images,
    (ci, co): (usize, usize),
    [x, w, dy]: [&[f32]; 3],
    ws: &Workspace,
) -> [Vec<f32>; 3] {
    let weight = WinogradWeight::with_stride(Stride::Two, w, (ci, co), ws);
    let conv = Strided3x3 { images, weight: &weight };
    // What is overwritten does not show.
    let (mut y, mut dx, mut dw) = (vec![7.0; dy.len()], vec![7.0; x.len()], vec![7.0; w.len()]);
    conv.forward(x, &mut y, ws);
    conv.vjp(x, dy, Some(&mut dx), &mut dw, ws);
    let mut alone = vec![7.0; w.len()];
    conv.vjp(x, dy, None, &mut alone, ws);
    assert_same_bits("dw without dx", &alone, &dw);
    [y, dx, dw]
}

/// Random tensors for a strided convolution, checked on all instruction sets.
fn check_strided(images: Images, (ci, co): (usize, usize), seed: u64) -> [Vec<f32>; 3] {
    let mut rng = Rng(seed);
    let reference = Reference { images, ci, co, k: 3, stride: 2, pad: 1 };
    let (x, w, dy) = (rng.vec(images.len(ci)), rng.vec(9 * ci * co), rng.vec(reference.out().len(co)));
    let want = reference.run(&f64s(&x), &f64s(&w), &f64s(&dy));
    for ws in workspaces() {
        let got = run_strided(images, (ci, co), [&x, &w, &dy], &ws);
        for (name, (got, want)) in ["y", "dx", "dw"].into_iter().zip(got.iter().zip(&want)) {
            assert_close(name, got, want, TOLERANCE);
        }
    }
    [x, w, dy]
}

proptest! {
    #![proptest_config(common::cases(24))]

    #[test]
    fn strided_and_its_gradients_equal_f64(
        batch in 0usize..4, height in 1usize..27, width in 1usize..27, ci in 1usize..40, co in 1usize..40, seed: u64,
    ) {
        check_strided(Images { batch, height, width }, (ci, co), seed);
    }
}

/// More tiles than are multiplied at once; parts of the weight's gradient come from all shares.
#[test]
fn several_shares_of_a_strided_convolution_equal_f64_at_any_number_of_threads() {
    for (images, channels) in [
        (Images { batch: 37, height: 18, width: 15 }, (18, 20)),
        (Images { batch: 2, height: 100, width: 97 }, (3, 5)),
    ] {
        let [x, w, dy] = check_strided(images, channels, 14);
        assert_thread_invariant("strided", |ws| run_strided(images, channels, [&x, &w, &dy], ws).into());
    }
}

#[test]
fn transforms_of_a_strided_convolution_pay_where_tiles_are_nearly_whole() {
    let pays = |side| Strided3x3::pays(Images { batch: 1, height: side, width: side });
    let sides: Vec<usize> = (1..17).filter(|&side| pays(side)).collect();
    assert_eq!(sides, [7, 8, 13, 14, 15, 16]);
}
