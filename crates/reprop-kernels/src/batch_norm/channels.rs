//! Passes over rows of channels with one coefficient for each channel.
//!
//! Rows of one operand may be further apart than its channels (`stride`): the pixels of a convolution's frame. Results that
//! are too long for the caches may be stored `past` them.

use crate::output::Base;
use crate::simd::{Simd, dispatch};
use crate::sweep::sweep;

/// Stores a vector of a row: past the caches if `past`, which [`whole`] has to have granted.
macro_rules! put {
    ($s:ident, $store:ident, $past:ident, $y:expr, $c:expr, $v:expr) => {
        if $past {
            let at = &mut $y[$c..$c + S::LANES];
            // SAFETY: a whole vector, aligned because the first row is and rows are whole vectors.
            unsafe { $s.stream_ptr(at.as_mut_ptr(), $v) };
        } else {
            $store($s, $y, $c, $v);
        }
    };
}

/// Whether rows of `channels` floats from the start of `y` on are whole vectors, aligned to their size.
#[inline(always)]
fn whole<S: Simd>(_: S, y: &[f32], channels: usize) -> bool {
    channels.is_multiple_of(S::LANES) && (y.as_ptr() as usize).is_multiple_of(S::LANES * size_of::<f32>())
}

dispatch! {
    /// Mean and centred squares of each channel of the rows in `x`, `stride` apart, into `out` (means, then squares).
    pub(crate) fn moments(s: Isa, x: &[&[f32]], stride: usize, channels: usize, out: &mut [f32]) {
        let (mean, squares) = out.split_at_mut(channels);
        mean.fill(0.0);
        squares.fill(0.0);
        for x in x.iter().flat_map(|x| x.chunks_exact(stride)) {
            sweep!(s, channels, c, load, store, {
                let sum = s.add(load(s, mean, c, 0.0), load(s, x, c, 0.0));
                store(s, mean, c, sum);
            });
        }
        let count = (x.iter().map(|x| x.len()).sum::<usize>() / stride).max(1) as f32;
        for m in mean.iter_mut() {
            *m /= count;
        }
        for x in x.iter().flat_map(|x| x.chunks_exact(stride)) {
            sweep!(s, channels, c, load, store, {
                let d = s.sub(load(s, x, c, 0.0), load(s, mean, c, 0.0));
                let sum = s.fma(d, d, load(s, squares, c, 0.0));
                store(s, squares, c, sum);
            });
        }
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
        for (i, (x, y)) in x.chunks_exact(channels).zip(y.chunks_exact_mut(stride)).enumerate() {
            let skip = skip.map(|skip| &skip[i * channels..(i + 1) * channels]);
            let y = &mut y[..channels];
            sweep!(s, channels, c, load, store, {
                let mut v = s.fma(load(s, x, c, 0.0), load(s, a, c, 0.0), load(s, b, c, 0.0));
                if let Some(skip) = skip {
                    v = s.add(v, load(s, skip, c, 0.0));
                }
                put!(s, store, past, y, c, if relu { s.max(v, s.zero()) } else { v });
            });
        }
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
    /// added. Rows of `dy` are `dy.len() / rows` apart; `map` holds `a`, `b`, `μ` and `r`.
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
        let (first, second) = sums.split_at_mut(channels);
        let rows = x.chunks_exact(channels).zip(dy.chunks_exact(stride)).zip(dz.chunks_exact_mut(channels));
        for (i, ((x, dy), dz)) in rows.enumerate() {
            let row = i * channels..(i + 1) * channels;
            let skip = skip.map(|skip| &skip[row.clone()]);
            let beside = beside.map(|beside| &beside[row]);
            let dy = &dy[..channels];
            sweep!(s, channels, c, load, store, {
                let v = load(s, x, c, 0.0);
                let mut d = load(s, dy, c, 0.0);
                if relu {
                    let mut z = s.fma(v, load(s, a, c, 0.0), load(s, b, c, 0.0));
                    if let Some(skip) = skip {
                        z = s.add(z, load(s, skip, c, 0.0));
                    }
                    d = s.select_gt(z, s.zero(), d, s.zero());
                }
                if let Some(beside) = beside {
                    d = s.add(d, load(s, beside, c, 0.0));
                }
                let hat = s.mul(s.sub(v, load(s, mean, c, 0.0)), load(s, r, c, 0.0));
                let sum = s.add(load(s, first, c, 0.0), d);
                store(s, first, c, sum);
                let sum = s.fma(d, hat, load(s, second, c, 0.0));
                store(s, second, c, sum);
                put!(s, store, past, dz, c, d);
            });
        }
    }
}

dispatch! {
    /// `dx = k₁ dy + k₂ (x - μ) + k₃`; `back` holds `k₁`, `k₂`, `k₃` and `μ`; rows of `dx` are `stride` apart.
    pub(crate) fn gradient(s: Isa, dy: &[f32], x: &[f32], back: &[f32], dx: &mut [f32], stride: usize) {
        let channels = back.len() / 4;
        let (k1, rest) = back.split_at(channels);
        let (k2, rest) = rest.split_at(channels);
        let (k3, mean) = rest.split_at(channels);
        let rows = dy.chunks_exact(channels).zip(x.chunks_exact(channels)).zip(dx.chunks_exact_mut(stride));
        for ((dy, x), dx) in rows {
            let dx = &mut dx[..channels];
            sweep!(s, channels, c, load, store, {
                let centred = s.sub(load(s, x, c, 0.0), load(s, mean, c, 0.0));
                let v = s.fma(load(s, k2, c, 0.0), centred, load(s, k3, c, 0.0));
                store(s, dx, c, s.fma(load(s, k1, c, 0.0), load(s, dy, c, 0.0), v));
            });
        }
    }
}

dispatch! {
    /// `y = x` in rows of `channels` floats, those of `x` being `stride` apart.
    pub(crate) fn copy_pixels(s: Isa, x: &[f32], stride: usize, channels: usize, y: &mut [f32], past: bool) {
        let past = past && whole(s, y, channels);
        for (x, y) in x.chunks_exact(stride).zip(y.chunks_exact_mut(channels)) {
            let x = &x[..channels];
            sweep!(s, channels, c, load, store, {
                put!(s, store, past, y, c, load(s, x, c, 0.0));
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
            sweep!(s, channels, c, load, store, {
                let mut v = load(s, d, c, 0.0);
                if let Some(skip) = skip {
                    v = s.add(v, load(s, skip, c, 0.0));
                }
                match base {
                    Base::Nothing => {}
                    Base::Itself => v = s.add(v, load(s, dx, c, 0.0)),
                    Base::Other(base) => v = s.add(v, load(s, &base[span.clone()], c, 0.0)),
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
