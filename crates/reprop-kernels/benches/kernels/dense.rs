//! Linear layers and the products they are made of.

use divan::{Bencher, black_box};
use reprop_kernels::gemm::{Mat, PackedWeight, Product, gemm};
use reprop_kernels::linear::{self, LinearGrads};
use reprop_kernels::{Workspace, heap};

use crate::support::{ROWS, blank, bytes, data, flops, weight};

/// ViT-S: qkv, projection and perceptron; and a wide one.
const SHAPES: [(usize, usize); 5] = [(384, 1152), (384, 384), (384, 1536), (1536, 384), (1024, 4096)];

#[divan::bench(args = SHAPES)]
fn linear_forward(bencher: Bencher, (k, n): (usize, usize)) {
    let ws = Workspace::default();
    let w = PackedWeight::new(ws.isa(), &weight(k * n), k, n);
    let (x, bias, [mut y]) = (data(ROWS * k), data(n), blank([ROWS * n]));
    bencher
        .counter(flops(2 * ROWS * k * n))
        .bench_local(|| linear::forward(&ws, &w.forward, Some(&bias), black_box(&x), &mut y, ROWS));
}

#[divan::bench(args = SHAPES)]
fn linear_vjp(bencher: Bencher, (k, n): (usize, usize)) {
    let ws = Workspace::default();
    let w = PackedWeight::new(ws.isa(), &weight(k * n), k, n);
    let (x, dy) = (data(ROWS * k), data(ROWS * n));
    let [mut dx, mut dw, mut db] = blank([ROWS * k, k * n, n]);
    bencher.counter(flops(4 * ROWS * k * n)).bench_local(|| {
        let grads = LinearGrads { x: &mut dx, weight: &mut dw, bias: &mut db };
        linear::vjp(&ws, &w, black_box(&x), &dy, ROWS, grads);
    });
}

/// Rows, inputs and outputs: scores of the masked tokens of RevRoBERTa, classes of ViT-S.
#[divan::bench(args = [(154, 768, 50_265), (8, 384, 1000)])]
fn linear_forward_once(bencher: Bencher, (rows, k, n): (usize, usize, usize)) {
    let ws = Workspace::default();
    let (w, bias, x, [mut y]) = (weight(k * n), data(n), data(rows * k), blank([rows * n]));
    bencher.counter(flops(2 * rows * k * n)).bench_local(|| {
        linear::forward_once(&ws, Mat::new(&w, k, n), &bias, black_box(&x), &mut y, rows);
    });
}

#[divan::bench(args = [(384, 1152), (384, 384), (384, 1536), (1536, 384), (768, 3072)])]
fn weight_gradient(bencher: Bencher, (k, n): (usize, usize)) {
    let ws = Workspace::default();
    let (x, dy, [mut dw, mut db]) = (data(ROWS * k), data(ROWS * n), blank([k * n, n]));
    bencher.counter(flops(2 * ROWS * k * n)).bench_local(|| {
        let (a, b) = (Mat::new(&x, ROWS, k).t(), Mat::new(&dy, ROWS, n));
        let column_sums = Some(&mut db[..]);
        gemm(&ws, Product { a, b, c: black_box(&mut dw), accumulate: false, column_sums });
    });
}

/// Both gradients of RevRoBERTa's table of tokens, from 154 rows of scores: `dx`, then the table's, added to what is there.
#[divan::bench(args = ["dx", "dw"])]
fn gradients_of_token_scores(bencher: Bencher, which: &str) {
    let ws = Workspace::default();
    let (rows, width, tokens) = (154, 768, 50_265);
    let (dy, table, x) = (data(rows * tokens), weight(tokens * width), data(rows * width));
    let (mut dx, mut sums) = (heap::zeros(rows * width), heap::zeros(tokens * width));
    let dy = Mat::new(&dy, rows, tokens);
    let (a, b, c, accumulate) = match which {
        "dx" => (dy, Mat::new(&table, tokens, width), &mut dx, false),
        _ => (dy.t(), Mat::new(&x, rows, width), &mut sums, true),
    };
    bencher
        .counter(flops(2 * rows * width * tokens))
        .bench_local(|| gemm(&ws, Product { a, b, c: black_box(c), accumulate, column_sums: None }));
}

/// For both directions: the weight read twice and written twice.
#[divan::bench(args = [(384, 1536), (768, 3072)])]
fn pack_weight(bencher: Bencher, (k, n): (usize, usize)) {
    let weight = weight(k * n);
    let mut packed = PackedWeight::new(Workspace::default().isa(), &weight, k, n);
    bencher.counter(bytes(4 * weight.len())).bench_local(|| packed.repack(black_box(&weight)));
}
