//! Batch norm and the fused convolution branch against `f64`.

mod common;

use common::{
    Rng, assert_close, assert_same_bits, assert_thread_invariant, dot, f64s, gradient, gradients, workspaces,
};
use proptest::prelude::*;
use reprop_kernels::Workspace;
use reprop_kernels::batch_norm::{Above, BatchNorm, BatchNormGrads, Moments, OutputGradient};
use reprop_kernels::conv::{
    Branch, Conv2d, Conv3x3, ConvNorm, ConvNormGrads, Images, Slide, Stride, Strided3x3, WinogradWeight,
};
use reprop_kernels::gemm::PackedWeight;
use reprop_kernels::grid::Grid;
use reprop_kernels::output::{Base, Output};

const EPS: f32 = 1e-5;
const GRID: Grid = Grid { bits: 14 };
/// Winograd's digit, twice, and a division by the spread of few values.
const TOLERANCE: f64 = 2e-4;

fn norm(x: &[f64], scale: &[f64], bias: &[f64]) -> Vec<f64> {
    let channels = scale.len();
    let rows = x.len() / channels;
    let mut y = x.to_vec();
    for c in 0..channels {
        let (mean, var) = moments(x, channels, c);
        for i in 0..rows {
            y[i * channels + c] =
                (x[i * channels + c] - mean) / (var + f64::from(EPS)).sqrt() * scale[c] + bias[c];
        }
    }
    y
}

/// Mean and variance of a channel.
fn moments(x: &[f64], channels: usize, c: usize) -> (f64, f64) {
    let rows = (x.len() / channels) as f64;
    let column = || x.iter().skip(c).step_by(channels);
    let mean = column().sum::<f64>() / rows;
    (mean, column().map(|x| (x - mean).powi(2)).sum::<f64>() / rows)
}

fn conv(x: &[f64], w: &[f64], images: Images, ci: usize, co: usize) -> Vec<f64> {
    let mut y = vec![0.0; images.len(co)];
    let (h, w_) = (images.height as isize, images.width as isize);
    for n in 0..images.batch as isize {
        for (i, j) in (0..h).flat_map(|i| (0..w_).map(move |j| (i, j))) {
            for (a, b) in (0..3).flat_map(|a| (0..3).map(move |b| (a, b))) {
                let (u, v) = (i + a - 1, j + b - 1);
                if u >= 0 && v >= 0 && u < h && v < w_ {
                    for (c, d) in (0..ci).flat_map(|c| (0..co).map(move |d| (c, d))) {
                        y[((n * h + i) * w_ + j) as usize * co + d] += x
                            [((n * h + u) * w_ + v) as usize * ci + c]
                            * w[((a * 3 + b) as usize * ci + c) * co + d];
                    }
                }
            }
        }
    }
    y
}

struct Case {
    images: Images,
    ci: usize,
    co: usize,
    residual: bool,
    x: Vec<f32>,
    dy: Vec<f32>,
    /// weight, scale, bias; twice
    p: [Vec<f32>; 6],
}

impl Case {
    fn new(images: Images, ci: usize, co: usize, residual: bool, seed: u64) -> Self {
        let mut rng = Rng(seed);
        let co = if residual { ci } else { co };
        let p = [9 * ci * co, co, co, 9 * co * co, co, co].map(|len| rng.vec(len));
        Self { images, ci, co, residual, x: rng.vec(images.len(ci)), dy: rng.vec(images.len(co)), p }
    }

    fn reference(&self, x: &[f64], p: &[Vec<f64>]) -> Vec<f64> {
        let relu = |v: Vec<f64>| -> Vec<f64> { v.into_iter().map(|v| v.max(0.0)).collect() };
        let a = relu(norm(&conv(x, &p[0], self.images, self.ci, self.co), &p[1], &p[2]));
        let mut n = norm(&conv(&a, &p[3], self.images, self.co, self.co), &p[4], &p[5]);
        if self.residual {
            n.iter_mut().zip(x).for_each(|(n, x)| *n += x);
        }
        relu(n)
    }

    fn run(&self, ws: &Workspace) -> Vec<Vec<f32>> {
        let p = &self.p;
        let weight1 = WinogradWeight::new(&p[0], self.ci, self.co, ws);
        let weight2 = WinogradWeight::new(&p[3], self.co, self.co, ws);
        let norm = |i: usize| BatchNorm { scale: &p[i], bias: &p[i + 1], eps: EPS };
        let branch = Branch {
            images: self.images,
            first: ConvNorm { weight: &weight1, norm: norm(1) },
            second: ConvNorm { weight: &weight2, norm: norm(4) },
            residual: self.residual,
        };
        let mut y = vec![0.0; self.dy.len()];
        let saved = branch.forward_saving(&self.x, &mut Output::Value(&mut y), ws).unwrap();
        let mut eval = vec![0.0; self.dy.len()];
        branch
            .forward_eval(&self.x, [&saved.first, &saved.second], &mut Output::Value(&mut eval), ws)
            .unwrap();
        assert_same_bits("evaluation with the batch's own moments", &y, &eval);
        let mut dx = vec![0.0; self.x.len()];
        let mut d: Vec<Vec<f32>> = p.iter().map(|p| vec![0.0; p.len()]).collect();
        let [w1, s1, b1, w2, s2, b2] = d.get_disjoint_mut([0, 1, 2, 3, 4, 5]).unwrap();
        let grads = [
            ConvNormGrads { weight: w1, norm: BatchNormGrads { scale: s1, bias: b1 } },
            ConvNormGrads { weight: w2, norm: BatchNormGrads { scale: s2, bias: b2 } },
        ];
        branch.vjp(&self.x, &saved, &self.dy, &mut dx, Base::Nothing, grads, ws);
        let mut all = vec![y, dx];
        all.append(&mut d);
        all
    }
}

/// Whether rounding may be seen: a value before a ReLU is so near zero that its mask may flip, or a channel varies so little (where
/// the ReLU before it lets hardly anything through) that its norm makes rounding errors many times larger.
fn magnifies_rounding(case: &Case, p: &[Vec<f64>]) -> bool {
    let x = f64s(&case.x);
    let first = conv(&x, &p[0], case.images, case.ci, case.co);
    let n1 = norm(&first, &p[1], &p[2]);
    let a: Vec<f64> = n1.iter().map(|v| v.max(0.0)).collect();
    let second = conv(&a, &p[3], case.images, case.co, case.co);
    let y = case.reference(&x, p);
    let near = |v: &f64| v.abs() < 1e-4 && *v != 0.0;
    let flat = |x: &[f64]| (0..case.co).any(|c| moments(x, case.co, c).1 < 1e-2);
    n1.iter().any(near) || y.iter().any(near) || flat(&first) || flat(&second)
}

proptest! {
    #![proptest_config(common::cases(16))]

    #[test]
    fn branch_and_its_gradients_equal_f64(
        batch in 2usize..4, height in 2usize..6, width in 2usize..6, ci in 1usize..4, co in 1usize..4, residual: bool,
        seed: u64,
    ) {
        let case = Case::new(Images { batch, height, width }, ci, co, residual, seed);
        let (x, dy) = (f64s(&case.x), f64s(&case.dy));
        let p: Vec<Vec<f64>> = case.p.iter().map(|p| f64s(p)).collect();
        prop_assume!(!magnifies_rounding(&case, &p));
        let mut want = vec![case.reference(&x, &p), gradient(&x, |x| dot(&case.reference(x, &p), &dy))];
        want.extend(gradients(&p, |p| dot(&case.reference(&x, p), &dy)));
        for ws in workspaces() {
            for (i, (got, want)) in case.run(&ws).iter().zip(&want).enumerate() {
                assert_close(&format!("result {i}"), got, want, TOLERANCE);
            }
        }
    }

    #[test]
    fn batch_norm_and_its_gradients_equal_f64(rows in 3usize..12, channels in 1usize..20, seed: u64) {
        let mut rng = Rng(seed);
        let (x, dy) = (rng.vec(rows * channels), rng.vec(rows * channels));
        let (scale, bias) = (rng.vec(channels), rng.vec(channels));
        let reference = |x: &[f64]| norm(x, &f64s(&scale), &f64s(&bias));
        let want = [reference(&f64s(&x)), gradient(&f64s(&x), |x| dot(&reference(x), &f64s(&dy)))];
        let dbias: Vec<f64> = (0..channels).map(|c| (0..rows).map(|i| f64::from(dy[i * channels + c])).sum()).collect();
        let bn = BatchNorm { scale: &scale, bias: &bias, eps: EPS };
        for ws in workspaces() {
            let (mut y, mut dx) = (vec![0.0; x.len()], vec![0.0; x.len()]);
            let moments = bn.forward(&x, &mut y, &ws);
            let (mut ds, mut db) = (vec![0.0; channels], vec![0.0; channels]);
            bn.vjp(&x, &moments, Above::output(&dy), &mut dx, BatchNormGrads { scale: &mut ds, bias: &mut db }, &ws);
            assert_close("y", &y, &want[0], 1e-5);
            assert_close("dx", &dx, &want[1], TOLERANCE);
            assert_close("dbias", &db, &dbias, 1e-5);
        }
    }
}

proptest! {
    #![proptest_config(common::cases(16))]

    /// The loss is `<relu(z), dy> + <z, beside>` of the norm's output `z`.
    #[test]
    fn a_norm_with_two_readers_equals_f64(rows in 3usize..12, channels in 1usize..20, given: bool, seed: u64) {
        let mut rng = Rng(seed);
        let (x, dy, beside) = (rng.vec(rows * channels), rng.vec(rows * channels), rng.vec(rows * channels));
        let (scale, bias) = (rng.vec(channels), rng.vec(channels));
        let (mean, variance) = (rng.vec(channels), vec![0.7; channels]);
        let output = |x: &[f64], scale: &[f64], bias: &[f64]| -> Vec<f64> {
            if !given {
                return norm(x, scale, bias);
            }
            let affine = |(i, x): (usize, &f64)| {
                let c = i % channels;
                let r = 1.0 / (f64::from(variance[c]) + f64::from(EPS)).sqrt();
                (x - f64::from(mean[c])) * r * scale[c] + bias[c]
            };
            x.iter().enumerate().map(affine).collect()
        };
        let loss = |x: &[f64], scale: &[f64], bias: &[f64]| {
            let z = output(x, scale, bias);
            let relu: Vec<f64> = z.iter().map(|z| z.max(0.0)).collect();
            dot(&relu, &f64s(&dy)) + dot(&z, &f64s(&beside))
        };
        let (x64, s64, b64) = (f64s(&x), f64s(&scale), f64s(&bias));
        let z = output(&x64, &s64, &b64);
        prop_assume!(z.iter().all(|z| z.abs() > 1e-3));
        let want = [
            z.iter().map(|z| z.max(0.0)).collect(),
            gradient(&x64, |x| loss(x, &s64, &b64)),
            gradient(&s64, |scale| loss(&x64, scale, &b64)),
            gradient(&b64, |bias| loss(&x64, &s64, bias)),
        ];
        let bn = BatchNorm { scale: &scale, bias: &bias, eps: EPS };
        for ws in workspaces() {
            let (mut y, mut dx) = (vec![0.0; x.len()], vec![0.0; x.len()]);
            let (mut ds, mut db) = (vec![0.0; channels], vec![0.0; channels]);
            let moments =
                if given { Moments::from_slices(&mean, &variance, &ws) } else { Moments::of(&x, channels, &ws) };
            bn.apply(&x, &moments, None, true, &mut y, &ws);
            let above = Above { dy: &dy, rest: None, relu: true, beside: Some(&beside) };
            bn.vjp(&x, &moments, above, &mut dx, BatchNormGrads { scale: &mut ds, bias: &mut db }, &ws);
            let got = [y, dx, ds, db];
            for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                assert_close(&format!("result {i}"), got, want, TOLERANCE);
            }
            halves_are_the_same(&bn, &x, &moments, above, &got, &ws);
        }
    }
}

/// A norm whose output is two tensors, at every place where channels can be cut.
fn halves_are_the_same(
    bn: &BatchNorm,
    x: &[f32],
    moments: &Moments,
    above: Above,
    [y, dx, ds, db]: &[Vec<f32>; 4],
    ws: &Workspace,
) {
    let channels = bn.channels();
    let cut = |x: &[f32], left: usize| -> [Vec<f32>; 2] {
        let rows = || x.chunks(channels);
        [
            rows().flat_map(|row| &row[..left]).copied().collect(),
            rows().flat_map(|row| &row[left..]).copied().collect(),
        ]
    };
    for left in 1..channels {
        let [want_a, want_b] = cut(y, left);
        let (mut a, mut b) = (vec![7.0; want_a.len()], vec![7.0; want_b.len()]);
        bn.apply_to_halves(x, moments, true, [&mut a, &mut b], None, ws);
        assert_same_bits("first half", &a, &want_a);
        assert_same_bits("second half", &b, &want_b);
        let snapped = |x: &[f32]| {
            let mut x = x.to_vec();
            GRID.snap(&mut x, ws).expect("inside the range");
            x
        };
        assert!(bn.apply_to_halves(x, moments, true, [&mut a, &mut b], Some(GRID), ws));
        assert_same_bits("first half on the grid", &a, &snapped(&want_a));
        assert_same_bits("second half on the grid", &b, &snapped(&want_b));
        let [dy, rest] = cut(above.dy, left);
        let above = Above { dy: &dy, rest: Some(&rest), ..above };
        let (mut half_dx, mut half_ds, mut half_db) = (vec![7.0; x.len()], ds.clone(), db.clone());
        let grads = BatchNormGrads { scale: &mut half_ds, bias: &mut half_db };
        bn.vjp(x, moments, above, &mut half_dx, grads, ws);
        assert_same_bits("dx of halves", &half_dx, dx);
        assert_same_bits("ds of halves", &half_ds, ds);
        assert_same_bits("db of halves", &half_db, db);
    }
}

/// Every kind of convolution gives the same bits whether it reads a norm's derivative or makes it while it reads.
#[test]
fn a_gradient_behind_a_norm_is_the_same_as_one_that_is_written() {
    let mut rng = Rng(5);
    let (images, ci, co) = (Images { batch: 9, height: 15, width: 16 }, 18, 20);
    for (kernel, stride) in [(3, 1), (3, 2), (1, 2)] {
        let slide = Slide { kernel, stride, padding: kernel / 2 };
        let len = slide.output(images).len(co);
        let (x, w) = (rng.vec(images.len(ci)), rng.vec(kernel * kernel * ci * co));
        let (c, dy, scale, bias) = (rng.vec(len), rng.vec(len), rng.vec(co), rng.vec(co));
        let bn = BatchNorm { scale: &scale, bias: &bias, eps: EPS };
        for ws in workspaces() {
            let moments = Moments::of(&c, co, &ws);
            let above = Above { dy: &dy, rest: None, relu: true, beside: None };
            let (mut dc, mut ds, mut db) = (vec![7.0; len], vec![7.0; co], vec![7.0; co]);
            bn.vjp(&c, &moments, above, &mut dc, BatchNormGrads { scale: &mut ds, bias: &mut db }, &ws);
            let grads = BatchNormGrads { scale: &mut ds, bias: &mut db };
            let behind = bn.behind(&c, &moments, above, grads, &ws);
            let run = |dy: OutputGradient| {
                let (mut dx, mut dw) = (vec![7.0; x.len()], vec![7.0; w.len()]);
                let stride = if stride == 1 { Stride::One } else { Stride::Two };
                match (kernel, stride) {
                    (3, Stride::One) => {
                        let weight = &WinogradWeight::new(&w, ci, co, &ws);
                        Conv3x3 { images, weight }.vjp(&x, dy, Some(&mut dx), &mut dw, &ws);
                    }
                    (3, Stride::Two) => {
                        let weight = &WinogradWeight::with_stride(stride, &w, (ci, co), &ws);
                        Strided3x3 { images, weight }.vjp(&x, dy, Some(&mut dx), &mut dw, &ws);
                    }
                    _ => {
                        let weight = &PackedWeight::new(ws.isa(), &w, kernel * kernel * ci, co);
                        Conv2d { images, slide, inputs: ci, weight }.vjp(&x, dy, Some(&mut dx), &mut dw, &ws);
                    }
                }
                [dx, dw]
            };
            let (made, written) = (run(behind.of(&c)), run(OutputGradient::Plain(&dc)));
            assert_same_bits("dx", &made[0], &written[0]);
            assert_same_bits("dw", &made[1], &written[1]);
        }
    }
}

#[test]
fn running_statistics_move_towards_the_batch() {
    let ws = Workspace::default();
    let x = [1.0, 10.0, 3.0, 10.0, 5.0, 10.0, 7.0, 10.0];
    let bn = BatchNorm { scale: &[1.0, 1.0], bias: &[0.0, 0.0], eps: EPS };
    let moments = bn.forward(&x, &mut [0.0; 8], &ws);
    assert_eq!((moments.mean[0], moments.variance[0]), (4.0, 5.0));
    let (mut mean, mut variance) = ([0.0, 0.0], [1.0, 1.0]);
    moments.update_running(4, 0.1, &mut mean, &mut variance);
    assert_close("mean", &mean, &[0.4, 1.0], 1e-6);
    assert_close("variance", &variance, &[1.0 + 0.1 * (20.0 / 3.0 - 1.0), 0.9], 1e-6);
    let stored = Moments::from_slices(&mean, &variance, &ws);
    assert_eq!(&stored.mean[..], &mean[..]);
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let case = Case::new(Images { batch: 9, height: 12, width: 10 }, 18, 18, true, 3);
    assert_thread_invariant("branch", |ws| case.run(ws));
}
