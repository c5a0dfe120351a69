//! Layer norm on rows of ViT-S, and batch norm on the first stage of ResNet-18.

use divan::{Bencher, black_box};
use reprop_kernels::Workspace;
use reprop_kernels::batch_norm::{Above, BatchNorm, BatchNormGrads, Moments};
use reprop_kernels::output::Base;

use crate::support::{Norm, ROWS, blank, bytes, data};

const WIDTH: usize = 384;

#[divan::bench]
fn layer_norm_forward(bencher: Bencher) {
    let (ws, norm, x) = (Workspace::default(), Norm::new(WIDTH), data(ROWS * WIDTH));
    let [mut y, mut stats] = blank([x.len(), 2 * ROWS]);
    bencher
        .counter(bytes(2 * x.len()))
        .bench_local(|| norm.kernel().forward(black_box(&x), &mut y, &mut stats, &ws));
}

/// From its statistics.
#[divan::bench]
fn layer_norm_again(bencher: Bencher) {
    let (ws, norm, x) = (Workspace::default(), Norm::new(WIDTH), data(ROWS * WIDTH));
    let [mut y, mut stats] = blank([x.len(), 2 * ROWS]);
    norm.kernel().forward(&x, &mut y, &mut stats, &ws);
    bencher
        .counter(bytes(2 * x.len()))
        .bench_local(|| norm.kernel().again(black_box(&x), &stats, &mut y, &ws));
}

#[divan::bench]
fn layer_norm_vjp(bencher: Bencher) {
    let (ws, norm, mut d_norm) = (Workspace::default(), Norm::new(WIDTH), Norm::new(WIDTH));
    let (x, dy) = (data(ROWS * WIDTH), data(ROWS * WIDTH));
    let [mut y, mut dx, mut stats] = blank([x.len(), x.len(), 2 * ROWS]);
    norm.kernel().forward(&x, &mut y, &mut stats, &ws);
    bencher.counter(bytes(3 * x.len())).bench_local(|| {
        norm.kernel().vjp(black_box(&x), &stats, &dy, &mut dx, Base::Nothing, d_norm.grads(), &ws);
    });
}

const CHANNELS: usize = 64;
const LEN: usize = 32 * 1024 * CHANNELS;
/// `γ` and `β`.
const PARAMETERS: ([f32; CHANNELS], [f32; CHANNELS]) = ([1.0; CHANNELS], [0.0; CHANNELS]);
const NORM: BatchNorm = BatchNorm { scale: &PARAMETERS.0, bias: &PARAMETERS.1, eps: 1e-5 };

#[divan::bench]
fn batch_norm_moments(bencher: Bencher) {
    let (ws, x) = (Workspace::default(), data(LEN));
    bencher.counter(bytes(LEN)).bench_local(|| Moments::of(black_box(&x), CHANNELS, &ws));
}

/// Moments need all rows before the first is written, which reads them again.
#[divan::bench]
fn batch_norm_forward(bencher: Bencher) {
    let (ws, x, [mut y]) = (Workspace::default(), data(LEN), blank([LEN]));
    bencher.counter(bytes(3 * LEN)).bench_local(|| NORM.forward(black_box(&x), &mut y, &ws));
}

/// With a skip connection and ReLU.
#[divan::bench]
fn batch_norm_apply(bencher: Bencher) {
    let (ws, x, skip, [mut y]) = (Workspace::default(), data(LEN), data(LEN), blank([LEN]));
    let moments = Moments::of(&x, CHANNELS, &ws);
    bencher
        .counter(bytes(3 * LEN))
        .bench_local(|| NORM.apply(black_box(&x), &moments, Some(&skip), true, &mut y, &ws));
}

#[divan::bench]
fn batch_norm_apply_to_halves(bencher: Bencher) {
    let (ws, x, [mut a, mut b]) = (Workspace::default(), data(LEN), blank([LEN / 2; 2]));
    let moments = Moments::of(&x, CHANNELS, &ws);
    bencher
        .counter(bytes(2 * LEN))
        .bench_local(|| NORM.apply_to_halves(black_box(&x), &moments, true, [&mut a, &mut b], None, &ws));
}

/// Sums need all rows of `x` and `dy` before `dx` does.
#[divan::bench(args = [false, true])]
fn batch_norm_vjp_behind_relu(bencher: Bencher, relu: bool) {
    let (ws, x, dy, [mut dx]) = (Workspace::default(), data(LEN), data(LEN), blank([LEN]));
    let (moments, [mut scale, mut bias]) = (Moments::of(&x, CHANNELS, &ws), blank([CHANNELS; 2]));
    let above = Above { relu, ..Above::output(&dy) };
    bencher.counter(bytes(5 * LEN)).bench_local(|| {
        let grads = BatchNormGrads { scale: &mut scale, bias: &mut bias };
        NORM.vjp(black_box(&x), &moments, above, &mut dx, grads, &ws);
    });
}

/// What a convolution's derivative reads `dx` through: the masked gradient and the sums.
#[divan::bench]
fn batch_norm_behind(bencher: Bencher) {
    let (ws, x, dy) = (Workspace::default(), data(LEN), data(LEN));
    let (moments, [mut scale, mut bias]) = (Moments::of(&x, CHANNELS, &ws), blank([CHANNELS; 2]));
    let above = Above { relu: true, ..Above::output(&dy) };
    bencher.counter(bytes(3 * LEN)).bench_local(|| {
        let grads = BatchNormGrads { scale: &mut scale, bias: &mut bias };
        NORM.behind(black_box(&x), &moments, above, grads, &ws)
    });
}
