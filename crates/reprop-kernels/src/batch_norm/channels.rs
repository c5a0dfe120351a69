//! Passes over rows of channels with one coefficient for each channel.
//!
//! A few vectors of channels are taken through all rows before the next ones: their coefficients and sums stay in registers,
//! which would else be read (and written) for every row, more often than the rows themselves. Each sum is the same chain of
//! rows either way.
//!
//! Rows of one operand may be further apart than its channels (`stride`): the pixels of a convolution's frame. Results that
//! are too long for the caches may be stored `past` them.

use crate::output::Base;
use crate::simd::{Simd, dispatch};

/// Vectors of channels that go through all rows together: so many chains of additions hide each other's latency.
const WIDE: usize = 4;

/// Runs a block for some vectors of `0..channels` at a time, the last one perhaps in part.
///
/// `columns!(s, channels, c, load, store, { … })`: in the block `load(s, x, c)` reads the `W` vectors of a row `x` from channel
/// `c` on (zeros beyond the end of the row) and `store(s, y, c, v)` writes those lanes that exist. The block is expanded for
/// [`WIDE`] vectors, for one, and for a part of one, as that of [`sweep!`](crate::sweep) is, for the same reason.
macro_rules! columns {
    ($s:ident, $channels:expr, $c:ident, $load:ident, $store:ident, $body:block) => {{
        let channels: usize = $channels;
        let mut $c = 0;
        columns!(@whole WIDE, $s, channels, $c, $load, $store, $body);
        columns!(@whole 1, $s, channels, $c, $load, $store, $body);
        if $c < channels {
            const W: usize = 1;
            #[allow(unused)]
            #[inline(always)]
            fn $load<S: Simd>(s: S, x: &[f32], c: usize) -> [S::V; W] {
                [s.load_part(&x[c..], 0.0)]
            }
            #[allow(unused)]
            #[inline(always)]
            fn $store<S: Simd>(s: S, y: &mut [f32], c: usize, v: [S::V; W]) {
                s.store_part(&mut y[c..], v[0]);
            }
            $body
        }
    }};
    (@whole $wide:expr, $s:ident, $channels:ident, $c:ident, $load:ident, $store:ident, $body:block) => {{
        const W: usize = $wide;
        #[allow(unused)]
        #[inline(always)]
        fn $load<S: Simd>(s: S, x: &[f32], c: usize) -> [S::V; W] {
            let x = &x[c..c + W * S::LANES];
            let mut v = [s.zero(); W];
            for w in 0..W {
                v[w] = s.load(&x[w * S::LANES..]);
            }
            v
        }
        #[allow(unused)]
        #[inline(always)]
        fn $store<S: Simd>(s: S, y: &mut [f32], c: usize, v: [S::V; W]) {
            let y = &mut y[c..c + W * S::LANES];
            for w in 0..W {
                s.store(&mut y[w * S::LANES..], v[w]);
            }
        }
        while $c + W * S::LANES <= $channels {
            $body
            $c += W * S::LANES;
        }
    }};
}

/// Stores vectors of a row: past the caches if `past`, which [`whole`] has to have granted.
macro_rules! put {
    ($s:ident, $store:ident, $past:ident, $y:expr, $c:expr, $v:expr) => {
        if $past {
            let at = &mut $y[$c..$c + W * S::LANES];
            for w in 0..W {
                // SAFETY: whole vectors, aligned because the first row is and rows are whole vectors.
                unsafe { $s.stream_ptr(at.as_mut_ptr().add(w * S::LANES), $v[w]) };
            }
        } else {
            $store($s, $y, $c, $v);
        }
    };
}

/// Whether rows of `channels` floats from the start of `y` on are whole vectors, aligned to their size.
#[inline(always)]
pub(crate) fn whole<S: Simd>(_: S, y: &[f32], channels: usize) -> bool {
    channels.is_multiple_of(S::LANES) && (y.as_ptr() as usize).is_multiple_of(S::LANES * size_of::<f32>())
}

dispatch! {
    /// Mean and centred squares of each channel of the rows in `x`, `stride` apart, into `out` (means, then squares).
    pub(crate) fn moments(s: Isa, x: &[&[f32]], stride: usize, channels: usize, out: &mut [f32]) {
        let (mean, squares) = out.split_at_mut(channels);
        let count = s.splat((x.iter().map(|x| x.len()).sum::<usize>() / stride).max(1) as f32);
        columns!(s, channels, c, load, store, {
            let (mut sum, mut square) = ([s.zero(); W], [s.zero(); W]);
            for x in x.iter().flat_map(|x| x.chunks_exact(stride)) {
                let x = load(s, &x[..channels], c);
                for w in 0..W {
                    sum[w] = s.add(sum[w], x[w]);
                }
            }
            for sum in &mut sum {
                *sum = s.div(*sum, count);
            }
            for x in x.iter().flat_map(|x| x.chunks_exact(stride)) {
                let x = load(s, &x[..channels], c);
                for w in 0..W {
                    let d = s.sub(x[w], sum[w]);
                    square[w] = s.fma(d, d, square[w]);
                }
            }
            store(s, mean, c, sum);
            store(s, squares, c, square);
        });
    }
}

dispatch! {
    /// `y = a x + b (+ skip)`, then ReLU if wanted; `map` begins with `a` and `b`.
    pub(crate) fn affine(
        s: Isa, x: &[f32], channels: usize, map: &[f32], skip: Option<&[f32]>, relu: bool, y: &mut [f32], stride: usize,
        past: bool,
    ) {
        let (a, b) = (&map[..channels], &map[channels..2 * channels]);
        let past = past && stride == channels && whole(s, y, channels);
        columns!(s, channels, c, load, store, {
            let (a, b) = (load(s, a, c), load(s, b, c));
            for (i, (x, y)) in x.chunks_exact(channels).zip(y.chunks_exact_mut(stride)).enumerate() {
                let (x, y) = (load(s, x, c), &mut y[..channels]);
                let mut v = [s.zero(); W];
                for w in 0..W {
                    v[w] = s.fma(x[w], a[w], b[w]);
                }
                if let Some(skip) = skip {
                    let skip = load(s, &skip[i * channels..(i + 1) * channels], c);
                    for w in 0..W {
                        v[w] = s.add(v[w], skip[w]);
                    }
                }
                if relu {
                    for v in &mut v {
                        // In this order what is not a number stays: x86 takes the second operand then.
                        *v = s.max(s.zero(), *v);
                    }
                }
                put!(s, store, past, y, c, v);
            }
        });
    }
}

/// What stands between a norm and the gradient from above.
#[derive(Clone, Copy)]
pub(crate) struct Mask<'a> {
    /// Whether a ReLU follows.
    pub relu: bool,
    /// What is added before that ReLU.
    pub skip: Option<&'a [f32]>,
    /// What is added to the gradient behind it.
    pub beside: Option<&'a [f32]>,
}

impl Mask<'_> {
    /// A ReLU alone.
    pub(crate) const RELU: Self = Self { relu: true, skip: None, beside: None };
}

dispatch! {
    /// `dz = dy` where `a x + b (+ skip) > 0` (everywhere without `relu`), else zero, `+ beside`; `sums` gets `Σ dz` and `Σ dz x̂`
    /// added. Rows of `dy` are `stride` apart; `map` holds `a`, `b`, `μ` and `r`.
    pub(crate) fn masked(
        s: Isa, dy: &[f32], stride: usize, x: &[f32], map: &[f32], mask: Mask, dz: &mut [f32], sums: &mut [f32],
        past: bool,
    ) {
        let Mask { relu, skip, beside } = mask;
        let channels = map.len() / 4;
        let past = past && whole(s, dz, channels);
        let (a, rest) = map.split_at(channels);
        let (b, rest) = rest.split_at(channels);
        let (mean, r) = rest.split_at(channels);
        let (firsts, seconds) = sums.split_at_mut(channels);
        columns!(s, channels, c, load, store, {
            let (a, b, mean, r) = (load(s, a, c), load(s, b, c), load(s, mean, c), load(s, r, c));
            let (mut first, mut second) = (load(s, firsts, c), load(s, seconds, c));
            let rows = x.chunks_exact(channels).zip(dy.chunks_exact(stride)).zip(dz.chunks_exact_mut(channels));
            for (i, ((x, dy), dz)) in rows.enumerate() {
                let row = i * channels..(i + 1) * channels;
                let (x, mut d) = (load(s, x, c), load(s, &dy[..channels], c));
                if relu {
                    let mut z = [s.zero(); W];
                    for w in 0..W {
                        z[w] = s.fma(x[w], a[w], b[w]);
                    }
                    if let Some(skip) = skip {
                        let skip = load(s, &skip[row.clone()], c);
                        for w in 0..W {
                            z[w] = s.add(z[w], skip[w]);
                        }
                    }
                    for w in 0..W {
                        d[w] = s.select_gt(z[w], s.zero(), d[w], s.zero());
                    }
                }
                if let Some(beside) = beside {
                    let beside = load(s, &beside[row], c);
                    for w in 0..W {
                        d[w] = s.add(d[w], beside[w]);
                    }
                }
                for w in 0..W {
                    let hat = s.mul(s.sub(x[w], mean[w]), r[w]);
                    first[w] = s.add(first[w], d[w]);
                    second[w] = s.fma(d[w], hat, second[w]);
                }
                put!(s, store, past, dz, c, d);
            }
            store(s, firsts, c, first);
            store(s, seconds, c, second);
        });
    }
}

dispatch! {
    /// `dx = k₁ dy + k₂ (x - μ) + k₃`; `back` holds `k₁`, `k₂`, `k₃` and `μ`; rows of `dx` are `stride` apart.
    pub(crate) fn gradient(s: Isa, dy: &[f32], x: &[f32], back: &[f32], dx: &mut [f32], stride: usize) {
        let channels = back.len() / 4;
        let (k1, rest) = back.split_at(channels);
        let (k2, rest) = rest.split_at(channels);
        let (k3, mean) = rest.split_at(channels);
        columns!(s, channels, c, load, store, {
            let (k1, k2, k3, mean) = (load(s, k1, c), load(s, k2, c), load(s, k3, c), load(s, mean, c));
            let rows = dy.chunks_exact(channels).zip(x.chunks_exact(channels)).zip(dx.chunks_exact_mut(stride));
            for ((dy, x), dx) in rows {
                let (dy, mut v) = (load(s, dy, c), load(s, x, c));
                for w in 0..W {
                    let rest = s.fma(k2[w], s.sub(v[w], mean[w]), k3[w]);
                    v[w] = s.fma(k1[w], dy[w], rest);
                }
                store(s, &mut dx[..channels], c, v);
            }
        });
    }
}

dispatch! {
    /// `y = x` in rows of `channels` floats, those of `x` being `stride` apart, the last one perhaps shorter.
    pub(crate) fn copy_pixels(s: Isa, x: &[f32], stride: usize, channels: usize, y: &mut [f32], past: bool) {
        let past = past && whole(s, y, channels);
        for (x, y) in x.chunks(stride).zip(y.chunks_exact_mut(channels)) {
            let x = &x[..channels];
            columns!(s, channels, c, load, store, {
                let v = load(s, x, c);
                put!(s, store, past, y, c, v);
            });
        }
    }
}

dispatch! {
    /// `dx = base + d (+ skip)`, the pixels of `d` being `stride` apart.
    pub(crate) fn add_pixels(
        s: Isa, d: &[f32], stride: usize, channels: usize, skip: Option<&[f32]>, base: Base, dx: &mut [f32],
        past: bool,
    ) {
        let past = past && whole(s, dx, channels);
        for (i, (d, dx)) in d.chunks_exact(stride).zip(dx.chunks_exact_mut(channels)).enumerate() {
            let span = i * channels..(i + 1) * channels;
            let skip = skip.map(|skip| &skip[span.clone()]);
            let d = &d[..channels];
            columns!(s, channels, c, load, store, {
                let mut v = load(s, d, c);
                if let Some(skip) = skip {
                    let skip = load(s, skip, c);
                    for w in 0..W {
                        v[w] = s.add(v[w], skip[w]);
                    }
                }
                let base = match base {
                    Base::Nothing => None,
                    Base::Itself => Some(load(s, dx, c)),
                    Base::Other(base) => Some(load(s, &base[span.clone()], c)),
                };
                if let Some(base) = base {
                    for w in 0..W {
                        v[w] = s.add(v[w], base[w]);
                    }
                }
                put!(s, store, past, dx, c, v);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;
    use crate::simd::{Isa, fence};

    /// Results of every pass that may store past the caches, for rows of `channels` floats from float `shift` of a line on.
    fn passes(isa: Isa, channels: usize, shift: usize, past: bool) -> Vec<Memory> {
        let rows = 5;
        let len = rows * channels;
        let wave = |seed: usize, len: usize| -> Vec<f32> {
            (0..len).map(|i| ((i * 37 + seed) % 19) as f32 - 9.0).collect()
        };
        let (x, dy, map) = (wave(1, len), wave(2, len), wave(3, 4 * channels));
        let mut out: Vec<_> = (0..4).map(|_| Memory::zeros(shift + len)).collect();
        let [affined, dz, copied, dx] = &mut out[..] else { unreachable!("four results") };
        let mut sums = vec![0.0; 2 * channels];
        affine(isa, &x, channels, &map, Some(&dy), true, &mut affined[shift..], channels, past);
        masked(isa, &dy, channels, &x, &map, Mask::RELU, &mut dz[shift..], &mut sums, past);
        copy_pixels(isa, &x, channels, channels, &mut copied[shift..], past);
        add_pixels(isa, &x, channels, channels, Some(&dy), Base::Nothing, &mut dx[shift..], past);
        fence();
        out
    }

    #[test]
    fn what_is_stored_past_the_caches_is_the_same() {
        for isa in Isa::available() {
            for (channels, shift) in [(16, 0), (64, 0), (64, 3), (7, 0), (20, 0)] {
                let pairs =
                    passes(isa, channels, shift, true).into_iter().zip(passes(isa, channels, shift, false));
                for (past, cached) in pairs {
                    assert_eq!(past[..], cached[..], "{} {channels} {shift}", isa.name());
                }
            }
        }
    }
}
