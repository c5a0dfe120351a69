//! Arrays of 4 lanes in safe Rust: what every target compiles, and what Miri can run. Products in 4 x 8 tiles, which
//! fit the 16 registers of baseline x86-64.
//!
//! `fma` is a product and a sum here, each rounded: a fused one would be a library call.

use super::Simd;
use crate::gemm::micro::{Tile, TileArgs, tile};

/// No special instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Portable;

impl Tile for Portable {
    const MR: usize = 4;
    const NR: usize = 8;

    #[inline(always)]
    unsafe fn tile(self, args: TileArgs) {
        // SAFETY: the caller's promise is the same.
        unsafe { tile::<Self, 4, 2>(self, args) }
    }
}

type V = [f32; 4];

#[inline(always)]
fn zip(a: V, b: V, f: impl Fn(f32, f32) -> f32) -> V {
    [f(a[0], b[0]), f(a[1], b[1]), f(a[2], b[2]), f(a[3], b[3])]
}

impl Simd for Portable {
    type V = V;
    const LANES: usize = 4;

    #[inline(always)]
    fn splat(self, x: f32) -> V {
        [x; 4]
    }
    #[inline(always)]
    unsafe fn load_ptr(self, p: *const f32) -> V {
        // SAFETY: the caller promises four readable floats; an array of floats has a float's alignment.
        unsafe { p.cast::<V>().read() }
    }
    #[inline(always)]
    unsafe fn store_ptr(self, p: *mut f32, v: V) {
        // SAFETY: the caller promises four writable floats.
        unsafe { p.cast::<V>().write(v) }
    }
    #[inline(always)]
    fn add(self, a: V, b: V) -> V {
        zip(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, a: V, b: V) -> V {
        zip(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, a: V, b: V) -> V {
        zip(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, a: V, b: V) -> V {
        zip(a, b, |a, b| a / b)
    }
    #[inline(always)]
    fn fma(self, a: V, b: V, c: V) -> V {
        self.add(self.mul(a, b), c)
    }
    #[inline(always)]
    fn max(self, a: V, b: V) -> V {
        zip(a, b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn largest(self, a: V, b: V) -> V {
        zip(a, b, |a, b| if a > b || a.is_nan() { a } else { b })
    }
    #[inline(always)]
    fn min(self, a: V, b: V) -> V {
        zip(a, b, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    fn sqrt(self, a: V) -> V {
        a.map(f32::sqrt)
    }
    #[inline(always)]
    fn round(self, a: V) -> V {
        a.map(f32::round_ties_even)
    }
    #[inline(always)]
    fn pow2(self, n: V) -> V {
        n.map(|n| f32::from_bits(((n as i32 + 127) as u32) << 23))
    }
    #[inline(always)]
    fn select_gt(self, a: V, b: V, x: V, y: V) -> V {
        std::array::from_fn(|i| if a[i] > b[i] { x[i] } else { y[i] })
    }
}
