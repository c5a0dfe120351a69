//! NEON: 4 lanes, 32 registers, products in 6 x 16 tiles (24 accumulators, 4 columns, 1 broadcast).

use core::arch::aarch64::{
    float32x4_t, vaddq_f32, vaddq_s32, vbslq_f32, vcgtq_f32, vcvtnq_s32_f32, vdivq_f32, vdupq_n_f32,
    vdupq_n_s32, vfmaq_f32, vld1q_f32, vmaxq_f32, vminq_f32, vmulq_f32, vreinterpretq_f32_s32, vrndnq_f32,
    vshlq_n_s32, vsqrtq_f32, vst1q_f32, vsubq_f32,
};

use super::Simd;
use crate::gemm::micro::{Tile, TileArgs, tile};

/// Proof that the CPU has NEON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Neon(());

impl Neon {
    pub(super) fn detect() -> Option<Self> {
        std::arch::is_aarch64_feature_detected!("neon").then_some(Self(()))
    }
}

impl Tile for Neon {
    const MR: usize = 6;
    const NR: usize = 16;

    #[inline(always)]
    unsafe fn tile(self, args: TileArgs) {
        // SAFETY: the caller's promise is the same.
        unsafe { tile::<Self, 6, 4>(self, args) }
    }
}

/// Calls intrinsics that need nothing but NEON.
macro_rules! intrinsic {
    ($e:expr) => {
        // SAFETY: `self` proves that the CPU has NEON, all that these intrinsics ask for.
        unsafe { $e }
    };
}

impl Simd for Neon {
    type V = float32x4_t;
    const LANES: usize = 4;

    #[inline(always)]
    fn splat(self, x: f32) -> float32x4_t {
        intrinsic!(vdupq_n_f32(x))
    }
    #[inline(always)]
    unsafe fn load_ptr(self, p: *const f32) -> float32x4_t {
        intrinsic!(vld1q_f32(p))
    }
    #[inline(always)]
    unsafe fn store_ptr(self, p: *mut f32, v: float32x4_t) {
        intrinsic!(vst1q_f32(p, v));
    }
    #[inline(always)]
    fn add(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        intrinsic!(vaddq_f32(a, b))
    }
    #[inline(always)]
    fn sub(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        intrinsic!(vsubq_f32(a, b))
    }
    #[inline(always)]
    fn mul(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        intrinsic!(vmulq_f32(a, b))
    }
    #[inline(always)]
    fn div(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        intrinsic!(vdivq_f32(a, b))
    }
    #[inline(always)]
    fn fma(self, a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        intrinsic!(vfmaq_f32(c, a, b))
    }
    #[inline(always)]
    fn max(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        intrinsic!(vmaxq_f32(a, b))
    }
    #[inline(always)]
    fn largest(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        self.max(a, b)
    }
    #[inline(always)]
    fn min(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        intrinsic!(vminq_f32(a, b))
    }
    #[inline(always)]
    fn sqrt(self, a: float32x4_t) -> float32x4_t {
        intrinsic!(vsqrtq_f32(a))
    }
    #[inline(always)]
    fn round(self, a: float32x4_t) -> float32x4_t {
        intrinsic!(vrndnq_f32(a))
    }
    #[inline(always)]
    fn pow2(self, n: float32x4_t) -> float32x4_t {
        intrinsic!({
            let biased = vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127));
            vreinterpretq_f32_s32(vshlq_n_s32::<23>(biased))
        })
    }
    #[inline(always)]
    fn select_gt(self, a: float32x4_t, b: float32x4_t, x: float32x4_t, y: float32x4_t) -> float32x4_t {
        intrinsic!(vbslq_f32(vcgtq_f32(a, b), x, y))
    }
}
