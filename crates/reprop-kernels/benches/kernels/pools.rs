//! Pools of images: ResNet's on 112x112 pixels, and the mean before a classifier.

use divan::{Bencher, black_box};
use reprop_kernels::Isa;
use reprop_kernels::conv::{Images, Slide, pool};

use crate::support::{blank, bytes, data};

const IMAGES: Images = Images { batch: 8, height: 112, width: 112 };
const CHANNELS: usize = 64;
/// Squares that overlap, and such as do not.
const THREE: Slide = Slide { kernel: 3, stride: 2, padding: 1 };
const TWO: Slide = Slide { kernel: 2, stride: 2, padding: 0 };

#[divan::bench]
fn max_forward(bencher: Bencher) {
    let (isa, x) = (Isa::detect(), data(IMAGES.len(CHANNELS)));
    let [mut y] = blank([THREE.output(IMAGES).len(CHANNELS)]);
    bencher
        .counter(bytes(x.len() + y.len()))
        .bench_local(|| pool::max_forward(isa, IMAGES, THREE, CHANNELS, black_box(&x), &mut y));
}

#[divan::bench]
fn max_vjp(bencher: Bencher) {
    let (isa, x) = (Isa::detect(), data(IMAGES.len(CHANNELS)));
    let (dy, [mut dx]) = (data(THREE.output(IMAGES).len(CHANNELS)), blank([x.len()]));
    bencher
        .counter(bytes(2 * x.len() + dy.len()))
        .bench_local(|| pool::max_vjp(isa, IMAGES, THREE, CHANNELS, black_box(&x), &dy, &mut dx));
}

#[divan::bench]
fn average_forward(bencher: Bencher) {
    let x = data(IMAGES.len(CHANNELS));
    let [mut y] = blank([TWO.output(IMAGES).len(CHANNELS)]);
    bencher
        .counter(bytes(x.len() + y.len()))
        .bench_local(|| pool::average_forward(IMAGES, TWO, CHANNELS, black_box(&x), &mut y));
}

#[divan::bench]
fn average_vjp(bencher: Bencher) {
    let dy = data(TWO.output(IMAGES).len(CHANNELS));
    let [mut dx] = blank([IMAGES.len(CHANNELS)]);
    bencher
        .counter(bytes(dy.len() + dx.len()))
        .bench_local(|| pool::average_vjp(IMAGES, TWO, CHANNELS, black_box(&dy), &mut dx));
}

/// Tokens of Swin-T's last stage, and pixels of ResNet-18's at batch 32.
const LAST: [(usize, usize, usize); 2] = [(8, 7, 768), (32, 4, 512)];

fn last((batch, side, channels): (usize, usize, usize)) -> (Images, usize) {
    (Images { batch, height: side, width: side }, channels)
}

#[divan::bench(args = LAST)]
fn mean_forward(bencher: Bencher, sizes: (usize, usize, usize)) {
    let (images, channels) = last(sizes);
    let (x, [mut y]) = (data(images.len(channels)), blank([images.batch * channels]));
    bencher
        .counter(bytes(x.len() + y.len()))
        .bench_local(|| pool::global_forward(images, channels, black_box(&x), &mut y));
}

#[divan::bench(args = LAST)]
fn mean_vjp(bencher: Bencher, sizes: (usize, usize, usize)) {
    let (images, channels) = last(sizes);
    let (dy, [mut dx]) = (data(images.batch * channels), blank([images.len(channels)]));
    bencher
        .counter(bytes(dy.len() + dx.len()))
        .bench_local(|| pool::global_vjp(images, channels, black_box(&dy), &mut dx));
}
