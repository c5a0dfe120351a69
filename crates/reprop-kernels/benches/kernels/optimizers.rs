//! Updates of a parameter as large as both weights of RevRoBERTa's perceptron.

use divan::{Bencher, black_box};
use reprop_kernels::optimizer::{AdamW, Sgd};
use reprop_kernels::{Workspace, heap};

use crate::support::{bytes, data, weight};

const LEN: usize = 2 * 768 * 3072;

#[divan::bench]
fn adamw_update(bencher: Bencher) {
    let (ws, mut p, g) = (Workspace::default(), weight(LEN), data(LEN));
    let (mut m, mut v) = (heap::zeros(LEN), heap::zeros(LEN));
    let adam = AdamW { learning_rate: 1e-3, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.05 };
    bencher
        .counter(bytes(7 * LEN))
        .bench_local(|| adam.update(10, &mut p, black_box(&g), &mut m, &mut v, &ws));
}

#[divan::bench]
fn sgd_update(bencher: Bencher) {
    let (ws, mut p, g, mut b) = (Workspace::default(), weight(LEN), data(LEN), heap::zeros(LEN));
    let sgd = Sgd { learning_rate: 1e-3, momentum: 0.9, weight_decay: 5e-4 };
    bencher.counter(bytes(5 * LEN)).bench_local(|| sgd.update(&mut p, black_box(&g), &mut b, &ws));
}
