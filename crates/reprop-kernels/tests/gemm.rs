//! Products and linear layers against `f64`, over odd shapes, strides and instruction sets.

mod common;

use common::{
    Rng, assert_close, assert_same_bits, assert_thread_invariant, f64s, matmul, transpose, workspaces,
};
use proptest::prelude::*;
use reprop_kernels::gemm::{Mat, PackedMatrix, PackedWeight, Product, gemm};
use reprop_kernels::linear;

/// A chain of `k` rounded multiply-adds drifts by some `sqrt(k)` half-ulps of its largest partial sum, which may cancel.
const TOLERANCE: f64 = 1e-5;

proptest! {
    #![proptest_config(common::cases(48))]

    #[test]
    fn product_equals_f64_for_any_shape_stride_and_offset(
        m in 0usize..70, n in 0usize..70, k in 0usize..300,
        transpose_a: bool, transpose_b: bool, offset in 0usize..5, accumulate: bool, seed: u64,
    ) {
        let mut rng = Rng(seed);
        let a = rng.vec(offset + m * k);
        let b = rng.vec(offset + k * n);
        let old = rng.vec(m * n);
        let (va, vb) = (&a[offset..], &b[offset..]);
        let plain_a = if transpose_a { transpose(va, k, m) } else { va.to_vec() };
        let plain_b = if transpose_b { transpose(vb, n, k) } else { vb.to_vec() };
        let mut want = matmul(&f64s(&plain_a), &f64s(&plain_b), m, k, n);
        let mut want_sums: Vec<f64> = (0..n).map(|j| (0..k).map(|p| f64::from(plain_b[p * n + j])).sum()).collect();
        if accumulate {
            want.iter_mut().zip(&old).for_each(|(w, o)| *w += f64::from(*o));
            for w in &mut want_sums {
                *w += 1.0;
            }
        }
        for ws in workspaces() {
            let mut c = old.clone();
            let mut sums = vec![1.0; n];
            let a = if transpose_a { Mat::new(va, k, m).t() } else { Mat::new(va, m, k) };
            let b = if transpose_b { Mat::new(vb, n, k).t() } else { Mat::new(vb, k, n) };
            gemm(&ws, Product { a, b, c: &mut c, accumulate, column_sums: Some(&mut sums) });
            assert_close("product", &c, &want, TOLERANCE);
            assert_close("column sums", &sums, &want_sums, TOLERANCE);
        }
    }

    #[test]
    fn linear_and_its_gradients_equal_f64(
        rows in 0usize..60, inputs in 1usize..80, outputs in 1usize..80, offset in 0usize..4, seed: u64,
    ) {
        let mut rng = Rng(seed);
        let (x, w) = (rng.vec(offset + rows * inputs), rng.vec(inputs * outputs));
        let (b, dy) = (rng.vec(outputs), rng.vec(offset + rows * outputs));
        let (x, dy) = (&x[offset..], &dy[offset..]);
        let mut y64 = matmul(&f64s(x), &f64s(&w), rows, inputs, outputs);
        y64.iter_mut().enumerate().for_each(|(i, y)| *y += f64::from(b[i % outputs]));
        let dx64 = matmul(&f64s(dy), &f64s(&transpose(&w, inputs, outputs)), rows, outputs, inputs);
        let dw64 = matmul(&f64s(&transpose(x, rows, inputs)), &f64s(dy), inputs, rows, outputs);
        for ws in workspaces() {
            let packed = PackedWeight::new(ws.isa(), &w, inputs, outputs);
            let mut y = vec![f32::NAN; rows * outputs];
            linear::forward(&ws, &packed.forward, Some(&b), x, &mut y, rows);
            assert_close("y", &y, &y64, TOLERANCE);
            let (mut dx, mut dw, mut db) = (vec![0.0; rows * inputs], vec![0.0; w.len()], vec![0.0; outputs]);
            let grads = linear::LinearGrads { x: &mut dx, weight: &mut dw, bias: &mut db };
            linear::vjp(&ws, &packed, x, dy, rows, grads);
            assert_close("dx", &dx, &dx64, TOLERANCE);
            assert_close("dw", &dw, &dw64, TOLERANCE);
        }
    }
}

/// Small results of long sums are cut along the sum: with what was there before, sums of columns, and at any number of
/// threads.
#[test]
fn long_sums_are_cut_and_added_up_alike_at_any_number_of_threads() {
    for (m, k, n) in [(5, 1536, 7), (20, 1537, 33), (9, 6143, 50), (3, 7001, 4)] {
        let mut rng = Rng(k as u64);
        let (a, b, old, old_sums) = (rng.vec(k * m), rng.vec(k * n), rng.vec(m * n), rng.vec(n));
        let mut want = matmul(&f64s(&transpose(&a, k, m)), &f64s(&b), m, k, n);
        want.iter_mut().zip(&old).for_each(|(w, o)| *w += f64::from(*o));
        let want_sums: Vec<f64> = (0..n)
            .map(|j| f64::from(old_sums[j]) + (0..k).map(|p| f64::from(b[p * n + j])).sum::<f64>())
            .collect();
        assert_thread_invariant("long sums", |ws| {
            let (mut c, mut sums) = (old.clone(), old_sums.clone());
            let (a, b) = (Mat::new(&a, k, m).t(), Mat::new(&b, k, n));
            gemm(ws, Product { a, b, c: &mut c, accumulate: true, column_sums: Some(&mut sums) });
            assert_close("product", &c, &want, TOLERANCE);
            assert_close("column sums", &sums, &want_sums, TOLERANCE);
            vec![c, sums]
        });
    }
}

#[test]
fn large_products_cross_every_block_border() {
    let (m, k, n) = (401, 777, 393);
    let mut rng = Rng(1);
    let (a, b) = (rng.vec(m * k), rng.vec(k * n));
    let want = matmul(&f64s(&a), &f64s(&b), m, k, n);
    for ws in workspaces() {
        let mut c = vec![0.0; m * n];
        let product = Product {
            a: Mat::new(&a, m, k),
            b: Mat::new(&b, k, n),
            c: &mut c,
            accumulate: false,
            column_sums: None,
        };
        gemm(&ws, product);
        assert_close("product", &c, &want, TOLERANCE);
        // Rows of a packed product are the same bits as the general one.
        let packed = PackedWeight::new(ws.isa(), &b, k, n);
        let mut y = vec![0.0; m * n];
        linear::forward(&ws, &packed.forward, None, &a, &mut y, m);
        assert_same_bits("packed and general", &c, &y);
    }
}

#[test]
fn padded_rows_change_no_bit() {
    let (rows, k, n) = (61, 1024, 40);
    let mut rng = Rng(2);
    let (x, w) = (rng.vec(rows * k), rng.vec(k * n));
    for ws in workspaces() {
        let packed = PackedWeight::new(ws.isa(), &w, k, n);
        let mut all = vec![0.0; rows * n];
        linear::forward(&ws, &packed.forward, None, &x, &mut all, rows);
        let mut one = vec![0.0; n];
        linear::forward(&ws, &packed.forward, None, &x[7 * k..8 * k], &mut one, 1);
        assert_same_bits("row 7", &all[7 * n..8 * n], &one);
    }
}

#[test]
fn a_weight_that_is_used_once_gives_the_bits_of_a_packed_one() {
    let (rows, k, n) = (linear::FEW_ROWS + 19, 70, 45);
    let mut rng = Rng(4);
    let (x, w, bias) = (rng.vec(rows * k), rng.vec(n * k), rng.vec(n));
    let w = Mat::new(&w, n, k).t();
    for ws in workspaces() {
        let packed = PackedMatrix::new(ws.isa(), w);
        let (mut y, mut once) = (vec![0.0; rows * n], vec![0.0; rows * n]);
        linear::forward(&ws, &packed, Some(&bias), &x, &mut y, rows);
        linear::forward_once(&ws, w, &bias, &x, &mut once, rows);
        assert_same_bits("packed or once", &y, &once);
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let (rows, inputs, outputs) = (150, 385, 420);
    let mut rng = Rng(3);
    let (x, w, dy) = (rng.vec(rows * inputs), rng.vec(inputs * outputs), rng.vec(rows * outputs));
    assert_thread_invariant("linear", |ws| {
        let packed = PackedWeight::new(ws.isa(), &w, inputs, outputs);
        let (mut dx, mut dw, mut db) = (vec![0.0; rows * inputs], vec![0.0; w.len()], vec![0.0; outputs]);
        let mut y = vec![0.0; rows * outputs];
        linear::forward(ws, &packed.forward, None, &x, &mut y, rows);
        let grads = linear::LinearGrads { x: &mut dx, weight: &mut dw, bias: &mut db };
        linear::vjp(ws, &packed, &x, &dy, rows, grads);
        vec![y, dx, dw, db]
    });
}
