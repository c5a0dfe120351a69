//! What stands between stages, against its definition in `f64`: both streams into one, and four tokens into one.

mod common;

use common::{Rng, assert_close, assert_thread_invariant, dot, f64s, gradients, workspaces};
use proptest::prelude::*;
use reprop_kernels::Workspace;
use reprop_kernels::conv::Images;
use reprop_kernels::fuse::{Fuse, FuseGrads};
use reprop_kernels::gemm::PackedWeight;
use reprop_kernels::layer_norm::{LayerNorm, NormGrads};
use reprop_kernels::merge::{Merge, MergeGrads};

const EPS: f32 = 1e-2;
const TOLERANCE: f64 = 1e-4;

/// Both streams, `W`, `b`, `V`, `c`, and the output's gradient.
struct FuseCase {
    width: usize,
    hidden: usize,
    outputs: usize,
    t: [Vec<f32>; 6],
    dy: Vec<f32>,
}

impl FuseCase {
    fn new(rows: usize, width: usize, hidden: usize, outputs: usize, seed: u64) -> Self {
        let mut rng = Rng(seed);
        let sizes = [rows * width, rows * width, 2 * width * hidden, hidden, hidden * outputs, outputs];
        Self { width, hidden, outputs, t: sizes.map(|len| rng.vec(len)), dy: rng.vec(rows * outputs) }
    }

    fn reference(&self, t: &[Vec<f64>]) -> Vec<f64> {
        let both: Vec<f64> = t[0]
            .chunks(self.width)
            .zip(t[1].chunks(self.width))
            .flat_map(|(x1, x2)| [x1, x2].concat())
            .collect();
        let h: Vec<f64> = common::linear(&both, &t[2], &t[3]).into_iter().map(common::gelu).collect();
        common::linear(&h, &t[4], &t[5])
    }

    fn run(&self, ws: &Workspace) -> Vec<Vec<f32>> {
        let Self { width, hidden, outputs, t, dy } = self;
        let expand = PackedWeight::new(ws.isa(), &t[2], 2 * width, *hidden);
        let contract = PackedWeight::new(ws.isa(), &t[4], *hidden, *outputs);
        let fuse = Fuse { expand: &expand, expand_bias: &t[3], contract: &contract, contract_bias: &t[5] };
        let mut y = vec![0.0; dy.len()];
        let saved = fuse.forward_saving(&t[0], &t[1], &mut y, ws);
        let mut d = t.clone();
        let [x1, x2, expand, expand_bias, contract, contract_bias] = d.each_mut().map(Vec::as_mut_slice);
        let grads = FuseGrads { x1, x2, expand, expand_bias, contract, contract_bias };
        fuse.vjp((&t[0], &t[1]), saved, dy, grads, ws);
        let mut all = vec![y];
        all.extend(d);
        all
    }
}

/// Tokens, scale, bias, weight, and the output's gradient.
struct MergeCase {
    images: Images,
    outputs: usize,
    t: [Vec<f32>; 4],
    dy: Vec<f32>,
}

impl MergeCase {
    fn new(images: Images, width: usize, outputs: usize, seed: u64) -> Self {
        let mut rng = Rng(seed);
        let sizes = [images.len(width), 4 * width, 4 * width, 4 * width * outputs];
        Self { images, outputs, t: sizes.map(|len| rng.vec(len)), dy: rng.vec(images.len(outputs) / 4) }
    }

    fn reference(&self, t: &[Vec<f64>]) -> Vec<f64> {
        let Images { batch, height, width: across } = self.images;
        let width = t[1].len() / 4;
        let mut squares = Vec::new();
        for (n, i, j) in (0..batch)
            .flat_map(|n| (0..height / 2).flat_map(move |i| (0..across / 2).map(move |j| (n, i, j))))
        {
            for (down, right) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
                let token = (n * height + 2 * i + down) * across + 2 * j + right;
                squares.extend_from_slice(&t[0][token * width..(token + 1) * width]);
            }
        }
        let n = common::layer_norm(&squares, &t[1], &t[2], f64::from(EPS));
        common::linear(&n, &t[3], &vec![0.0; self.outputs])
    }

    fn run(&self, ws: &Workspace) -> Vec<Vec<f32>> {
        let Self { images, outputs, t, dy } = self;
        let reduction = PackedWeight::new(ws.isa(), &t[3], t[1].len(), *outputs);
        let norm = LayerNorm { scale: &t[1], bias: &t[2], eps: EPS };
        let merge = Merge { images: *images, norm, reduction: &reduction };
        let mut y = vec![0.0; dy.len()];
        let stats = merge.forward_saving(&t[0], &mut y, ws);
        let mut d = t.clone();
        let [dx, scale, bias, reduction] = d.each_mut().map(Vec::as_mut_slice);
        let grads = MergeGrads { norm: NormGrads { scale, bias }, reduction };
        merge.vjp(&t[0], &stats, dy, dx, grads, ws);
        let mut all = vec![y];
        all.extend(d);
        all
    }
}

/// The value, and the gradient of its product with `dy` by each tensor.
fn wanted(t: &[Vec<f32>], dy: &[f32], f: impl Fn(&[Vec<f64>]) -> Vec<f64>) -> Vec<Vec<f64>> {
    let (t, dy): (Vec<Vec<f64>>, _) = (t.iter().map(|t| f64s(t)).collect(), f64s(dy));
    let mut all = vec![f(&t)];
    all.extend(gradients(&t, |t| dot(&f(t), &dy)));
    all
}

fn assert_all(got: &[Vec<f32>], want: &[Vec<f64>]) {
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        assert_close(&format!("result {i}"), got, want, TOLERANCE);
    }
}

proptest! {
    #![proptest_config(common::cases(10))]

    #[test]
    fn fused_streams_and_their_gradients_equal_f64(
        rows in 0usize..9, width in 1usize..5, hidden in 1usize..6, outputs in 1usize..6, seed: u64,
    ) {
        let case = FuseCase::new(rows, width, hidden, outputs, seed);
        let want = wanted(&case.t, &case.dy, |t| case.reference(t));
        for ws in workspaces() {
            assert_all(&case.run(&ws), &want);
        }
    }

    #[test]
    fn merged_tokens_and_their_gradients_equal_f64(
        batch in 0usize..3, down in 1usize..3, across in 1usize..3, width in 1usize..4, outputs in 1usize..5, seed: u64,
    ) {
        let case = MergeCase::new(Images { batch, height: 2 * down, width: 2 * across }, width, outputs, seed);
        let want = wanted(&case.t, &case.dy, |t| case.reference(t));
        for ws in workspaces() {
            assert_all(&case.run(&ws), &want);
        }
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let fuse = FuseCase::new(203, 19, 21, 17, 3);
    assert_thread_invariant("fused streams", |ws| fuse.run(ws));
    let merge = MergeCase::new(Images { batch: 3, height: 14, width: 10 }, 13, 26, 4);
    assert_thread_invariant("merged tokens", |ws| merge.run(ws));
}
