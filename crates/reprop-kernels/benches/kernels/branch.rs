//! The branch of a basic block: two convolutions with their norms and ReLU, fused; and the filters' transforms.

use std::cell::RefCell;

use divan::{Bencher, black_box};
use reprop_kernels::Workspace;
use reprop_kernels::conv::{Stride, WinogradWeight};
use reprop_kernels::gemm::PackedMatrix;
use reprop_kernels::output::{Base, Output};

use crate::convolution::STAGES;
use crate::support::{blank, bytes, data, flops, weight};
use crate::units::convolution::{Block, Gradients, flops as per_conv, images};
use crate::units::random::Random;

#[divan::bench(args = STAGES)]
fn forward(bencher: Bencher, channels: usize) {
    let (ws, len) = (Workspace::default(), images(channels).len(channels));
    let (block, x, [mut y]) = (Block::new(channels, &mut Random::new(), &ws), data(len), blank([len]));
    bencher
        .counter(flops(2 * per_conv(channels)))
        .bench_local(|| block.branch().forward_saving(black_box(&x), &mut Output::Value(&mut y), &ws));
}

/// With moments that are given.
#[divan::bench(args = STAGES)]
fn forward_of_evaluation(bencher: Bencher, channels: usize) {
    let (ws, len) = (Workspace::default(), images(channels).len(channels));
    let (block, x, [mut y]) = (Block::new(channels, &mut Random::new(), &ws), data(len), blank([len]));
    let saved = block.branch().forward_saving(&x, &mut Output::Value(&mut y), &ws);
    let saved = saved.expect("floats do not overflow");
    let moments = [&saved.first, &saved.second];
    bencher
        .counter(flops(2 * per_conv(channels)))
        .bench_local(|| block.branch().forward_eval(black_box(&x), moments, &mut Output::Value(&mut y), &ws));
}

#[divan::bench(args = STAGES)]
fn vjp(bencher: Bencher, channels: usize) {
    let (ws, len) = (Workspace::default(), images(channels).len(channels));
    let (block, mut gradients) = (Block::new(channels, &mut Random::new(), &ws), Gradients::new(channels));
    let (x, dy, [mut y, mut dx]) = (data(len), data(len), blank([len; 2]));
    let saved = block.branch().forward_saving(&x, &mut Output::Value(&mut y), &ws);
    let saved = saved.expect("floats do not overflow");
    bencher.counter(flops(4 * per_conv(channels))).bench_local(|| {
        let grads = gradients.branch();
        block.branch().vjp(black_box(&x), &saved, &dy, &mut dx, Base::Nothing, grads, &ws);
    });
}

/// Filters of nine floats become 36, for both directions.
#[divan::bench(args = STAGES)]
fn filters_of_both_directions(bencher: Bencher, channels: usize) {
    let (ws, weight) = (Workspace::default(), weight(9 * channels * channels));
    let mut packed = WinogradWeight::new(&weight, channels, channels, &ws);
    bencher.counter(bytes(2 * 5 * weight.len())).bench_local(|| packed.repack(black_box(&weight), &ws));
}

/// For one use alone, in memory that is used again: a forward's, or a derivative's.
#[divan::bench(args = [(64, false), (64, true), (512, false), (512, true)])]
fn filters_of_one_direction(bencher: Bencher, (channels, transposed): (usize, bool)) {
    let (ws, weight) = (Workspace::default(), weight(9 * channels * channels));
    let blank = |_| PackedMatrix::blank(ws.isa(), channels, channels);
    let mut matrices: Vec<_> = (0..36).map(blank).collect();
    bencher.counter(bytes(5 * weight.len())).bench_local(|| {
        let given = RefCell::new(std::mem::take(&mut matrices));
        let next = |_, _| given.borrow_mut().pop().expect("36 matrices");
        let sizes = (channels, channels);
        let filters = WinogradWeight::half(Stride::One, black_box(&weight), sizes, transposed, next, &ws);
        matrices = filters.into_packed().filter(|matrix| !matrix.is_shape_only()).collect();
    });
}
