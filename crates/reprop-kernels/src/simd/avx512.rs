//! AVX-512F: 16 lanes, 32 registers, products in 12 x 32 tiles (24 accumulators, 2 columns, 1 broadcast).

use core::arch::x86_64::{
    __m512, _CMP_GT_OQ, _CMP_UNORD_Q, _MM_FROUND_TO_NEAREST_INT, _MM_HINT_T0, _MM_HINT_T1, _mm_prefetch,
    _mm512_abs_ps, _mm512_add_epi32, _mm512_add_ps, _mm512_castsi512_ps, _mm512_cmp_ps_mask,
    _mm512_cvtps_epi32, _mm512_div_ps, _mm512_fmadd_ps, _mm512_fnmadd_ps, _mm512_loadu_ps,
    _mm512_mask_blend_ps, _mm512_mask_loadu_ps, _mm512_mask_storeu_ps, _mm512_max_ps, _mm512_min_ps,
    _mm512_mul_ps, _mm512_rcp14_ps, _mm512_roundscale_ps, _mm512_scalef_ps, _mm512_set1_epi32,
    _mm512_set1_ps, _mm512_slli_epi32, _mm512_sqrt_ps, _mm512_storeu_ps, _mm512_stream_ps, _mm512_sub_ps,
};

use super::Simd;
use crate::gemm::micro::{Tile, TileArgs, tile};

/// Proof that the CPU has AVX-512F (and the sets below it).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Avx512(());

impl Avx512 {
    pub(super) fn detect() -> Option<Self> {
        let there = std::arch::is_x86_feature_detected!("avx512f")
            && std::arch::is_x86_feature_detected!("avx2")
            && std::arch::is_x86_feature_detected!("fma");
        there.then_some(Self(()))
    }
}

impl Tile for Avx512 {
    const MR: usize = 12;
    const NR: usize = 32;

    #[inline(always)]
    unsafe fn tile(self, args: TileArgs) {
        // At the lower edge a lower tile: multiply-adds of rows that are not there would take as long as others, an eighth of a
        // product of 64 rows.
        // SAFETY: the caller's promise is the same, and `m` rows fit.
        unsafe {
            match args.m {
                0..=4 => tile::<Self, 4, 2>(self, args),
                5..=8 => tile::<Self, 8, 2>(self, args),
                _ => tile::<Self, 12, 2>(self, args),
            }
        }
    }
}

/// Calls intrinsics that need nothing but AVX-512F.
macro_rules! intrinsic {
    ($e:expr) => {
        // SAFETY: `self` proves that the CPU has AVX-512F, all that these intrinsics ask for.
        unsafe { $e }
    };
}

/// The first `count` lanes.
#[inline(always)]
fn first(count: usize) -> u16 {
    assert!(count <= Avx512::LANES, "{count} of {} lanes", Avx512::LANES);
    ((1_u32 << count) - 1) as u16
}

impl Simd for Avx512 {
    type V = __m512;
    const LANES: usize = 16;

    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        intrinsic!(_mm512_set1_ps(x))
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
    unsafe fn load_ptr(self, p: *const f32) -> __m512 {
        intrinsic!(_mm512_loadu_ps(p))
    }
    #[inline(always)]
    unsafe fn store_ptr(self, p: *mut f32, v: __m512) {
        intrinsic!(_mm512_storeu_ps(p, v));
    }
    #[inline(always)]
    fn load_part(self, src: &[f32], fill: f32) -> __m512 {
        // Lanes beyond the slice are not read.
        intrinsic!(_mm512_mask_loadu_ps(_mm512_set1_ps(fill), first(src.len()), src.as_ptr()))
    }
    #[inline(always)]
    fn store_part(self, dst: &mut [f32], v: __m512) {
        // Lanes beyond the slice are not written.
        intrinsic!(_mm512_mask_storeu_ps(dst.as_mut_ptr(), first(dst.len()), v));
    }
    #[inline(always)]
    unsafe fn stream_ptr(self, p: *mut f32, v: __m512) {
        intrinsic!(_mm512_stream_ps(p, v));
    }
    #[inline(always)]
    unsafe fn transpose(self, from: *const f32, from_row: usize, to: *mut f32, to_row: usize) {
        // SAFETY: the caller's promise, and a CPU with AVX-512F has AVX2.
        unsafe { super::avx2::transpose(from, from_row, to, to_row) }
    }
    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        intrinsic!(_mm512_add_ps(a, b))
    }
    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        intrinsic!(_mm512_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        intrinsic!(_mm512_mul_ps(a, b))
    }
    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        intrinsic!(_mm512_div_ps(a, b))
    }
    #[inline(always)]
    fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        intrinsic!(_mm512_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        intrinsic!(_mm512_max_ps(a, b))
    }
    #[inline(always)]
    fn largest(self, a: __m512, b: __m512) -> __m512 {
        let is_none = intrinsic!(_mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, a));
        intrinsic!(_mm512_mask_blend_ps(is_none, _mm512_max_ps(a, b), a))
    }
    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        intrinsic!(_mm512_min_ps(a, b))
    }
    #[inline(always)]
    fn sqrt(self, a: __m512) -> __m512 {
        intrinsic!(_mm512_sqrt_ps(a))
    }
    #[inline(always)]
    fn round(self, a: __m512) -> __m512 {
        intrinsic!(_mm512_roundscale_ps::<_MM_FROUND_TO_NEAREST_INT>(a))
    }
    #[inline(always)]
    fn pow2(self, n: __m512) -> __m512 {
        intrinsic!({
            let biased = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
            _mm512_castsi512_ps(_mm512_slli_epi32::<23>(biased))
        })
    }
    #[inline(always)]
    fn scale(self, a: __m512, n: __m512) -> __m512 {
        intrinsic!(_mm512_scalef_ps(a, n))
    }
    // A division of 16 lanes takes as long as 16 multiplications.
    #[inline(always)]
    fn reciprocal(self, a: __m512) -> __m512 {
        intrinsic!({
            // 14 bits are right; one step of Newton's doubles them.
            let r = _mm512_rcp14_ps(a);
            _mm512_fmadd_ps(r, _mm512_fnmadd_ps(a, r, _mm512_set1_ps(1.0)), r)
        })
    }
    #[inline(always)]
    fn abs(self, a: __m512) -> __m512 {
        intrinsic!(_mm512_abs_ps(a))
    }
    #[inline(always)]
    fn select_gt(self, a: __m512, b: __m512, x: __m512, y: __m512) -> __m512 {
        intrinsic!(_mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_GT_OQ>(a, b), y, x))
    }
}
