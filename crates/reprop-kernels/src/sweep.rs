//! Elementwise loops over slices of any length.

/// Runs a block for each vector of `0..len`, the last one perhaps in part.
///
/// `sweep!(s, len, i, load, store, { … })`: in the block `load(s, x, i, fill)` reads the lanes of `x` at `i` (`fill` beyond
/// the end) and `store(s, y, i, v)` writes those that exist. The block is expanded twice, for whole and for partial
/// vectors: a closure instead would have to be inlined for its vector instructions to be, which nothing promises.
macro_rules! sweep {
    ($s:ident, $len:expr, $i:ident, $load:ident, $store:ident, $body:block) => {{
        let len: usize = $len;
        let whole = len - len % S::LANES;
        let mut $i = 0;
        {
            #[allow(unused)]
            #[inline(always)]
            fn $load<S: $crate::simd::Simd>(s: S, x: &[f32], i: usize, _fill: f32) -> S::V {
                s.load(&x[i..])
            }
            #[allow(unused)]
            #[inline(always)]
            fn $store<S: $crate::simd::Simd>(s: S, y: &mut [f32], i: usize, v: S::V) {
                s.store(&mut y[i..], v);
            }
            while $i < whole {
                $body
                $i += S::LANES;
            }
        }
        if $i < len {
            #[allow(unused)]
            #[inline(always)]
            fn $load<S: $crate::simd::Simd>(s: S, x: &[f32], i: usize, fill: f32) -> S::V {
                let end = x.len().min(i + S::LANES);
                s.load_part(&x[i..end], fill)
            }
            #[allow(unused)]
            #[inline(always)]
            fn $store<S: $crate::simd::Simd>(s: S, y: &mut [f32], i: usize, v: S::V) {
                let end = y.len().min(i + S::LANES);
                s.store_part(&mut y[i..end], v);
            }
            $body
        }
    }};
}
pub(crate) use sweep;
