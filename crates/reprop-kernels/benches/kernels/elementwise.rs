//! Activations, streams on their grid, and numbers of 16 bits.

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use rayon::prelude::*;
use reprop_kernels::grid::{Direction, Grid};
use reprop_kernels::sixteen::{Format, narrow, widen};
use reprop_kernels::{Isa, Workspace, gelu, heap, relu};

use crate::support::{ROWS, blank, bytes, data};

/// The hidden layer of ViT-S.
const HIDDEN: usize = ROWS * 4 * 384;
/// Activations run on the thread that calls them: here, as where they are called from, each task has its part.
const PART: usize = 1 << 14;

#[derive(Clone, Copy, Debug)]
enum Activation {
    Gelu,
    Relu,
}

use Activation::{Gelu, Relu};

#[divan::bench(args = [Gelu, Relu])]
fn activation_forward(bencher: Bencher, activation: Activation) {
    let (isa, x, [mut y]) = (Isa::detect(), data(HIDDEN), blank([HIDDEN]));
    let forward = match activation {
        Gelu => gelu::forward,
        Relu => relu::forward,
    };
    bencher.counter(bytes(2 * HIDDEN)).bench_local(|| {
        let parts = y.par_chunks_mut(PART).zip(black_box(&x).par_chunks(PART));
        parts.for_each(|(y, x)| forward(isa, x, y));
    });
}

#[divan::bench(args = [Gelu, Relu])]
fn activation_vjp(bencher: Bencher, activation: Activation) {
    let (isa, x, dy, [mut dx]) = (Isa::detect(), data(HIDDEN), data(HIDDEN), blank([HIDDEN]));
    let vjp = match activation {
        Gelu => gelu::vjp,
        Relu => relu::vjp,
    };
    bencher.counter(bytes(3 * HIDDEN)).bench_local(|| {
        let parts = dx.par_chunks_mut(PART).zip(black_box(&x).par_chunks(PART)).zip(dy.par_chunks(PART));
        parts.for_each(|((dx, x), dy)| vjp(isa, x, dy, dx));
    });
}

const STREAM: usize = ROWS * 384;
const GRID: Grid = Grid { bits: 12 };

/// By turns, so that the stream stays in range.
#[divan::bench]
fn grid_add_and_subtract(bencher: Bencher) {
    let (ws, mut stream, f) = (Workspace::default(), heap::zeros(STREAM), data(STREAM));
    let mut direction = Direction::Add;
    bencher.counter(bytes(3 * STREAM)).bench_local(|| {
        let result = GRID.apply(black_box(&mut stream), &f, direction, &ws);
        result.expect("adding and subtracting stays in range");
        direction = if direction == Direction::Add { Direction::Subtract } else { Direction::Add };
    });
}

#[divan::bench]
fn grid_snap(bencher: Bencher) {
    let (ws, mut stream) = (Workspace::default(), data(STREAM));
    bencher
        .counter(bytes(2 * STREAM))
        .bench_local(|| GRID.snap(black_box(&mut stream), &ws).expect("what was drawn is in range"));
}

#[divan::bench]
fn grid_range(bencher: Bencher) {
    let (ws, stream) = (Workspace::default(), data(STREAM));
    bencher.counter(bytes(STREAM)).bench_local(|| GRID.holds(black_box(&stream), &ws));
}

#[divan::bench(args = [Format::Bf16, Format::F16])]
fn sixteen_narrow(bencher: Bencher, format: Format) {
    let (ws, from, mut to) = (Workspace::default(), data(1 << 24), heap::blank_sixteens(1 << 24));
    let counter = BytesCount::new(6_usize << 24);
    bencher.counter(counter).bench_local(|| narrow(format, black_box(&from), &mut to, &ws));
}

#[divan::bench(args = [Format::Bf16, Format::F16])]
fn sixteen_widen(bencher: Bencher, format: Format) {
    let (ws, from, [mut to]) = (Workspace::default(), vec![0x3c00; 1 << 24], blank([1 << 24]));
    let counter = BytesCount::new(6_usize << 24);
    bencher.counter(counter).bench_local(|| widen(format, black_box(&from), &mut to, &ws));
}
