//! GELU, layer norm and the MLP sub-block against `f64`.

mod common;

use common::{
    Rng, assert_close, assert_same_bits, assert_thread_invariant, dot, f64s, gradient, gradients, workspaces,
};
use proptest::prelude::*;
use reprop_kernels::gemm::{Mat, PackedWeight, Weight};
use reprop_kernels::layer_norm::{LayerNorm, NormGrads};
use reprop_kernels::mlp::{Mlp, MlpGrads};
use reprop_kernels::output::{Base, Output};
use reprop_kernels::{Workspace, gelu};

/// A few roundings of `f32` through three layers.
const TOLERANCE: f64 = 1e-5;
const EPS: f32 = 1e-6;

#[test]
fn gelu_and_its_slope_equal_erf_everywhere() {
    let x: Vec<f32> = (-4000..=4000).map(|i| i as f32 / 500.0).collect();
    let ones = vec![1.0; x.len()];
    let want: Vec<f64> = x.iter().map(|&x| common::gelu(f64::from(x))).collect();
    let slope: Vec<f64> = x.iter().map(|&x| gradient(&[f64::from(x)], |x| common::gelu(x[0]))[0]).collect();
    for ws in workspaces() {
        let (mut y, mut dx) = (vec![0.0; x.len()], vec![0.0; x.len()]);
        gelu::forward(ws.isa(), &x, &mut y);
        gelu::vjp(ws.isa(), &x, &ones, &mut dx);
        for ((x, y), want) in x.iter().zip(&y).zip(&want) {
            let off = (f64::from(*y) - want).abs();
            assert!(
                off <= 2e-7 * f64::from(x.abs()).min(1.0) + 3e-7 * want.abs(),
                "gelu({x}) is off by {off:e}"
            );
        }
        assert_close("slope", &dx, &slope, 3e-7);
    }
}

/// Random parameters of an MLP, and its reference.
struct Case {
    width: usize,
    hidden: usize,
    x: Vec<f32>,
    dy: Vec<f32>,
    /// scale, bias, fc1, fc1 bias, fc2, fc2 bias
    p: [Vec<f32>; 6],
}

impl Case {
    fn new(rows: usize, width: usize, hidden: usize, seed: u64) -> Self {
        let mut rng = Rng(seed);
        let p = [width, width, width * hidden, hidden, hidden * width, width].map(|len| rng.vec(len));
        Self { width, hidden, x: rng.vec(rows * width), dy: rng.vec(rows * width), p }
    }

    fn reference(x: &[f64], p: &[Vec<f64>]) -> Vec<f64> {
        let n = common::layer_norm(x, &p[0], &p[1], f64::from(EPS));
        let h: Vec<f64> = common::linear(&n, &p[2], &p[3]).into_iter().map(common::gelu).collect();
        common::linear(&h, &p[4], &p[5])
    }

    /// `y`, `dx` and the parameters' gradients: the same bits with packed and with fresh weights.
    fn run(&self, ws: &Workspace) -> Vec<Vec<f32>> {
        let fc1 = PackedWeight::new(ws.isa(), &self.p[2], self.width, self.hidden);
        let fc2 = PackedWeight::new(ws.isa(), &self.p[4], self.hidden, self.width);
        let packed = self.run_with((&fc1).into(), (&fc2).into(), ws);
        let fresh = |i: usize, inputs, outputs| Weight::Fresh(Mat::new(&self.p[i], inputs, outputs));
        let (fc1, fc2) = (fresh(2, self.width, self.hidden), fresh(4, self.hidden, self.width));
        for (packed, fresh) in packed.iter().zip(&self.run_with(fc1, fc2, ws)) {
            assert_same_bits("packed or fresh", packed, fresh);
        }
        packed
    }

    fn run_with(&self, fc1: Weight, fc2: Weight, ws: &Workspace) -> Vec<Vec<f32>> {
        let norm = LayerNorm { scale: &self.p[0], bias: &self.p[1], eps: EPS };
        let mlp = Mlp { norm, fc1, fc1_bias: &self.p[3], fc2, fc2_bias: &self.p[5] };
        let mut y = vec![0.0; self.x.len()];
        mlp.forward(&self.x, &mut Output::Value(&mut y), ws).unwrap();
        let mut again = vec![0.0; self.x.len()];
        let saved = mlp.forward_saving(&self.x, &mut Output::Value(&mut again), ws).unwrap();
        assert_same_bits("saving or not", &y, &again);
        let gradients = |run: &mut dyn FnMut(&mut [f32], MlpGrads)| {
            let mut all = vec![vec![0.0; self.x.len()]];
            all.extend(self.p.iter().map(|p| vec![0.0; p.len()]));
            let [dx, scale, bias, fc1, fc1_bias, fc2, fc2_bias] =
                all.get_disjoint_mut([0, 1, 2, 3, 4, 5, 6]).unwrap();
            run(dx, MlpGrads { norm: NormGrads { scale, bias }, fc1, fc1_bias, fc2, fc2_bias });
            all
        };
        let mut saved = Some(saved);
        let two = gradients(&mut |dx, grads| {
            mlp.vjp(&self.x, saved.take().unwrap(), &self.dy, dx, Base::Nothing, grads, ws);
        });
        again.fill(0.0);
        let one = gradients(&mut |dx, grads| {
            let mut output = Output::Value(&mut again);
            mlp.reverse(&self.x, &mut output, &self.dy, dx, Base::Nothing, grads, ws).unwrap();
        });
        assert_same_bits("forward and back in one", &y, &again);
        for (two, one) in two.iter().zip(&one) {
            assert_same_bits("forward and back in one", two, one);
        }
        [vec![y], two].concat()
    }
}

proptest! {
    #![proptest_config(common::cases(12))]

    #[test]
    fn mlp_and_its_gradients_equal_f64(rows in 0usize..8, width in 2usize..12, hidden in 1usize..20, seed: u64) {
        let case = Case::new(rows, width, hidden, seed);
        let (x, dy) = (f64s(&case.x), f64s(&case.dy));
        let p: Vec<Vec<f64>> = case.p.iter().map(|p| f64s(p)).collect();
        let mut want = vec![Case::reference(&x, &p), gradient(&x, |x| dot(&Case::reference(x, &p), &dy))];
        want.extend(gradients(&p, |p| dot(&Case::reference(&x, p), &dy)));
        for ws in workspaces() {
            for (i, (got, want)) in case.run(&ws).iter().zip(&want).enumerate() {
                // A row of nearly equal values has a large 1 / σ, which multiplies rounding errors.
                assert_close(&format!("result {i}"), got, want, if width < 4 { 1e-3 } else { 20.0 * TOLERANCE });
            }
        }
    }

    #[test]
    fn mlp_forward_equals_f64_over_several_chunks(rows in 1usize..200, width in 20usize..70, seed: u64) {
        let case = Case::new(rows, width, 2 * width + 1, seed);
        let p: Vec<Vec<f64>> = case.p.iter().map(|p| f64s(p)).collect();
        let want = Case::reference(&f64s(&case.x), &p);
        for ws in workspaces() {
            assert_close("y", &case.run(&ws)[0], &want, TOLERANCE);
        }
    }
}

/// Hidden rows of 4 KiB have gaps between them.
#[test]
fn gaps_between_rows_change_nothing() {
    let case = Case::new(61, 24, 1024, 7);
    let p: Vec<Vec<f64>> = case.p.iter().map(|p| f64s(p)).collect();
    let want = Case::reference(&f64s(&case.x), &p);
    for ws in workspaces() {
        assert_close("y", &case.run(&ws)[0], &want, TOLERANCE);
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let case = Case::new(205, 72, 150, 5);
    assert_thread_invariant("mlp", |ws| case.run(ws));
}

#[test]
fn layer_norm_alone_equals_the_one_inside_and_can_add_to_dx() {
    let (rows, width) = (131, 37);
    let mut rng = Rng(9);
    let (x, dy, old) = (rng.vec(rows * width), rng.vec(rows * width), rng.vec(rows * width));
    let (scale, bias) = (rng.vec(width), rng.vec(width));
    let want = common::layer_norm(&f64s(&x), &f64s(&scale), &f64s(&bias), f64::from(EPS));
    let reference = |x: &[f64]| common::layer_norm(x, &f64s(&scale), &f64s(&bias), f64::from(EPS));
    let row = gradient(&f64s(&x[..width]), |x| dot(&reference(x), &f64s(&dy[..width])));
    let norm = LayerNorm { scale: &scale, bias: &bias, eps: EPS };
    for ws in workspaces() {
        let (mut y, mut stats) = (vec![0.0; x.len()], vec![0.0; 2 * rows]);
        norm.forward(&x, &mut y, &mut stats, &ws);
        assert_close("y", &y, &want, TOLERANCE);
        let (mut dx, mut dscale, mut dbias) = (old.clone(), vec![0.0; width], vec![0.0; width]);
        norm.vjp(
            &x,
            &stats,
            &dy,
            &mut dx,
            Base::Itself,
            NormGrads { scale: &mut dscale, bias: &mut dbias },
            &ws,
        );
        let row: Vec<f64> = row.iter().zip(&old).map(|(d, o)| d + f64::from(*o)).collect();
        assert_close("dx", &dx[..width], &row, TOLERANCE);
        let sums: Vec<f64> =
            (0..width).map(|j| (0..rows).map(|i| f64::from(dy[i * width + j])).sum()).collect();
        assert_close("dβ", &dbias, &sums, TOLERANCE);
    }
}
