//! Pooled attention against its definition in `f64`.

mod common;

use common::{
    Rng, Way, assert_close, assert_thread_invariant, by_any_way, dot, f64s, gradient, gradients, workspaces,
};
use proptest::prelude::*;
use reprop_kernels::Workspace;
use reprop_kernels::attention::{Pool, PoolGrads, PooledAttention, PooledGrads};
use reprop_kernels::conv::Images;
use reprop_kernels::gemm::PackedWeight;
use reprop_kernels::layer_norm::{LayerNorm, NormGrads};
use reprop_kernels::output::{Base, Output};

const EPS: f32 = 1e-1;
const TOLERANCE: f64 = 1e-4;

struct Case {
    images: Images,
    heads: usize,
    head: usize,
    /// Of queries, if they are pooled, and of keys and values.
    strides: (Option<usize>, usize),
    x: Vec<f32>,
    dy: Vec<f32>,
    /// scale, bias, qkv, qkv bias, out, out bias; then weight, scale and bias of the pools of q, k and v
    p: Vec<Vec<f32>>,
}

fn pooled(n: usize, stride: usize) -> usize {
    n.div_ceil(stride)
}

impl Case {
    fn new(images: Images, heads: usize, head: usize, strides: (Option<usize>, usize), seed: u64) -> Self {
        let mut rng = Rng(seed);
        let width = heads * head;
        let mut sizes = vec![width, width, 3 * width * width, 3 * width, width * width, width];
        sizes.extend([9 * head, head, head].repeat(3));
        let p = sizes.into_iter().map(|len| rng.vec(len)).collect();
        let by = strides.0.unwrap_or(1);
        let queries = images.batch * pooled(images.height, by) * pooled(images.width, by);
        let x = rng.vec(images.len(width));
        Self { images, heads, head, strides, x, dy: rng.vec(queries * width), p }
    }

    /// One pool of rows of tokens, from the definition.
    fn pool(&self, x: &[f64], stride: usize, p: &[Vec<f64>]) -> Vec<f64> {
        let Images { batch, height, width: across } = self.images;
        let (head, width) = (self.head, self.heads * self.head);
        let mut z = Vec::new();
        for (n, i, j) in (0..batch).flat_map(|n| {
            let columns = pooled(across, stride);
            (0..pooled(height, stride)).flat_map(move |i| (0..columns).map(move |j| (n, i, j)))
        }) {
            for c in 0..width {
                let mut sum = 0.0;
                for (di, dj) in (0..3).flat_map(|di| (0..3).map(move |dj| (di, dj))) {
                    let (v, u) = ((i * stride + di).wrapping_sub(1), (j * stride + dj).wrapping_sub(1));
                    if v < height && u < across {
                        sum +=
                            x[((n * height + v) * across + u) * width + c] * p[0][c % head * 9 + di * 3 + dj];
                    }
                }
                z.push(sum);
            }
        }
        common::layer_norm(&z, &p[1], &p[2], f64::from(EPS))
    }

    fn reference(&self, x: &[f64], p: &[Vec<f64>]) -> Vec<f64> {
        let (head, width) = (self.head, self.heads * self.head);
        let qkv = common::linear(&common::layer_norm(x, &p[0], &p[1], f64::from(EPS)), &p[2], &p[3]);
        let part = |part: usize| -> Vec<f64> {
            qkv.chunks(3 * width).flat_map(|row| row[part * width..(part + 1) * width].to_vec()).collect()
        };
        let q = self.strides.0.map_or_else(|| part(0), |stride| self.pool(&part(0), stride, &p[6..9]));
        let k = self.pool(&part(1), self.strides.1, &p[9..12]);
        let v = self.pool(&part(2), self.strides.1, &p[12..15]);
        let keys = k.len() / width / self.images.batch;
        let queries = q.len() / width / self.images.batch;
        let mut context = vec![0.0; q.len()];
        for (row, h) in (0..q.len() / width).flat_map(|row| (0..self.heads).map(move |h| (row, h))) {
            let at = |t: &'_ [f64], row: usize| t[row * width + h * head..][..head].to_vec();
            let first = row / queries * keys;
            let scores: Vec<f64> = (first..first + keys)
                .map(|key| (dot(&at(&q, row), &at(&k, key)) / (head as f64).sqrt()).exp())
                .collect();
            let sum: f64 = scores.iter().sum();
            for c in 0..head {
                context[row * width + h * head + c] = scores
                    .iter()
                    .enumerate()
                    .map(|(key, e)| e / sum * v[(first + key) * width + h * head + c])
                    .sum();
            }
        }
        common::linear(&context, &p[4], &p[5])
    }

    fn run(&self, way: Way, ws: &Workspace) -> Vec<Vec<f32>> {
        let (p, width) = (&self.p, self.heads * self.head);
        let qkv = PackedWeight::new(ws.isa(), &p[2], width, 3 * width);
        let out = PackedWeight::new(ws.isa(), &p[4], width, width);
        let norm = |at: usize| LayerNorm { scale: &p[at], bias: &p[at + 1], eps: EPS };
        let pool = |at: usize, stride| Pool { stride, weight: &p[at], norm: norm(at + 1) };
        let attention = PooledAttention {
            images: self.images,
            heads: self.heads,
            norm: norm(0),
            qkv: (&qkv).into(),
            qkv_bias: &p[3],
            query: self.strides.0.map(|stride| pool(6, stride)),
            key: pool(9, self.strides.1),
            value: pool(12, self.strides.1),
            out: (&out).into(),
            out_bias: &p[5],
        };
        let mut y = vec![0.0; self.dy.len()];
        let mut dx = vec![0.0; self.x.len()];
        let mut d: Vec<Vec<f32>> = p.iter().map(|p| vec![0.0; p.len()]).collect();
        let mut rest = d.iter_mut();
        let mut next = || rest.next().unwrap().as_mut_slice();
        let [scale, bias, qkv, qkv_bias, out, out_bias] = [(); 6].map(|()| next());
        let [query, key, value] = [(); 3].map(|()| {
            let [weight, scale, bias] = [(); 3].map(|()| next());
            PoolGrads { weight, norm: NormGrads { scale, bias } }
        });
        let query = self.strides.0.map(|_| query);
        let norm = NormGrads { scale, bias };
        let grads = PooledGrads { norm, qkv, qkv_bias, query, key, value, out, out_bias };
        let output = &mut Output::Value(&mut y);
        match way {
            Way::Two(keep) => {
                let saved = attention.forward_saving(&self.x, output, keep, ws).unwrap();
                attention.vjp(&self.x, saved, &self.dy, &mut dx, Base::Nothing, grads, ws);
            }
            Way::One => {
                attention.reverse(&self.x, output, &self.dy, &mut dx, Base::Nothing, grads, ws).unwrap();
            }
        }
        let mut all = vec![y, dx];
        all.append(&mut d);
        all
    }
}

proptest! {
    #![proptest_config(common::cases(10))]

    #[test]
    fn pooled_attention_and_its_gradients_equal_f64(
        batch in 1usize..3, height in 1usize..5, width in 1usize..5, heads in 1usize..3,
        query in prop::sample::select(vec![None, Some(1), Some(2)]), stride in 1usize..4, seed: u64,
    ) {
        let case = Case::new(Images { batch, height, width }, heads, 3, (query, stride), seed);
        let (x, dy) = (f64s(&case.x), f64s(&case.dy));
        let p: Vec<Vec<f64>> = case.p.iter().map(|p| f64s(p)).collect();
        let mut want = vec![case.reference(&x, &p), gradient(&x, |x| dot(&case.reference(x, &p), &dy))];
        want.extend(gradients(&p, |p| dot(&case.reference(&x, p), &dy)));
        for ws in workspaces() {
            let all = by_any_way(|way| case.run(way, &ws));
            for (i, (got, want)) in all.iter().zip(&want).enumerate() {
                assert_close(&format!("result {i}"), got, want, TOLERANCE);
            }
        }
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    for query in [None, Some(2)] {
        let case = Case::new(Images { batch: 2, height: 15, width: 14 }, 2, 9, (query, 2), 5);
        assert_thread_invariant("pooled attention", |ws| by_any_way(|way| case.run(way, ws)));
    }
}
