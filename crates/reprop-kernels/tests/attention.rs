//! The attention sub-block against `f64`, with every mask, kept or recomputed probabilities.

mod common;

use common::{
    Rng, Way, assert_close, assert_same_bits, assert_thread_invariant, by_any_way, dot, f64s, gradient,
    gradients, workspaces,
};
use proptest::prelude::*;
use reprop_kernels::Workspace;
use reprop_kernels::attention::{Attention, AttentionGrads, AttentionSaved, AttentionShape, Keep, Masks};
use reprop_kernels::gemm::{Mat, PackedWeight, Weight};
use reprop_kernels::layer_norm::{LayerNorm, NormGrads};
use reprop_kernels::output::{Base, Output};

const EPS: f32 = 1e-3;

/// A few roundings of `f32` through norm, products and softmax.
const TOLERANCE: f64 = 2e-5;

struct Case {
    shape: AttentionShape,
    width: usize,
    x: Vec<f32>,
    dy: Vec<f32>,
    /// scale, bias, qkv, qkv bias, out, out bias, score bias
    p: [Vec<f32>; 7],
    keys: Option<Vec<bool>>,
    groups: Option<Vec<f32>>,
    causal: bool,
    with_bias: bool,
}

impl Case {
    fn new((batch, tokens, heads, head): (usize, usize, usize, usize), masks: [bool; 4], seed: u64) -> Self {
        let [causal, keys, groups, with_bias] = masks;
        let mut rng = Rng(seed);
        let width = heads * head;
        let scores = tokens * tokens;
        let p = [width, width, 3 * width * width, 3 * width, width * width, width, heads * scores]
            .map(|len| rng.vec(len));
        Self {
            shape: AttentionShape { batch, tokens, heads },
            width,
            x: rng.vec(batch * tokens * width),
            dy: rng.vec(batch * tokens * width),
            p,
            keys: keys.then(|| (0..batch * tokens).map(|_| rng.next() > -0.4).collect()),
            groups: groups.then(|| rng.vec(2 * scores)),
            causal,
            with_bias,
        }
    }

    fn reference(&self, x: &[f64], p: &[Vec<f64>]) -> Vec<f64> {
        let (AttentionShape { batch, tokens, heads }, width) = (self.shape, self.width);
        let head = width / heads;
        let qkv = common::linear(&common::layer_norm(x, &p[0], &p[1], f64::from(EPS)), &p[2], &p[3]);
        let mut context = vec![0.0; batch * tokens * width];
        for (b, h, i) in
            (0..batch).flat_map(|b| (0..heads).flat_map(move |h| (0..tokens).map(move |i| (b, h, i))))
        {
            let at = |token: usize, part: usize| {
                &qkv[((b * tokens + token) * 3 + part) * width + h * head..][..head]
            };
            let score = |j: usize| {
                let mut s = dot(at(i, 0), at(j, 1)) / (head as f64).sqrt();
                if self.with_bias {
                    s += p[6][(h * tokens + i) * tokens + j];
                }
                if let Some(groups) = &self.groups {
                    s += f64::from(groups[(b % 2 * tokens + i) * tokens + j]);
                }
                let hidden = self.keys.as_ref().is_some_and(|k| !k[b * tokens + j]) || (self.causal && j > i);
                if hidden { 0.0 } else { s.exp() }
            };
            let weights: Vec<f64> = (0..tokens).map(score).collect();
            let sum: f64 = weights.iter().sum();
            if sum > 0.0 {
                for c in 0..head {
                    context[(b * tokens + i) * width + h * head + c] =
                        (0..tokens).map(|j| weights[j] / sum * at(j, 2)[c]).sum();
                }
            }
        }
        common::linear(&context, &p[4], &p[5])
    }

    /// `y`, `dx` and the parameters' gradients: the same bits with packed and with fresh weights.
    fn run(&self, way: Way, ws: &Workspace) -> Vec<Vec<f32>> {
        let width = self.width;
        let qkv = PackedWeight::new(ws.isa(), &self.p[2], width, 3 * width);
        let out = PackedWeight::new(ws.isa(), &self.p[4], width, width);
        let packed = self.run_with((&qkv).into(), (&out).into(), way, ws);
        let fresh = |i: usize, outputs| Weight::Fresh(Mat::new(&self.p[i], width, outputs));
        for (packed, fresh) in
            packed.iter().zip(&self.run_with(fresh(2, 3 * width), fresh(4, width), way, ws))
        {
            assert_same_bits("packed or fresh", packed, fresh);
        }
        packed
    }

    fn run_with(&self, qkv: Weight, out: Weight, way: Way, ws: &Workspace) -> Vec<Vec<f32>> {
        let attention = Attention {
            shape: self.shape,
            masks: Masks {
                bias: self.with_bias.then_some(&self.p[6]),
                groups: self.groups.as_deref(),
                keys: self.keys.as_deref(),
                causal: self.causal,
            },
            norm: LayerNorm { scale: &self.p[0], bias: &self.p[1], eps: EPS },
            qkv,
            qkv_bias: &self.p[3],
            out,
            out_bias: &self.p[5],
        };
        let (mut y, mut again) = (vec![0.0; self.x.len()], vec![0.0; self.x.len()]);
        attention.forward(&self.x, &mut Output::Value(&mut y), ws).unwrap();
        let mut dx = vec![0.0; self.x.len()];
        let mut d: Vec<Vec<f32>> = self.p.iter().map(|p| vec![0.0; p.len()]).collect();
        let [scale, bias, qkv, qkv_bias, out, out_bias, scores] =
            d.get_disjoint_mut([0, 1, 2, 3, 4, 5, 6]).unwrap();
        let grads = AttentionGrads {
            norm: NormGrads { scale, bias },
            qkv,
            qkv_bias,
            out,
            out_bias,
            bias: self.with_bias.then_some(scores),
        };
        let output = &mut Output::Value(&mut again);
        match way {
            Way::Two(keep) => {
                let saved = attention.forward_saving(&self.x, output, keep, ws).unwrap();
                attention.vjp(&self.x, saved, &self.dy, &mut dx, Base::Nothing, grads, ws);
            }
            Way::One => {
                attention.reverse(&self.x, output, &self.dy, &mut dx, Base::Nothing, grads, ws).unwrap();
            }
        }
        assert_same_bits("saving or not", &y, &again);
        let mut all = vec![y, dx];
        all.append(&mut d);
        all
    }
}

proptest! {
    #![proptest_config(common::cases(16))]

    #[test]
    fn attention_and_its_gradients_equal_f64(
        shape in (0usize..4, 1usize..5, 1usize..4, 2usize..5), masks: [bool; 4], seed: u64,
    ) {
        let case = Case::new(shape, masks, seed);
        let (x, dy) = (f64s(&case.x), f64s(&case.dy));
        let p: Vec<Vec<f64>> = case.p.iter().map(|p| f64s(p)).collect();
        let mut want = vec![case.reference(&x, &p), gradient(&x, |x| dot(&case.reference(x, &p), &dy))];
        want.extend(gradients(&p, |p| dot(&case.reference(&x, p), &dy)));
        for ws in workspaces() {
            let all = by_any_way(|way| case.run(way, &ws));
            for (i, (got, want)) in all.iter().zip(&want).enumerate() {
                assert_close(&format!("result {i}"), got, want, 5.0 * TOLERANCE);
            }
        }
    }

    #[test]
    fn attention_equals_f64_over_several_chunks(tokens in 1usize..90, heads in 1usize..4, masks: [bool; 4], seed: u64) {
        let case = Case::new((3, tokens, heads, 17), masks, seed);
        let p: Vec<Vec<f64>> = case.p.iter().map(|p| f64s(p)).collect();
        let want = case.reference(&f64s(&case.x), &p);
        for ws in workspaces() {
            assert_close("y", &case.run(Way::One, &ws)[0], &want, TOLERANCE);
        }
    }
}

#[test]
fn long_sequences_are_cut_into_query_blocks() {
    let case = Case::new((1, 300, 1, 8), [true, false, false, true], 3);
    let p: Vec<Vec<f64>> = case.p.iter().map(|p| f64s(p)).collect();
    let want = case.reference(&f64s(&case.x), &p);
    for ws in workspaces() {
        assert_close("y", &by_any_way(|way| case.run(way, &ws))[0], &want, TOLERANCE);
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    for masks in [[false; 4], [true; 4]] {
        let case = Case::new((5, 50, 3, 20), masks, 11);
        assert_thread_invariant("attention", |ws| by_any_way(|way| case.run(way, ws)));
    }
}

#[test]
fn saved_tensors_take_what_was_predicted() {
    let case = Case::new((2, 33, 2, 8), [false; 4], 1);
    for keep in [Keep::Probabilities, Keep::Nothing] {
        let expected = 66 * (2 + 4 * 16) + if keep == Keep::Probabilities { 2 * 66 * 48 } else { 0 };
        assert_eq!(AttentionSaved::len(case.shape, case.width, keep), expected);
    }
}
