//! What is between stages: both streams into one (RevSwin-T, RevMViT-B), four tokens into one (Swin), tensors cut and joined.

use divan::{Bencher, black_box};
use reprop_kernels::conv::Images;
use reprop_kernels::fuse::{Fuse, FuseGrads};
use reprop_kernels::gemm::PackedWeight;
use reprop_kernels::merge::{Merge, MergeGrads};
use reprop_kernels::{Workspace, halves};

use crate::support::{Norm, blank, bytes, data, flops, weight};

/// Tokens of 8 images, and their width, after the first stage.
const IMAGES: Images = Images { batch: 8, height: 56, width: 56 };
const ROWS: usize = 8 * 56 * 56;
const WIDTH: usize = 96;

/// Two streams to one hidden layer, and to as many outputs.
struct Weights {
    expand: PackedWeight,
    contract: PackedWeight,
    hidden: usize,
}

impl Weights {
    fn new(hidden: usize, ws: &Workspace) -> Self {
        let pack = |k, n| PackedWeight::new(ws.isa(), &weight(k * n), k, n);
        Self { expand: pack(2 * WIDTH, hidden), contract: pack(hidden, hidden), hidden }
    }

    fn kernel<'a>(&'a self, bias: &'a [f32]) -> Fuse<'a> {
        let Self { expand, contract, .. } = self;
        Fuse { expand, expand_bias: bias, contract, contract_bias: bias }
    }

    fn product(&self) -> usize {
        2 * ROWS * (2 * WIDTH * self.hidden + self.hidden * self.hidden)
    }
}

/// As wide as a stream, or twice.
#[divan::bench(args = [96, 192])]
fn fuse_forward(bencher: Bencher, hidden: usize) {
    let ws = Workspace::default();
    let (weights, bias) = (Weights::new(hidden, &ws), data(hidden));
    let (x1, x2, [mut y]) = (data(ROWS * WIDTH), data(ROWS * WIDTH), blank([ROWS * hidden]));
    bencher
        .counter(flops(weights.product()))
        .bench_local(|| weights.kernel(&bias).forward_saving(black_box(&x1), &x2, &mut y, &ws));
}

#[divan::bench(args = [96, 192])]
fn fuse_vjp(bencher: Bencher, hidden: usize) {
    let ws = Workspace::default();
    let (weights, bias, dy) = (Weights::new(hidden, &ws), data(hidden), data(ROWS * hidden));
    let (x1, x2, [mut y]) = (data(ROWS * WIDTH), data(ROWS * WIDTH), blank([ROWS * hidden]));
    let [mut dx1, mut dx2, mut expand, mut expand_bias, mut contract, mut contract_bias] =
        blank([ROWS * WIDTH, ROWS * WIDTH, 2 * WIDTH * hidden, hidden, hidden * hidden, hidden]);
    bencher
        .counter(flops(2 * weights.product()))
        .with_inputs(|| weights.kernel(&bias).forward_saving(&x1, &x2, &mut y, &ws))
        .bench_local_values(|saved| {
            let grads = FuseGrads {
                x1: &mut dx1,
                x2: &mut dx2,
                expand: &mut expand,
                expand_bias: &mut expand_bias,
                contract: &mut contract,
                contract_bias: &mut contract_bias,
            };
            weights.kernel(&bias).vjp((&x1, &x2), saved, &dy, grads, &ws);
        });
}

/// Operations of the product of four tokens by the reduction.
const MERGE: usize = 2 * ROWS / 4 * (4 * WIDTH) * (2 * WIDTH);

#[divan::bench]
fn merge_forward(bencher: Bencher) {
    let (ws, norm) = (Workspace::default(), Norm::new(4 * WIDTH));
    let reduction = PackedWeight::new(ws.isa(), &weight(8 * WIDTH * WIDTH), 4 * WIDTH, 2 * WIDTH);
    let (x, [mut y]) = (data(ROWS * WIDTH), blank([ROWS / 2 * WIDTH]));
    let merge = Merge { images: IMAGES, norm: norm.kernel(), reduction: &reduction };
    bencher.counter(flops(MERGE)).bench_local(|| merge.forward_saving(black_box(&x), &mut y, &ws));
}

#[divan::bench]
fn merge_vjp(bencher: Bencher) {
    let (ws, norm, mut d_norm) = (Workspace::default(), Norm::new(4 * WIDTH), Norm::new(4 * WIDTH));
    let reduction = PackedWeight::new(ws.isa(), &weight(8 * WIDTH * WIDTH), 4 * WIDTH, 2 * WIDTH);
    let (x, dy) = (data(ROWS * WIDTH), data(ROWS / 2 * WIDTH));
    let [mut y, mut dx, mut dw] = blank([dy.len(), x.len(), 8 * WIDTH * WIDTH]);
    let merge = Merge { images: IMAGES, norm: norm.kernel(), reduction: &reduction };
    let stats = merge.forward_saving(&x, &mut y, &ws);
    bencher.counter(flops(2 * MERGE)).bench_local(|| {
        let grads = MergeGrads { norm: d_norm.grads(), reduction: &mut dw };
        merge.vjp(black_box(&x), &stats, &dy, &mut dx, grads, &ws);
    });
}

/// The stem of RevResNet-18 at batch 32: two streams of 32 channels.
#[divan::bench]
fn halves_split(bencher: Bencher) {
    let len = 32 * 1024 * 64;
    let (x, [mut a, mut b]) = (data(len), blank([len / 2; 2]));
    bencher.counter(bytes(2 * len)).bench_local(|| halves::split(black_box(&x), 32, &mut a, &mut b));
}

#[divan::bench]
fn halves_join(bencher: Bencher) {
    let len = 32 * 1024 * 64;
    let (a, b, [mut x]) = (data(len / 2), data(len / 2), blank([len]));
    bencher.counter(bytes(2 * len)).bench_local(|| halves::join(black_box(&a), &b, 32, &mut x));
}
