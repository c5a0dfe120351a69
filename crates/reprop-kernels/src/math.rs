//! Functions of vectors: exponential, normal distribution, GELU.
//!
//! **exp**: `x = n ln 2 + r` with `|r| <= ln 2 / 2`, `e^x = 2^n e^r`, `e^r` by its Taylor series to `r^7` (the first
//! term left out is below `6e-9` of the sum). `ln 2` is split in two so that `n ln 2` loses nothing.
//!
//! **GELU**: `x Φ(x)`, `Φ` the normal distribution, `φ` its density. For `z = |x|` the tail is `Φ(-z) = φ(z) M(z)` with
//! Mills' ratio `M`, smooth and slowly falling, so a polynomial in `t = 1 / (1 + 0.3 z)` gives it with a relative error below
//! `1e-8` (a Chebyshev fit of `M / t` over `0 <= z <= 15`). The derivative `Φ + x φ` shares the exponential.

use crate::simd::Simd;

/// Below this `e^x` leaves the normal numbers; it is then zero.
const EXP_MIN: f32 = -87.3;
const EXP_MAX: f32 = 88.3;

#[inline(always)]
pub(crate) fn exp<S: Simd>(s: S, x: S::V) -> S::V {
    // In these orders what is not a number stays: x86 takes second operands then, and no comparison holds.
    let clamped = s.min(s.splat(EXP_MAX), s.max(s.splat(EXP_MIN), x));
    s.select_gt(s.splat(EXP_MIN), x, s.zero(), exp_within(s, clamped))
}

/// `e^x` of lanes between [`EXP_MIN`] and [`EXP_MAX`].
#[inline(always)]
fn exp_within<S: Simd>(s: S, x: S::V) -> S::V {
    let n = s.round(s.mul(x, s.splat(std::f32::consts::LOG2_E)));
    let r = s.fma(n, s.splat(-0.693_145_75), x);
    let r = s.fma(n, s.splat(-1.428_606_8e-6), r);
    let mut e = s.splat(1.0 / 5040.0);
    for c in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        e = s.fma(e, r, s.splat(c));
    }
    s.scale(e, n)
}

/// `(Φ(x), φ(x))`.
#[inline(always)]
pub(crate) fn normal<S: Simd>(s: S, x: S::V) -> (S::V, S::V) {
    let z = s.abs(x);
    // At the least exponent that is left, the density is zero beside anything.
    let density = exp_within(s, s.max(s.mul(s.mul(z, z), s.splat(-0.5)), s.splat(EXP_MIN)));
    let t = s.reciprocal(s.fma(z, s.splat(0.3), s.splat(1.0)));
    // Fit of M(z) / t, divided by sqrt(2 π).
    let mut p = s.splat(-0.020_984_67);
    for c in [
        0.114_402_11,
        -0.232_835_48,
        0.197_921_64,
        -0.084_481_28,
        0.098_830_84,
        0.077_485_77,
        0.110_423_2,
        0.119_550_12,
        0.119_687_75,
    ] {
        p = s.fma(p, t, s.splat(c));
    }
    let tail = s.mul(s.mul(density, t), p);
    let cdf = s.select_gt(x, s.zero(), s.sub(s.splat(1.0), tail), tail);
    (cdf, s.mul(density, s.splat(0.398_942_3)))
}

#[inline(always)]
pub(crate) fn gelu<S: Simd>(s: S, x: S::V) -> S::V {
    s.mul(x, normal(s, x).0)
}

/// `(gelu(x), gelu'(x))`.
#[inline(always)]
pub(crate) fn gelu_both<S: Simd>(s: S, x: S::V) -> (S::V, S::V) {
    let (cdf, density) = normal(s, x);
    (s.mul(x, cdf), s.fma(x, density, cdf))
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub(crate) fn sigmoid<S: Simd>(s: S, x: S::V) -> S::V {
    s.div(s.splat(1.0), s.add(s.splat(1.0), exp(s, s.sub(s.zero(), x))))
}

/// `tanh(x)` as `x` times a series near zero (where the quotient below would cancel), else `1 - 2 / (e^2x + 1)` for `|x|`,
/// with the sign of `x`.
#[inline(always)]
pub(crate) fn tanh<S: Simd>(s: S, x: S::V) -> S::V {
    let z = s.abs(x);
    let e = exp(s, s.min(s.add(z, z), s.splat(40.0)));
    let far = s.sub(s.splat(1.0), s.div(s.splat(2.0), s.add(e, s.splat(1.0))));
    let far = s.select_gt(x, s.zero(), far, s.sub(s.zero(), far));
    // Taylor to x^11: below 0.3 the first term left out is under 1e-8 of the value.
    let q = s.mul(x, x);
    let mut p = s.splat(-1382.0 / 155_925.0);
    for c in [62.0 / 2835.0, -17.0 / 315.0, 2.0 / 15.0, -1.0 / 3.0, 1.0] {
        p = s.fma(p, q, s.splat(c));
    }
    s.select_gt(z, s.splat(0.3), far, s.mul(x, p))
}
