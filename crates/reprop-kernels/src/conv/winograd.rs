//! The transforms of Winograd's F(4x4, 3x3), on one tile at a time, channels across the lanes.
//!
//! `Y = Aᵀ [(G g Gᵀ) ∘ (Bᵀ d B)] A` gives 4x4 outputs from 6x6 inputs `d` and a 3x3 filter `g` with 36 products instead of 144;
//! with channels the products become 36 matrix products. The points are 0, ±1, ±2 and infinity:
//!
//! ```text
//!      4  0 -5  0  1  0         1/4    0    0
//!      0 -4 -4  1  1  0        -1/6 -1/6 -1/6        1  1  1  1  1  0
//! Bᵀ = 0  4 -4 -1  1  0    G = -1/6  1/6 -1/6   Aᵀ = 0  1 -1  2 -2  0
//!      0 -2 -1  2  1  0        1/24 1/12  1/6        0  1  1  4  4  0
//!      0  2 -1 -2  1  0        1/24 -1/12 1/6        0  1 -1  8 -8  1
//!      0  4  0 -5  0  1          0    0    1
//! ```
//! The derivative is the exact transpose of each step: `dM = A dY Aᵀ`, `dd = B dV Bᵀ`, `dg = Gᵀ dU G`.

use crate::simd::Simd;

/// A linear map `T` of a column. A type and not a function value, because the call must be inlined for its vector
/// instructions to be.
pub(crate) trait Transform<const N: usize, const M: usize> {
    fn of<S: Simd>(s: S, x: [S::V; N]) -> [S::V; M];
}

/// `Bᵀ d`.
pub(crate) struct Input;

impl Transform<6, 6> for Input {
    #[inline(always)]
    fn of<S: Simd>(s: S, d: [S::V; 6]) -> [S::V; 6] {
        let (four, five, two) = (s.splat(-4.0), s.splat(-5.0), s.splat(2.0));
        let (a, b) = (s.fma(four, d[2], d[4]), s.fma(four, d[1], d[3]));
        let (c, e) = (s.sub(d[4], d[2]), s.mul(two, s.sub(d[3], d[1])));
        [
            s.fma(five, d[2], s.fma(s.splat(4.0), d[0], d[4])),
            s.add(a, b),
            s.sub(a, b),
            s.add(c, e),
            s.sub(c, e),
            s.fma(five, d[3], s.fma(s.splat(4.0), d[1], d[5])),
        ]
    }
}

/// `B e`.
pub(crate) struct InputBack;

impl Transform<6, 6> for InputBack {
    #[inline(always)]
    fn of<S: Simd>(s: S, e: [S::V; 6]) -> [S::V; 6] {
        let (four, five, two) = (s.splat(4.0), s.splat(-5.0), s.splat(2.0));
        let (sum12, dif12) = (s.add(e[1], e[2]), s.sub(e[1], e[2]));
        let (sum34, dif34) = (s.add(e[3], e[4]), s.mul(two, s.sub(e[3], e[4])));
        [
            s.mul(four, e[0]),
            s.sub(s.mul(four, s.sub(e[5], dif12)), dif34),
            s.sub(s.fma(five, e[0], s.mul(s.splat(-4.0), sum12)), sum34),
            s.fma(five, e[5], s.add(dif12, dif34)),
            s.add(e[0], s.add(sum12, sum34)),
            e[5],
        ]
    }
}

/// `Aᵀ m`.
pub(crate) struct Output;

impl Transform<6, 4> for Output {
    #[inline(always)]
    fn of<S: Simd>(s: S, m: [S::V; 6]) -> [S::V; 4] {
        let (sum12, dif12) = (s.add(m[1], m[2]), s.sub(m[1], m[2]));
        let (sum34, dif34) = (s.add(m[3], m[4]), s.sub(m[3], m[4]));
        [
            s.add(m[0], s.add(sum12, sum34)),
            s.fma(s.splat(2.0), dif34, dif12),
            s.fma(s.splat(4.0), sum34, sum12),
            s.add(s.fma(s.splat(8.0), dif34, dif12), m[5]),
        ]
    }
}

/// `A y`.
pub(crate) struct OutputBack;

impl Transform<4, 6> for OutputBack {
    #[inline(always)]
    fn of<S: Simd>(s: S, y: [S::V; 4]) -> [S::V; 6] {
        let (a, b) = (s.add(y[0], y[2]), s.add(y[1], y[3]));
        let (c, e) = (s.fma(s.splat(4.0), y[2], y[0]), s.fma(s.splat(8.0), y[3], s.mul(s.splat(2.0), y[1])));
        [y[0], s.add(a, b), s.sub(a, b), s.add(c, e), s.sub(c, e), y[3]]
    }
}

/// `G g`.
pub(crate) struct Filter;

impl Transform<3, 6> for Filter {
    #[inline(always)]
    fn of<S: Simd>(s: S, g: [S::V; 3]) -> [S::V; 6] {
        let (quarter, sixth) = (s.splat(1.0 / 4.0), s.splat(1.0 / 6.0));
        let even = s.mul(s.splat(-1.0 / 6.0), s.add(g[0], g[2]));
        let odd = s.mul(sixth, g[1]);
        let far = s.fma(s.splat(1.0 / 24.0), g[0], s.mul(sixth, g[2]));
        let odd_far = s.mul(s.splat(1.0 / 12.0), g[1]);
        [
            s.mul(quarter, g[0]),
            s.sub(even, odd),
            s.add(even, odd),
            s.add(far, odd_far),
            s.sub(far, odd_far),
            g[2],
        ]
    }
}

/// `Gᵀ u`.
pub(crate) struct FilterBack;

impl Transform<6, 3> for FilterBack {
    #[inline(always)]
    fn of<S: Simd>(s: S, u: [S::V; 6]) -> [S::V; 3] {
        let (sum12, dif12) = (s.add(u[1], u[2]), s.sub(u[2], u[1]));
        let (sum34, dif34) = (s.add(u[3], u[4]), s.sub(u[3], u[4]));
        let sixth = s.splat(1.0 / 6.0);
        let near = s.mul(s.splat(-1.0 / 6.0), sum12);
        [
            s.fma(s.splat(1.0 / 24.0), sum34, s.fma(s.splat(1.0 / 4.0), u[0], near)),
            s.fma(s.splat(1.0 / 12.0), dif34, s.mul(sixth, dif12)),
            s.add(u[5], s.fma(sixth, sum34, near)),
        ]
    }
}

/// `T x Tᵀ`.
#[inline(always)]
pub(crate) fn both_sides<T: Transform<N, M>, S: Simd, const N: usize, const M: usize>(
    s: S,
    x: [[S::V; N]; N],
) -> [[S::V; M]; M] {
    let mut half = [[s.zero(); N]; M];
    for j in 0..N {
        let mut column = [s.zero(); N];
        for i in 0..N {
            column[i] = x[i][j];
        }
        let column = T::of(s, column);
        for i in 0..M {
            half[i][j] = column[i];
        }
    }
    let mut full = [[s.zero(); M]; M];
    for i in 0..M {
        full[i] = T::of(s, half[i]);
    }
    full
}
