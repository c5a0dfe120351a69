//! AVX2 with FMA: 8 lanes, 16 registers, products in 6 x 16 tiles (12 accumulators, 2 columns, 1 broadcast).

use core::arch::x86_64::{
    __m256, _CMP_GT_OQ, _MM_FROUND_NO_EXC, _MM_FROUND_TO_NEAREST_INT, _mm256_add_epi32, _mm256_add_ps,
    _mm256_blendv_ps, _mm256_castsi256_ps, _mm256_cmp_ps, _mm256_cvtps_epi32, _mm256_div_ps, _mm256_fmadd_ps,
    _mm256_loadu_ps, _mm256_max_ps, _mm256_min_ps, _mm256_mul_ps, _mm256_round_ps, _mm256_set1_epi32,
    _mm256_set1_ps, _mm256_slli_epi32, _mm256_sqrt_ps, _mm256_storeu_ps, _mm256_sub_ps,
};

use super::Simd;
use crate::gemm::micro::{Tile, TileArgs, tile};

/// Proof that the CPU has AVX2 and FMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Avx2(());

impl Avx2 {
    pub(super) fn detect() -> Option<Self> {
        let there = std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma");
        there.then_some(Self(()))
    }
}

impl Tile for Avx2 {
    const MR: usize = 6;
    const NR: usize = 16;

    #[inline(always)]
    unsafe fn tile(self, args: TileArgs) {
        // SAFETY: the caller's promise is the same.
        unsafe { tile::<Self, 6, 2>(self, args) }
    }
}

/// Calls intrinsics that need nothing but AVX2 and FMA.
macro_rules! intrinsic {
    ($e:expr) => {
        // SAFETY: `self` proves that the CPU has AVX2 and FMA, all that these intrinsics ask for.
        unsafe { $e }
    };
}

impl Simd for Avx2 {
    type V = __m256;
    const LANES: usize = 8;

    #[inline(always)]
    fn splat(self, x: f32) -> __m256 {
        intrinsic!(_mm256_set1_ps(x))
    }
    #[inline(always)]
    unsafe fn load_ptr(self, p: *const f32) -> __m256 {
        intrinsic!(_mm256_loadu_ps(p))
    }
    #[inline(always)]
    unsafe fn store_ptr(self, p: *mut f32, v: __m256) {
        intrinsic!(_mm256_storeu_ps(p, v));
    }
    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        intrinsic!(_mm256_add_ps(a, b))
    }
    #[inline(always)]
    fn sub(self, a: __m256, b: __m256) -> __m256 {
        intrinsic!(_mm256_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul(self, a: __m256, b: __m256) -> __m256 {
        intrinsic!(_mm256_mul_ps(a, b))
    }
    #[inline(always)]
    fn div(self, a: __m256, b: __m256) -> __m256 {
        intrinsic!(_mm256_div_ps(a, b))
    }
    #[inline(always)]
    fn fma(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        intrinsic!(_mm256_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn max(self, a: __m256, b: __m256) -> __m256 {
        intrinsic!(_mm256_max_ps(a, b))
    }
    #[inline(always)]
    fn min(self, a: __m256, b: __m256) -> __m256 {
        intrinsic!(_mm256_min_ps(a, b))
    }
    #[inline(always)]
    fn sqrt(self, a: __m256) -> __m256 {
        intrinsic!(_mm256_sqrt_ps(a))
    }
    #[inline(always)]
    fn round(self, a: __m256) -> __m256 {
        intrinsic!(_mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a))
    }
    #[inline(always)]
    fn pow2(self, n: __m256) -> __m256 {
        intrinsic!({
            let biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
            _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased))
        })
    }
    #[inline(always)]
    fn select_gt(self, a: __m256, b: __m256, x: __m256, y: __m256) -> __m256 {
        intrinsic!(_mm256_blendv_ps(y, x, _mm256_cmp_ps::<_CMP_GT_OQ>(a, b)))
    }
}
