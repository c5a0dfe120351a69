//! The transforms of a 3x3 convolution with stride 2 and a border of one, on one tile at a time, channels across the lanes.
//!
//! Of the nine pixels `d` in a row of a tile, border included, the even ones meet the outer two taps of a filter `g`, each
//! output two neighbours, and the odd ones the middle tap, each output one of them:
//! `yⱼ = g₀ d₂ⱼ + g₂ d₂ⱼ₊₂ + g₁ d₂ⱼ₊₁`. The first two terms are Winograd's F(4, 2) with the points 0, 1, -1, 2 and infinity, five
//! products for four outputs; the last is four products as it is: nine instead of twelve, and in both directions 81 instead
//! of 144.
//!
//! ```text
//!               2 -1 -2  1  0        1/2    0
//!               0 -2 -1  1  0       -1/2 -1/2        1  1  1  1  0
//! even pixels:  0  2 -3  1  0  taps -1/6  1/6  back  0  1 -1  2  0
//!               0 -1  0  1  0        1/6  1/3        0  1  1  4  0
//!               0  2 -1 -2  1          0    1        0  1 -1  8  1
//! ```
//! The points 0 and infinity count for the first and the last output alone, as the products of the first and the last odd pixel do:
//! these are added to those, so that seven sums of products are left of nine.
//!
//! The derivative is the exact transpose of each step.

use super::winograd::Transform;
use crate::simd::Simd;

/// In one direction: pixels of a tile, and products.
pub(super) const PIXELS: usize = 9;

/// In one direction: sums of products.
pub(super) const SUMS: usize = 7;

/// In one direction: transformed taps.
const TAPS: usize = 6;

/// The sum that each product is part of,
const SUM: [usize; PIXELS] = [0, 1, 2, 3, 4, 0, 5, 6, 4];

/// and the taps that it multiplies: those of the odd pixels are one.
const TAP: [usize; PIXELS] = [0, 1, 2, 3, 4, 5, 5, 5, 5];

/// One of the 81 products of a tile: a transformed pixel by a transformed filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub pixel: usize,
    pub filter: usize,
    pub sum: usize,
    /// Where the filter's gradient is added up: the filter of the odd pixels has four parts, so that none is added up from
    /// more than four products.
    pub part: usize,
}

/// Parts of filters' gradients: the first 36 are filters' own.
pub(super) const PARTS: usize = TAPS * TAPS + PIXELS - TAPS;

/// All products of a tile.
pub(super) fn terms() -> impl Iterator<Item = Term> {
    (0..PIXELS * PIXELS).map(|pixel| {
        let (y, x) = (pixel / PIXELS, pixel % PIXELS);
        let filter = TAPS * TAP[y] + TAP[x];
        let later = y >= TAPS && TAP[x] == TAPS - 1;
        let part = if later { TAPS * TAPS + y - TAPS } else { filter };
        Term { pixel, filter, sum: SUMS * SUM[y] + SUM[x], part }
    })
}

/// Pixels.
pub(super) struct Input;

impl Transform<9, 9> for Input {
    #[inline(always)]
    fn of<S: Simd>(s: S, d: [S::V; 9]) -> [S::V; 9] {
        let two = s.splat(2.0);
        let far = s.sub(d[6], d[2]);
        [
            s.fma(two, s.sub(d[0], d[4]), far),
            s.fma(s.splat(-2.0), d[2], s.sub(d[6], d[4])),
            s.fma(s.splat(-3.0), d[4], s.fma(two, d[2], d[6])),
            far,
            s.fma(s.splat(-2.0), far, s.sub(d[8], d[4])),
            d[1],
            d[3],
            d[5],
            d[7],
        ]
    }
}

/// Transformed pixels' gradients.
pub(super) struct InputBack;

impl Transform<9, 9> for InputBack {
    #[inline(always)]
    fn of<S: Simd>(s: S, e: [S::V; 9]) -> [S::V; 9] {
        let (two, less) = (s.splat(2.0), s.splat(-2.0));
        let near = s.fma(two, s.add(s.sub(e[2], e[1]), e[4]), s.sub(s.zero(), s.add(e[0], e[3])));
        let middle = s.fma(less, e[0], s.fma(s.splat(-3.0), e[2], s.sub(s.zero(), s.add(e[1], e[4]))));
        let far = s.fma(less, e[4], s.add(s.add(e[0], e[1]), s.add(e[2], e[3])));
        [s.mul(two, e[0]), e[5], near, e[6], middle, e[7], far, e[8], e[4]]
    }
}

/// Sums of products.
pub(super) struct Output;

impl Transform<7, 4> for Output {
    #[inline(always)]
    fn of<S: Simd>(s: S, m: [S::V; 7]) -> [S::V; 4] {
        let (sum, dif) = (s.add(m[1], m[2]), s.sub(m[1], m[2]));
        [
            s.add(m[0], s.add(sum, m[3])),
            s.fma(s.splat(2.0), m[3], s.add(dif, m[5])),
            s.fma(s.splat(4.0), m[3], s.add(sum, m[6])),
            s.fma(s.splat(8.0), m[3], s.add(dif, m[4])),
        ]
    }
}

/// Outputs' gradients.
pub(super) struct OutputBack;

impl Transform<4, 7> for OutputBack {
    #[inline(always)]
    fn of<S: Simd>(s: S, y: [S::V; 4]) -> [S::V; 7] {
        let (even, odd) = (s.add(y[0], y[2]), s.add(y[1], y[3]));
        let far = s.fma(s.splat(4.0), y[2], y[0]);
        let odd_far = s.fma(s.splat(8.0), y[3], s.mul(s.splat(2.0), y[1]));
        [y[0], s.add(even, odd), s.sub(even, odd), s.add(far, odd_far), y[3], y[1], y[2]]
    }
}

/// Taps.
pub(super) struct Filter;

impl Transform<3, 6> for Filter {
    #[inline(always)]
    fn of<S: Simd>(s: S, g: [S::V; 3]) -> [S::V; 6] {
        let (half, sixth) = (s.splat(1.0 / 2.0), s.splat(1.0 / 6.0));
        [
            s.mul(half, g[0]),
            s.mul(s.splat(-1.0 / 2.0), s.add(g[0], g[2])),
            s.mul(sixth, s.sub(g[2], g[0])),
            s.fma(sixth, g[0], s.mul(s.splat(1.0 / 3.0), g[2])),
            g[2],
            g[1],
        ]
    }
}

/// Transformed taps' gradients.
pub(super) struct FilterBack;

impl Transform<6, 3> for FilterBack {
    #[inline(always)]
    fn of<S: Simd>(s: S, u: [S::V; 6]) -> [S::V; 3] {
        let (half, sixth) = (s.splat(1.0 / 2.0), s.splat(1.0 / 6.0));
        [
            s.fma(half, s.sub(u[0], u[1]), s.mul(sixth, s.sub(u[3], u[2]))),
            u[5],
            s.add(
                s.fma(s.splat(-1.0 / 2.0), u[1], s.mul(sixth, u[2])),
                s.fma(s.splat(1.0 / 3.0), u[3], u[4]),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_product_is_part_of_one_sum_and_one_gradient() {
        let count = |what: fn(&Term) -> usize, n: usize| {
            let mut counts = vec![0; n];
            terms().for_each(|term| counts[what(&term)] += 1);
            counts
        };
        assert_eq!(count(|t| t.pixel, 81), [1; 81]);
        assert_eq!(count(|t| t.filter, 36)[35], 16, "the middle tap meets every odd pixel");
        let sums = count(|t| t.sum, SUMS * SUMS);
        assert_eq!((sums.iter().min(), sums.iter().max()), (Some(&1), Some(&4)));
        let parts = count(|t| t.part, PARTS);
        assert_eq!((parts.iter().min(), parts.iter().max()), (Some(&1), Some(&4)));
        assert!(terms().all(|t| t.part == t.filter || (t.part >= 36 && t.filter == 35)));
    }
}
