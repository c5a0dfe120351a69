//! Norms' outputs that enter residual streams.

mod common;

use common::{Rng, assert_same_bits, workspaces};
use reprop_kernels::batch_norm::{BatchNorm, Moments, Term, enter};
use reprop_kernels::grid::Grid;

const EPS: f32 = 1e-5;
const GRID: Grid = Grid { bits: 14 };
/// Its values are below 2, and some outputs of norms above.
const NARROW: Grid = Grid { bits: 23 };

/// What enters a stream is what the passes one by one give: norms, their sum, rounding to the grid.
#[test]
fn what_enters_a_stream_is_the_sum_of_outputs_on_the_grid() {
    let mut rng = Rng(6);
    for (rows, channels) in [(0, 3), (1, 1), (700, 20), (3, 5000)] {
        let (x, other) = (rng.vec(rows * channels), rng.vec(rows * channels));
        let (scale, bias) = (rng.vec(channels), rng.vec(channels));
        let norm = BatchNorm { scale: &scale, bias: &bias, eps: EPS };
        for ws in workspaces() {
            let of = [&x, &other].map(|x| Moments::of(x, channels, &ws));
            let (mut one, mut sum) = (vec![7.0; x.len()], vec![7.0; x.len()]);
            norm.apply(&x, &of[0], None, true, &mut one, &ws);
            norm.apply(&other, &of[1], Some(&one), false, &mut sum, &ws);
            let first = Term { norm, x: &x, moments: &of[0], relu: true };
            let second = Term { norm, x: &other, moments: &of[1], relu: false };
            for (second, want) in [(None, one), (Some(second), sum)] {
                let mut y = vec![7.0; x.len()];
                assert!(enter(first, second, None, &mut y, &ws));
                assert_same_bits("sum", &y, &want);
                let mut snapped = want.clone();
                GRID.snap(&mut snapped, &ws).expect("inside the range");
                assert!(enter(first, second, Some(GRID), &mut y, &ws));
                assert_same_bits("sum on the grid", &y, &snapped);
                let inside = NARROW.snap(&mut snapped, &ws).is_ok();
                assert_eq!(enter(first, second, Some(NARROW), &mut y, &ws), inside);
            }
        }
    }
}
