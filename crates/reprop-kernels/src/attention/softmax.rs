//! Softmax of the rows of one head, with everything that is added to the scores; and its derivative.
//!
//! A row whose keys are all masked has no distribution; its probabilities are zero, and so is everything after it.

use crate::math::exp;
use crate::simd::dispatch;
use crate::sweep::sweep;

/// What is added to or hidden from one head's scores of one sample.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HeadMasks<'a> {
    /// Queries x keys.
    pub bias: Option<&'a [f32]>,
    /// Queries x keys, added too.
    pub group: Option<&'a [f32]>,
    /// One for each key: `-inf` hides it, zero does not.
    pub keys: Option<&'a [f32]>,
    /// Query `i` sees keys up to `i`.
    pub causal: bool,
}

dispatch! {
    /// Rows `first..` of `scores` (`keys` wide, `row` apart) become probabilities of `scale scores + masks`; the rows'
    /// padding becomes zero.
    pub(crate) fn softmax_rows(
        s: Isa, scores: &mut [f32], row: usize, keys: usize, first: usize, scale: f32, masks: HeadMasks,
    ) {
        for (i, p) in scores.chunks_exact_mut(row).enumerate() {
            let query = first + i;
            let seen = if masks.causal { keys.min(query + 1) } else { keys };
            // Whole vectors, the last one's lanes beyond `seen` as if their keys were hidden: a load that follows a store of some
            // lanes has to wait until that store has reached the cache.
            let wide = seen.next_multiple_of(S::LANES);
            p[wide..].fill(0.0);
            let mut top = s.splat(f32::NEG_INFINITY);
            sweep!(s, seen, j, load, store, {
                let mut v = s.mul(load(s, &p[..seen], j, f32::NEG_INFINITY), s.splat(scale));
                if let Some(bias) = masks.bias {
                    v = s.add(v, load(s, &bias[query * keys..query * keys + seen], j, 0.0));
                }
                if let Some(group) = masks.group {
                    v = s.add(v, load(s, &group[query * keys..query * keys + seen], j, 0.0));
                }
                if let Some(hidden) = masks.keys {
                    // Not a sum: a hidden key's score may be anything.
                    let hidden = load(s, &hidden[..seen], j, 0.0);
                    v = s.select_gt(s.zero(), hidden, s.splat(f32::NEG_INFINITY), v);
                }
                top = s.max(top, v);
                s.store(&mut p[j..], v);
            });
            let top = s.top(top);
            // `-inf - -inf` would be NaN; any finite value gives the zeros that a row without keys must have.
            let top = s.splat(if top == f32::NEG_INFINITY { 0.0 } else { top });
            let mut sum = s.zero();
            for p in p[..wide].chunks_exact_mut(S::LANES) {
                let e = exp(s, s.sub(s.load(p), top));
                sum = s.add(sum, e);
                s.store(p, e);
            }
            let sum = s.sum(sum);
            let inverse = s.splat(if sum == 0.0 { 0.0 } else { 1.0 / sum });
            for p in p[..wide].chunks_exact_mut(S::LANES) {
                s.store(p, s.mul(s.load(p), inverse));
            }
        }
    }
}

dispatch! {
    /// `dp` becomes `scale dS`; `dbias`, if wanted, gets `dS` added.
    pub(crate) fn softmax_back(
        s: Isa, p: &[f32], dp: &mut [f32], row: usize, keys: usize, scale: f32, dbias: Option<&mut [f32]>,
    ) {
        let mut dbias = dbias.map(|d| d.chunks_exact_mut(keys));
        for (p, dp) in p.chunks_exact(row).zip(dp.chunks_exact_mut(row)) {
            let mut sum = s.zero();
            sweep!(s, keys, j, load, store, {
                sum = s.fma(load(s, &p[..keys], j, 0.0), load(s, &dp[..keys], j, 0.0), sum);
            });
            let sum = s.splat(s.sum(sum));
            if let Some(dbias) = dbias.as_mut().and_then(Iterator::next) {
                sweep!(s, keys, j, load, store, {
                    let d = s.sub(load(s, &dp[..keys], j, 0.0), sum);
                    let b = s.fma(load(s, &p[..keys], j, 0.0), d, load(s, dbias, j, 0.0));
                    store(s, dbias, j, b);
                });
            }
            sweep!(s, keys, j, load, store, {
                let d = s.sub(load(s, &dp[..keys], j, 0.0), sum);
                let d = s.mul(s.mul(load(s, &p[..keys], j, 0.0), d), s.splat(scale));
                store(s, &mut dp[..keys], j, d);
            });
        }
    }
}
