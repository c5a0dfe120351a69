//! Time, bytes and operations a second of each kernel beside the machine's limits: `cargo bench -p reprop-kernels`.
//!
//! "item/s" are floating-point operations a second (a multiply-add counts two; a Winograd convolution counts what a direct one
//! would take); "B/s" are bytes read and written. The first two lines are the limits: multiply-adds in registers, and a copy.

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use reprop_kernels::attention::{CrossAttention, Keep, Masks};
use reprop_kernels::batch_norm::BatchNorm;
use reprop_kernels::conv::{Conv2d, Conv3x3, Depthwise, Images, Slide, Stride, Strided3x3, WinogradWeight};
use reprop_kernels::cross_entropy::cross_entropy;
use reprop_kernels::gemm::{Mat, PackedWeight, Product, gemm};
use reprop_kernels::grid::{Direction, Grid};
use reprop_kernels::layer_norm::LayerNorm;
use reprop_kernels::optimizer::AdamW;
use reprop_kernels::recurrent::LstmCell;
use reprop_kernels::sixteen::{Format, narrow, widen};
use reprop_kernels::{Workspace, gelu, linear, probe};

#[path = "../examples/units/mod.rs"]
mod units;

use units::{convolution, transformer};

fn main() {
    divan::main();
}

/// Rows of a batch of 8 ViT-S samples.
const ROWS: usize = 8 * 197;

fn data(len: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 7919) % 1024) as f32 / 512.0 - 1.0).collect()
}

fn bytes(floats: usize) -> BytesCount {
    BytesCount::new(4 * floats)
}

fn flops(count: usize) -> ItemsCount {
    ItemsCount::new(count)
}

#[divan::bench]
fn a_limit_multiply_adds(bencher: Bencher) {
    let isa = Workspace::default().isa();
    let count = probe::operations(isa, 16, 100_000);
    bencher.counter(ItemsCount::new(count)).bench(|| probe::multiply_adds(isa, 16, 100_000));
}

#[divan::bench]
fn a_limit_copy(bencher: Bencher) {
    let (from, mut to) = (data(1 << 24), data(1 << 24));
    bencher.counter(bytes(2 << 24)).bench_local(|| probe::copy(black_box(&from), black_box(&mut to)));
}

#[divan::bench(args = [Format::Bf16, Format::F16])]
fn sixteen_narrow(bencher: Bencher, format: Format) {
    let (ws, from, mut to) = (Workspace::default(), data(1 << 24), vec![0; 1 << 24]);
    let counter = BytesCount::new(6_usize << 24);
    bencher.counter(counter).bench_local(|| narrow(format, black_box(&from), black_box(&mut to), &ws));
}

#[divan::bench(args = [Format::Bf16, Format::F16])]
fn sixteen_widen(bencher: Bencher, format: Format) {
    let (ws, from, mut to) = (Workspace::default(), vec![0x3c00; 1 << 24], data(1 << 24));
    let counter = BytesCount::new(6_usize << 24);
    bencher.counter(counter).bench_local(|| widen(format, black_box(&from), black_box(&mut to), &ws));
}

#[divan::bench(args = [(384, 1152), (384, 384), (384, 1536), (1536, 384), (1024, 4096)])]
fn linear_forward(bencher: Bencher, (k, n): (usize, usize)) {
    let ws = Workspace::default();
    let w = PackedWeight::new(ws.isa(), &data(k * n), k, n);
    let (x, mut y) = (data(ROWS * k), data(ROWS * n));
    bencher
        .counter(flops(2 * ROWS * k * n))
        .bench_local(|| linear::forward(&ws, &w.forward, None, black_box(&x), &mut y, ROWS));
}

#[divan::bench(args = [(384, 1152), (384, 384), (384, 1536), (1536, 384), (768, 3072)])]
fn linear_weight_gradient(bencher: Bencher, (k, n): (usize, usize)) {
    let ws = Workspace::default();
    let (x, dy, mut dw) = (data(ROWS * k), data(ROWS * n), data(k * n));
    bencher.counter(flops(2 * ROWS * k * n)).bench_local(|| {
        let (a, b) = (Mat::new(&x, ROWS, k).t(), Mat::new(&dy, ROWS, n));
        gemm(&ws, Product { a, b, c: black_box(&mut dw), accumulate: false, column_sums: None });
    });
}

#[divan::bench]
fn pack_weight(bencher: Bencher) {
    let weight = data(384 * 1536);
    let mut packed = PackedWeight::new(Workspace::default().isa(), &weight, 384, 1536);
    bencher.counter(bytes(4 * weight.len())).bench_local(|| packed.repack(black_box(&weight)));
}

#[divan::bench]
fn layer_norm_forward(bencher: Bencher) {
    let ws = Workspace::default();
    let (x, mut y, mut stats) = (data(ROWS * 384), data(ROWS * 384), data(2 * ROWS));
    let (scale, bias) = (data(384), data(384));
    let norm = LayerNorm { scale: &scale, bias: &bias, eps: 1e-6 };
    bencher.counter(bytes(2 * x.len())).bench_local(|| norm.forward(black_box(&x), &mut y, &mut stats, &ws));
}

#[divan::bench]
fn gelu_forward(bencher: Bencher) {
    let ws = Workspace::default();
    let (x, mut y) = (data(1 << 20), data(1 << 20));
    bencher.counter(bytes(2 << 20)).bench_local(|| gelu::forward(ws.isa(), black_box(&x), &mut y));
}

#[divan::bench(args = [197, 512])]
fn attention_heads(bencher: Bencher, tokens: usize) {
    let ws = Workspace::default();
    let (batch, heads, head_width) = (8, 6, 64);
    let attention =
        CrossAttention { batch, queries: tokens, keys: tokens, heads, head_width, masks: Masks::default() };
    let len = batch * tokens * heads * head_width;
    let (q, k, v, mut o) = (data(len), data(len), data(len), data(len));
    bencher
        .counter(flops(4 * len * tokens))
        .bench_local(|| attention.forward(black_box(&q), &k, &v, &mut o, Keep::Probabilities, &ws));
}

#[divan::bench(args = [64, 128, 256])]
fn conv_3x3(bencher: Bencher, channels: usize) {
    let ws = Workspace::default();
    let images = Images { batch: 32, height: 2048 / channels, width: 2048 / channels };
    let weight = WinogradWeight::new(&data(9 * channels * channels), channels, channels, &ws);
    let conv = Conv3x3 { images, weight: &weight };
    let (x, mut y) = (data(images.len(channels)), data(images.len(channels)));
    bencher
        .counter(flops(18 * images.len(channels) * channels))
        .bench_local(|| conv.forward(black_box(&x), &mut y, &ws));
}

#[divan::bench(args = [64, 128, 256])]
fn conv_3x3_strided(bencher: Bencher, channels: usize) {
    let ws = Workspace::default();
    let images = Images { batch: 32, height: 2048 / channels, width: 2048 / channels };
    let (inputs, outputs) = (channels, 2 * channels);
    let weight = data(9 * inputs * outputs);
    let weight = WinogradWeight::with_stride(Stride::Two, &weight, (inputs, outputs), &ws);
    let conv = Strided3x3 { images, weight: &weight };
    let (x, mut y) = (data(images.len(inputs)), data(conv.output().len(outputs)));
    bencher.counter(flops(18 * y.len() * inputs)).bench_local(|| conv.forward(black_box(&x), &mut y, &ws));
}

#[divan::bench(args = [(1, 1, 0), (3, 2, 1), (7, 2, 3)])]
fn conv_direct(bencher: Bencher, (kernel, stride, padding): (usize, usize, usize)) {
    let ws = Workspace::default();
    let (images, slide) = (Images { batch: 8, height: 56, width: 56 }, Slide { kernel, stride, padding });
    let (inputs, outputs) = (32, 64);
    let taps = kernel * kernel * inputs;
    let weight = PackedWeight::new(ws.isa(), &data(taps * outputs), taps, outputs);
    let conv = Conv2d { images, slide, inputs, weight: &weight };
    let (x, mut y) = (data(images.len(inputs)), data(slide.output(images).len(outputs)));
    let count = 2 * slide.output(images).len(outputs) * taps;
    bencher.counter(flops(count)).bench_local(|| conv.forward(black_box(&x), &mut y, &ws));
}

#[divan::bench]
fn conv_depthwise(bencher: Bencher) {
    let ws = Workspace::default();
    let (images, slide) =
        (Images { batch: 8, height: 56, width: 56 }, Slide { kernel: 3, stride: 1, padding: 1 });
    let weight = data(9 * 96);
    let conv = Depthwise { images, slide, channels: 96, pitch: 96, weight: &weight };
    let (x, mut y) = (data(images.len(96)), data(images.len(96)));
    bencher.counter(flops(18 * y.len())).bench_local(|| conv.forward(black_box(&x), &mut y, &ws));
}

#[divan::bench]
fn batch_norm_forward(bencher: Bencher) {
    let ws = Workspace::default();
    let (x, mut y) = (data(32 * 1024 * 64), data(32 * 1024 * 64));
    let (scale, bias) = (data(64), data(64));
    let norm = BatchNorm { scale: &scale, bias: &bias, eps: 1e-5 };
    bencher.counter(bytes(2 * x.len())).bench_local(|| norm.forward(black_box(&x), &mut y, &ws));
}

#[divan::bench]
fn stream_on_grid(bencher: Bencher) {
    let ws = Workspace::default();
    let (mut stream, f) = (vec![0.0; ROWS * 384], data(ROWS * 384));
    let grid = Grid { bits: 12 };
    let mut direction = Direction::Add;
    bencher.counter(bytes(3 * f.len())).bench_local(|| {
        grid.apply(black_box(&mut stream), &f, direction, &ws)
            .expect("adding and subtracting stays in range");
        direction = if direction == Direction::Add { Direction::Subtract } else { Direction::Add };
    });
}

#[divan::bench]
fn loss(bencher: Bencher) {
    let ws = Workspace::default();
    let (logits, mut d) = (data(256 * 1000), data(256 * 1000));
    let labels: Vec<u32> = (0..256).collect();
    bencher
        .counter(bytes(2 * logits.len()))
        .bench_local(|| cross_entropy(black_box(&logits), &labels, 1000, 0.1, &mut d, &ws));
}

#[divan::bench]
fn lstm_step(bencher: Bencher) {
    let ws = Workspace::default();
    let (rows, n) = (64, 256);
    let (input, hidden) = (
        PackedWeight::new(ws.isa(), &data(n * 4 * n), n, 4 * n),
        PackedWeight::new(ws.isa(), &data(n * 4 * n), n, 4 * n),
    );
    let bias = data(4 * n);
    let cell = LstmCell { input: &input, hidden: &hidden, bias: &bias };
    let (x, h, c) = (data(rows * n), data(rows * n), data(rows * n));
    let (mut next_h, mut next_c) = (data(rows * n), data(rows * n));
    bencher
        .counter(flops(2 * 2 * rows * n * 4 * n))
        .bench_local(|| cell.forward(black_box(&x), (&h, &c), (&mut next_h, &mut next_c), &ws));
}

#[divan::bench]
fn adamw_update(bencher: Bencher) {
    let ws = Workspace::default();
    let len = 1 << 21;
    let (mut p, g, mut m, mut v) = (data(len), data(len), vec![0.0; len], vec![0.0; len]);
    let adam = AdamW { learning_rate: 1e-3, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.05 };
    bencher
        .counter(bytes(7 * len))
        .bench_local(|| adam.update(10, &mut p, black_box(&g), &mut m, &mut v, &ws));
}

#[divan::bench(args = [8, 2, 1], sample_count = 10)]
fn unit_a(bencher: Bencher, batch: usize) {
    let ws = Workspace::default();
    let mut unit = transformer::Unit::new(batch, &ws);
    bencher.counter(flops(unit.flops() as usize)).bench_local(|| unit.step(&ws));
}

#[divan::bench(args = [64, 128, 256], sample_count = 10)]
fn unit_b(bencher: Bencher, channels: usize) {
    let ws = Workspace::default();
    let mut unit = convolution::Unit::new(channels, &ws);
    bencher.counter(flops(unit.flops() as usize)).bench_local(|| unit.step(&ws));
}
