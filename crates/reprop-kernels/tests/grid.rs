//! The streams' addition is exact and its inverse gives back every bit.

mod common;

use common::{Rng, assert_same_bits, workspaces};
use proptest::prelude::*;
use reprop_kernels::gemm::PackedWeight;
use reprop_kernels::grid::{Direction, Grid};
use reprop_kernels::layer_norm::LayerNorm;
use reprop_kernels::mlp::Mlp;
use reprop_kernels::output::Output;

proptest! {
    #![proptest_config(common::cases(64))]

    #[test]
    fn subtracting_gives_back_every_bit(len in 0usize..9000, bits in 0u32..=20, seed: u64) {
        let grid = Grid { bits };
        let mut rng = Rng(seed);
        let scale = grid.limit() * 0.49;
        let mut x: Vec<f32> = rng.vec(len).iter().map(|x| x * scale).collect();
        let f: Vec<f32> = rng.vec(len).iter().map(|x| x * scale).collect();
        for ws in workspaces() {
            grid.snap(&mut x, &ws).unwrap();
            let mut y = x.clone();
            grid.apply(&mut y, &f, Direction::Add, &ws).unwrap();
            for ((y, x), f) in y.iter().zip(&x).zip(&f) {
                let up = f64::from(1u32 << bits);
                let want = f64::from(*x) + (f64::from(*f) * up).round_ties_even() / up;
                prop_assert_eq!(f64::from(*y).to_bits(), (want + 0.0).to_bits());
            }
            grid.apply(&mut y, &f, Direction::Subtract, &ws).unwrap();
            assert_same_bits("stream", &y, &x);
        }
    }
}

#[test]
fn leaving_the_range_is_an_error_with_the_numbers_in_it() {
    let grid = Grid { bits: 20 };
    for ws in workspaces() {
        for bad in [16.0, -16.5, f32::NAN, f32::INFINITY] {
            let mut stream = vec![0.0; 5000];
            let mut f = vec![1.0; 5000];
            f[4321] = bad;
            assert!(grid.holds(&stream, &ws) && !grid.holds(&[&f[..4321], &[bad]].concat(), &ws));
            let error = grid.apply(&mut stream, &f, Direction::Add, &ws).unwrap_err();
            assert_eq!((error.index, error.limit, error.bits), (4321, 16.0, 20));
            assert_eq!(error.value.to_bits(), bad.to_bits());
        }
        let mut just_inside = vec![16.0 - 2f32.powi(-20); 3];
        grid.snap(&mut just_inside, &ws).unwrap();
    }
}

#[test]
fn a_sub_block_on_the_grid_equals_its_value_added_afterwards() {
    let (rows, width, hidden) = (61, 24, 50);
    let mut rng = Rng(8);
    let grid = Grid { bits: 16 };
    let p = [width, width, width * hidden, hidden, hidden * width, width].map(|len| rng.vec(len));
    for ws in workspaces() {
        let (fc1, fc2) = (
            PackedWeight::new(ws.isa(), &p[2], width, hidden),
            PackedWeight::new(ws.isa(), &p[4], hidden, width),
        );
        let norm = LayerNorm { scale: &p[0], bias: &p[1], eps: 1e-6 };
        let mlp = Mlp { norm, fc1: (&fc1).into(), fc1_bias: &p[3], fc2: (&fc2).into(), fc2_bias: &p[5] };
        let (x, mut stream) = (rng.vec(rows * width), rng.vec(rows * width));
        grid.snap(&mut stream, &ws).unwrap();
        let mut f = vec![0.0; x.len()];
        mlp.forward(&x, &mut Output::Value(&mut f), &ws).unwrap();
        let mut apart = stream.clone();
        grid.apply(&mut apart, &f, Direction::Add, &ws).unwrap();
        let mut fused = vec![0.0; x.len()];
        let mut output =
            Output::OnGrid { grid, base: Some(&stream), y: &mut fused, direction: Direction::Add };
        mlp.forward(&x, &mut output, &ws).unwrap();
        assert_same_bits("fused and apart", &fused, &apart);
        let mut output = Output::OnGrid { grid, base: None, y: &mut fused, direction: Direction::Subtract };
        mlp.forward(&x, &mut output, &ws).unwrap();
        assert_same_bits("recovered", &fused, &stream);
        let tight = Grid { bits: 23 };
        let mut output = Output::OnGrid { grid: tight, base: None, y: &mut fused, direction: Direction::Add };
        assert!(
            mlp.forward(&x, &mut output, &ws).is_err(),
            "values above 2 cannot be on a grid with 23 bits"
        );
    }
}
