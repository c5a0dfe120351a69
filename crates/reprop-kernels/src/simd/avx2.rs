//! AVX2 with FMA: 8 lanes, 16 registers, products in 6 x 16 tiles (12 accumulators, 2 columns, 1 broadcast).

use core::arch::x86_64::{
    __m256, _CMP_GT_OQ, _CMP_UNORD_Q, _MM_FROUND_NO_EXC, _MM_FROUND_TO_NEAREST_INT, _MM_HINT_T0, _MM_HINT_T1,
    _mm_prefetch, _mm256_add_epi32, _mm256_add_ps, _mm256_blendv_ps, _mm256_castsi256_ps, _mm256_cmp_ps,
    _mm256_cvtps_epi32, _mm256_div_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_max_ps, _mm256_min_ps,
    _mm256_mul_ps, _mm256_permute2f128_ps, _mm256_round_ps, _mm256_set1_epi32, _mm256_set1_ps,
    _mm256_shuffle_ps, _mm256_slli_epi32, _mm256_sqrt_ps, _mm256_storeu_ps, _mm256_stream_ps, _mm256_sub_ps,
    _mm256_unpackhi_ps, _mm256_unpacklo_ps,
};

use super::{SQUARE, Simd};
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
    fn prefetch(self, p: *const f32) {
        intrinsic!(_mm_prefetch::<_MM_HINT_T0>(p.cast()));
    }
    #[inline(always)]
    fn prefetch_far(self, p: *const f32) {
        intrinsic!(_mm_prefetch::<_MM_HINT_T1>(p.cast()));
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
    unsafe fn stream_ptr(self, p: *mut f32, v: __m256) {
        intrinsic!(_mm256_stream_ps(p, v));
    }
    #[inline(always)]
    unsafe fn transpose(self, from: *const f32, from_row: usize, to: *mut f32, to_row: usize) {
        // SAFETY: the caller's promise, and `self` proves that the CPU has AVX2.
        unsafe { transpose(from, from_row, to, to_row) }
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
    fn largest(self, a: __m256, b: __m256) -> __m256 {
        intrinsic!(_mm256_blendv_ps(_mm256_max_ps(a, b), a, _mm256_cmp_ps::<_CMP_UNORD_Q>(a, a)))
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

/// [`Simd::transpose`]: pairs, then fours, then halves change places.
///
/// # Safety
/// The CPU must have AVX2, and the squares be as the trait says.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn transpose(from: *const f32, from_row: usize, to: *mut f32, to_row: usize) {
    // SAFETY: row `i` of the square.
    let r: [__m256; SQUARE] = std::array::from_fn(|i| unsafe { _mm256_loadu_ps(from.add(i * from_row)) });
    let low = |i: usize, j: usize| _mm256_unpacklo_ps(r[i], r[j]);
    let high = |i: usize, j: usize| _mm256_unpackhi_ps(r[i], r[j]);
    let pairs = [low(0, 1), high(0, 1), low(2, 3), high(2, 3), low(4, 5), high(4, 5), low(6, 7), high(6, 7)];
    let even = |i: usize, j: usize| _mm256_shuffle_ps::<0b01_00_01_00>(pairs[i], pairs[j]);
    let odd = |i: usize, j: usize| _mm256_shuffle_ps::<0b11_10_11_10>(pairs[i], pairs[j]);
    let fours = [even(0, 2), odd(0, 2), even(1, 3), odd(1, 3), even(4, 6), odd(4, 6), even(5, 7), odd(5, 7)];
    for j in 0..4 {
        let (upper, lower) = (fours[j], fours[j + 4]);
        // SAFETY: rows `j` and `j + 4` of the result.
        unsafe {
            _mm256_storeu_ps(to.add(j * to_row), _mm256_permute2f128_ps::<0x20>(upper, lower));
            _mm256_storeu_ps(to.add((j + 4) * to_row), _mm256_permute2f128_ps::<0x31>(upper, lower));
        }
    }
}
