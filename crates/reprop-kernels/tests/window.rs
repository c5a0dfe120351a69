//! Window attention and attention between different numbers of queries and keys, against `f64`.

mod common;

use common::{
    Rng, Way, assert_close, assert_thread_invariant, by_any_way, dot, f64s, gradient, gradients, workspaces,
};
use proptest::prelude::*;
use reprop_kernels::Workspace;
use reprop_kernels::attention::{CrossAttention, CrossGrads, Keep, Masks, WindowAttention, WindowGrads};
use reprop_kernels::conv::Images;
use reprop_kernels::gemm::PackedWeight;
use reprop_kernels::layer_norm::{LayerNorm, NormGrads};
use reprop_kernels::output::{Base, Output};

const EPS: f32 = 1e-3;
const TOLERANCE: f64 = 1e-4;

struct Case {
    images: Images,
    window: usize,
    shift: usize,
    heads: usize,
    width: usize,
    x: Vec<f32>,
    dy: Vec<f32>,
    /// table, scale, bias, qkv, qkv bias, out, out bias
    p: [Vec<f32>; 7],
}

impl Case {
    fn new(images: Images, window: usize, shift: usize, heads: usize, head: usize, seed: u64) -> Self {
        let mut rng = Rng(seed);
        let width = heads * head;
        let table = (2 * window - 1).pow(2) * heads;
        let p =
            [table, width, width, 3 * width * width, 3 * width, width * width, width].map(|len| rng.vec(len));
        let len = images.len(width);
        Self { images, window, shift, heads, width, x: rng.vec(len), dy: rng.vec(len), p }
    }

    /// Straight from the definition: query and key see each other if they share a window of the shifted partition, without
    /// wrapping around the image.
    fn reference(&self, x: &[f64], p: &[Vec<f64>]) -> Vec<f64> {
        let (Images { batch, height, width: across }, side) = (self.images, self.window);
        let (width, head) = (self.width, self.width / self.heads);
        let qkv = common::linear(&common::layer_norm(x, &p[1], &p[2], f64::from(EPS)), &p[3], &p[4]);
        let part =
            |token: usize, part: usize, h: usize| &qkv[(token * 3 + part) * width + h * head..][..head];
        // Rows before the shift belong to a strip of their own, as do those after the last whole window.
        let strip = |n: usize| (n + side - self.shift) / side;
        let mut context = vec![0.0; x.len()];
        for (n, y, x_) in
            (0..batch).flat_map(|n| (0..height).flat_map(move |y| (0..across).map(move |x| (n, y, x))))
        {
            let token = (n * height + y) * across + x_;
            for h in 0..self.heads {
                let mut seen = Vec::new();
                for (v, u) in (0..height).flat_map(|v| (0..across).map(move |u| (v, u))) {
                    if strip(v) == strip(y) && strip(u) == strip(x_) {
                        let key = (n * height + v) * across + u;
                        let relative = (y + side - 1 - v) * (2 * side - 1) + x_ + side - 1 - u;
                        let score = dot(part(token, 0, h), part(key, 1, h)) / (head as f64).sqrt();
                        seen.push((key, (score + p[0][relative * self.heads + h]).exp()));
                    }
                }
                let sum: f64 = seen.iter().map(|(_, e)| e).sum();
                for c in 0..head {
                    context[token * width + h * head + c] =
                        seen.iter().map(|(key, e)| e / sum * part(*key, 2, h)[c]).sum();
                }
            }
        }
        common::linear(&context, &p[5], &p[6])
    }

    fn run(&self, way: Way, ws: &Workspace) -> Vec<Vec<f32>> {
        let (p, width) = (&self.p, self.width);
        let qkv = PackedWeight::new(ws.isa(), &p[3], width, 3 * width);
        let out = PackedWeight::new(ws.isa(), &p[5], width, width);
        let attention = WindowAttention {
            images: self.images,
            window: self.window,
            shift: self.shift,
            heads: self.heads,
            table: &p[0],
            norm: LayerNorm { scale: &p[1], bias: &p[2], eps: EPS },
            qkv: (&qkv).into(),
            qkv_bias: &p[4],
            out: (&out).into(),
            out_bias: &p[6],
        };
        let mut y = vec![0.0; self.x.len()];
        let mut dx = vec![0.0; self.x.len()];
        let mut d: Vec<Vec<f32>> = p.iter().map(|p| vec![0.0; p.len()]).collect();
        let [table, scale, bias, qkv, qkv_bias, out, out_bias] =
            d.get_disjoint_mut([0, 1, 2, 3, 4, 5, 6]).unwrap();
        let norm = NormGrads { scale, bias };
        let grads = WindowGrads { table, norm, qkv, qkv_bias, out, out_bias };
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
    fn window_attention_and_its_gradients_equal_f64(
        batch in 1usize..3, down in 1usize..3, across in 1usize..3, window in 2usize..4, shift in 0usize..3, seed: u64,
    ) {
        prop_assume!(shift < window);
        let images = Images { batch, height: down * window, width: across * window };
        let case = Case::new(images, window, shift, 2, 2, seed);
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

    #[test]
    fn attention_between_different_numbers_of_tokens_equals_f64(
        batch in 0usize..3, queries in 1usize..9, keys in 1usize..9, heads in 1usize..3, head in 1usize..6, seed: u64,
    ) {
        let mut rng = Rng(seed);
        let width = heads * head;
        let (q, k, v) = (rng.vec(batch * queries * width), rng.vec(batch * keys * width), rng.vec(batch * keys * width));
        let d_o = rng.vec(q.len());
        let reference = |t: &[Vec<f64>]| {
            let mut o = vec![0.0; t[0].len()];
            for (b, i, h) in
                (0..batch).flat_map(|b| (0..queries).flat_map(move |i| (0..heads).map(move |h| (b, i, h))))
            {
                let at = |which: usize, row: usize| &t[which][row * width + h * head..][..head];
                let weights: Vec<f64> = (0..keys)
                    .map(|j| (dot(at(0, b * queries + i), at(1, b * keys + j)) / (head as f64).sqrt()).exp())
                    .collect();
                let sum: f64 = weights.iter().sum();
                for c in 0..head {
                    o[(b * queries + i) * width + h * head + c] =
                        (0..keys).map(|j| weights[j] / sum * at(2, b * keys + j)[c]).sum();
                }
            }
            o
        };
        let t = [f64s(&q), f64s(&k), f64s(&v)];
        let want = gradients(&t, |t| dot(&reference(t), &f64s(&d_o)));
        let attention = CrossAttention { batch, queries, keys, heads, head_width: head, masks: Masks::default() };
        for ws in workspaces() {
            let mut o = vec![0.0; q.len()];
            let kept = attention.forward(&q, &k, &v, &mut o, Keep::Probabilities, &ws);
            assert_close("o", &o, &reference(&t), 1e-5);
            let (mut dq, mut dk, mut dv) = (vec![0.0; q.len()], vec![0.0; k.len()], vec![0.0; v.len()]);
            let grads = CrossGrads { q: &mut dq, k: &mut dk, v: &mut dv, bias: None };
            attention.vjp((&q, &k, &v), kept.as_deref(), &d_o, grads, &ws);
            assert_close("dq", &dq, &want[0], TOLERANCE);
            assert_close("dk", &dk, &want[1], TOLERANCE);
            assert_close("dv", &dv, &want[2], TOLERANCE);
        }
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let case = Case::new(Images { batch: 3, height: 14, width: 14 }, 7, 3, 2, 8, 5);
    assert_thread_invariant("windows", |ws| by_any_way(|way| case.run(way, ws)));
}
