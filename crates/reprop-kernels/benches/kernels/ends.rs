//! The ends of networks: tokens, patches and losses.

use divan::{Bencher, black_box};
use reprop_kernels::conv::{Images, Slide};
use reprop_kernels::cross_entropy::cross_entropy;
use reprop_kernels::{Workspace, embedding, heap, patches};

use crate::support::{blank, bytes, data};

/// RevRoBERTa-base: tokens of a table, and width.
const TOKENS: usize = 50_265;
const WIDTH: usize = 768;

/// 8 sequences of 128, all over the table.
fn tokens() -> Vec<u32> {
    (0..8 * 128).map(|i| i * 7919 % TOKENS as u32).collect()
}

#[divan::bench]
fn embedding_forward(bencher: Bencher) {
    let (table, tokens) = (data(TOKENS * WIDTH), tokens());
    let [mut y] = blank([tokens.len() * WIDTH]);
    bencher
        .counter(bytes(2 * y.len()))
        .bench_local(|| embedding::forward(black_box(&table), WIDTH, &tokens, &mut y));
}

#[divan::bench]
fn embedding_vjp(bencher: Bencher) {
    let (mut table, tokens) = (heap::zeros(TOKENS * WIDTH), tokens());
    let dy = data(tokens.len() * WIDTH);
    bencher
        .counter(bytes(3 * dy.len()))
        .bench_local(|| embedding::vjp(WIDTH, &tokens, black_box(&dy), &mut table));
}

/// Side of a square and its distance from the next: ViT-S, Swin-T, and RevMViT-B, whose squares overlap.
#[divan::bench(args = [(16, 16), (4, 4), (7, 4)])]
fn patches_cut(bencher: Bencher, (kernel, stride): (usize, usize)) {
    let images = Images { batch: 8, height: 224, width: 224 };
    let slide = Slide { kernel, stride, padding: (kernel - stride).div_ceil(2) };
    let x = data(images.len(3));
    let [mut y] = blank([slide.output(images).len(3 * kernel * kernel)]);
    bencher
        .counter(bytes(x.len() + y.len()))
        .bench_local(|| patches::cut(images, slide, 3, black_box(&x), &mut y));
}

/// Rows and classes: ImageNet, and the masked tokens of RevRoBERTa.
#[divan::bench(args = [(256, 1000), (154, TOKENS)])]
fn loss_and_gradient(bencher: Bencher, (rows, classes): (usize, usize)) {
    let ws = Workspace::default();
    let (logits, [mut d]) = (data(rows * classes), blank([rows * classes]));
    let labels: Vec<u32> = (0..rows as u32).collect();
    bencher
        .counter(bytes(2 * logits.len()))
        .bench_local(|| cross_entropy(black_box(&logits), &labels, classes, 0.1, &mut d, &ws));
}
