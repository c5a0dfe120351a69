//! Batch norm over rows (samples, pixels) of channels.
//!
//! Training: `μ`, `σ²` of each channel over all rows, `r = 1 / sqrt(σ² + ε)`, `x̂ = (x - μ) r`, `y = γ x̂ + β`. With
//! `S₁ = Σ dy`, `S₂ = Σ dy x̂` over `N` rows: `dγ = S₂`, `dβ = S₁`, `dx = γ r (dy - S₁ / N - x̂ S₂ / N)`: in each channel an affine
//! map of `dy` and `x - μ`, which a convolution's derivative can apply while it reads. Evaluation: the same map with fixed `μ`, `σ²`.
//!
//! Moments are taken in parts: mean and centred squares of each part, combined in `f64` (Chan, Golub & LeVeque), so that no
//! large numbers cancel.

mod behind;
mod channels;
mod entering;

pub use behind::{Behind, OutputGradient};
pub(crate) use channels::{Mask, add_pixels, affine, copy_pixels, gradient, masked, moments, whole};
pub use entering::{Term, enter};

use std::ops::Range;

use crate::gemm::blocks;
use crate::halves::join_rows;
use crate::share::Shared;
use crate::tasks::for_each;
use crate::workspace::{Buffer, Workspace, beyond_caches};

/// Parameters of a batch norm.
#[derive(Clone, Copy, Debug)]
pub struct BatchNorm<'a> {
    /// `γ`, one for each channel.
    pub scale: &'a [f32],
    /// `β`, one for each channel.
    pub bias: &'a [f32],
    /// `ε`.
    pub eps: f32,
}

/// Mean and biased variance of each channel.
#[derive(Debug)]
pub struct Moments {
    /// `μ`.
    pub mean: Buffer,
    /// `σ²`.
    pub variance: Buffer,
    /// How many rows they were taken from; nothing if they are given, and constants to a derivative.
    pub rows: Option<usize>,
}

/// What comes to a norm's output from above.
#[derive(Clone, Copy, Debug)]
pub struct Above<'a> {
    /// The gradient of the output, or of its ReLU.
    pub dy: &'a [f32],
    /// That of the last channels, if `dy` has it of the first alone.
    pub rest: Option<&'a [f32]>,
    /// Whether a ReLU follows.
    pub relu: bool,
    /// What is added to the gradient of the output before its ReLU: from a second reader.
    pub beside: Option<&'a [f32]>,
}

impl<'a> Above<'a> {
    /// The gradient of the output, with no ReLU behind it.
    pub fn output(dy: &'a [f32]) -> Self {
        Self { dy, rest: None, relu: false, beside: None }
    }
}

/// Where a batch norm's parameter gradients go; both are overwritten.
#[derive(Debug)]
pub struct BatchNormGrads<'a> {
    /// `dγ`.
    pub scale: &'a mut [f32],
    /// `dβ`.
    pub bias: &'a mut [f32],
}

/// Rows of a part: enough to outweigh a task, few enough to stay in cache between the two passes over them.
const PART: usize = 512;

/// Floats that go through several passes while they are in a first-level cache: a third of it.
const FEW: usize = 1 << 12;

/// As many rows of `channels`.
fn few_rows(channels: usize) -> usize {
    (FEW / channels.max(1)).max(1)
}

/// Some rows of `wide` floats.
fn of_rows<'a>(x: &'a [f32], rows: &Range<usize>, wide: usize) -> &'a [f32] {
    &x[rows.start * wide..rows.end * wide]
}

impl BatchNorm<'_> {
    /// Channels.
    pub fn channels(&self) -> usize {
        self.scale.len()
    }

    /// Training: moments of `x` (rows x channels) and `y`.
    ///
    /// # Panics
    /// If lengths do not fit.
    pub fn forward(&self, x: &[f32], y: &mut [f32], ws: &Workspace) -> Moments {
        let moments = Moments::of(x, self.channels(), ws);
        self.apply(x, &moments, None, false, y, ws);
        moments
    }

    /// `y` with given moments, plus `skip`, then ReLU if wanted.
    ///
    /// # Panics
    /// If lengths do not fit.
    pub fn apply(
        &self,
        x: &[f32],
        moments: &Moments,
        skip: Option<&[f32]>,
        relu: bool,
        y: &mut [f32],
        ws: &Workspace,
    ) {
        assert_eq!(x.len(), y.len(), "x and y differ");
        let channels = self.channels();
        let map = self.map(moments, ws);
        let past = beyond_caches(y.len());
        let size = PART * channels;
        let y = Shared::new(y);
        for_each(x.len().div_ceil(size.max(1)), |part| {
            let span = part * size..((part + 1) * size).min(x.len());
            // SAFETY: parts do not overlap.
            let y = unsafe { y.slice(span.clone()) };
            let skip = skip.map(|skip| &skip[span.clone()]);
            affine(ws.isa(), &x[span], channels, &map, skip, relu, y, channels, past);
        });
    }

    /// `dx` from `x`, its moments and what comes from above, and the parameters' gradients.
    ///
    /// # Panics
    /// If lengths do not fit.
    pub fn vjp(
        &self,
        x: &[f32],
        saved: &Moments,
        above: Above,
        dx: &mut [f32],
        grads: BatchNormGrads,
        ws: &Workspace,
    ) {
        assert_eq!(x.len(), dx.len(), "x and dx differ");
        self.behind(x, saved, above, grads, ws).of(x).write(dx, ws);
    }

    /// What [`Self::vjp`] makes `dx` from, for a convolution's derivative to read it through, and the parameters' gradients.
    ///
    /// # Panics
    /// If lengths do not fit.
    pub fn behind(
        &self,
        x: &[f32],
        saved: &Moments,
        above: Above,
        grads: BatchNormGrads,
        ws: &Workspace,
    ) -> Behind {
        let Above { dy, rest, relu, beside } = above;
        assert_eq!(x.len(), dy.len() + rest.map_or(0, <[f32]>::len), "x and dy differ");
        let channels = self.channels();
        let rows = x.len() / channels.max(1);
        let map = self.map(saved, ws);
        let (mut dz, mut sums) = (ws.take(x.len()), ws.take_zeroed(rows.div_ceil(PART) * 2 * channels));
        let left = dy.len() / rows.max(1);
        // What is put together lies beside it in the first cache.
        let few = if rest.is_some() { few_rows(channels) } else { few_rows(channels.div_ceil(2)) };
        let past = beyond_caches(x.len());
        {
            let (dz, sums) = (Shared::new(&mut dz), Shared::new(&mut sums));
            for_each(rows.div_ceil(PART), |part| {
                let sums_at = part * 2 * channels..(part + 1) * 2 * channels;
                // SAFETY: each part has its own sums.
                let sums = unsafe { sums.slice(sums_at) };
                let mut room = ws.take(if rest.is_some() { few * channels } else { 0 });
                for some in blocks(PART.min(rows - part * PART), few) {
                    let rows = part * PART + some.start..part * PART + some.end;
                    let at = rows.start * channels..rows.end * channels;
                    // SAFETY: parts do not overlap.
                    let dz = unsafe { dz.slice(at.clone()) };
                    let of_half = |half, wide| of_rows(half, &rows, wide);
                    let dy = if let Some(rest) = rest {
                        let (wide, joined) = ((left, channels - left), &mut room[..at.len()]);
                        join_rows((of_half(dy, wide.0), of_half(rest, wide.1)), wide, joined);
                        joined
                    } else {
                        of_half(dy, channels)
                    };
                    let mask = Mask { relu, skip: None, beside: beside.map(|beside| &beside[at.clone()]) };
                    masked(ws.isa(), dy, channels, &x[at], &map, mask, dz, sums, past);
                }
            });
        }
        let back = self.back(saved, &sums, grads, ws);
        Behind { dz, back }
    }

    /// `γ r`, `β - μ γ r`, `μ` and `r` of each channel: what [`affine`] and [`masked`] need.
    pub(crate) fn map(&self, moments: &Moments, ws: &Workspace) -> Buffer {
        let channels = self.channels();
        let mut map = ws.take(4 * channels);
        for c in 0..channels {
            let r = 1.0 / (moments.variance[c] + self.eps).sqrt();
            let a = self.scale[c] * r;
            map[c] = a;
            map[channels + c] = self.bias[c] - moments.mean[c] * a;
            map[2 * channels + c] = moments.mean[c];
            map[3 * channels + c] = r;
        }
        map
    }

    /// The coefficients `k₁, k₂, k₃` of `dx = k₁ dy + k₂ (x - μ) + k₃`, then `μ`; and `dγ`, `dβ`, from sums in parts.
    pub(crate) fn back(
        &self,
        moments: &Moments,
        sums: &[f32],
        grads: BatchNormGrads,
        ws: &Workspace,
    ) -> Buffer {
        let channels = self.channels();
        let mut back = ws.take(4 * channels);
        let mut totals = vec![0.0; 2 * channels];
        for part in sums.chunks_exact((2 * channels).max(1)) {
            totals.iter_mut().zip(part).for_each(|(total, &sum)| *total += f64::from(sum));
        }
        for c in 0..channels {
            let (first, second) = (totals[c], totals[channels + c]);
            let r = 1.0 / (f64::from(moments.variance[c]) + f64::from(self.eps)).sqrt();
            let a = f64::from(self.scale[c]) * r;
            // Given moments do not move with `x`, as if infinitely many rows had made them.
            let n = moments.rows.map_or(f64::INFINITY, |rows| rows.max(1) as f64);
            grads.bias[c] = first as f32;
            grads.scale[c] = second as f32;
            back[c] = a as f32;
            back[channels + c] = (-a * r * second / n) as f32;
            back[2 * channels + c] = (-a * first / n) as f32;
            back[3 * channels + c] = moments.mean[c];
        }
        back
    }
}

impl Moments {
    /// Moments as stored by a user: running statistics for evaluation.
    ///
    /// # Panics
    /// If lengths differ.
    pub fn from_slices(mean: &[f32], variance: &[f32], ws: &Workspace) -> Self {
        assert_eq!(mean.len(), variance.len(), "one mean and one variance for each channel");
        Self { mean: Buffer::copy_of(ws, mean), variance: Buffer::copy_of(ws, variance), rows: None }
    }

    /// Of `x` (rows x channels).
    ///
    /// # Panics
    /// If `x` does not hold whole rows.
    pub fn of(x: &[f32], channels: usize, ws: &Workspace) -> Self {
        let rows = x.len() / channels.max(1);
        assert_eq!(rows * channels, x.len(), "x must hold rows of {channels} channels");
        let mut parts = ws.take(rows.div_ceil(PART) * 2 * channels);
        {
            let parts = Shared::new(&mut parts);
            for_each(rows.div_ceil(PART), |part| {
                let span = part * PART * channels..((part + 1) * PART).min(rows) * channels;
                // SAFETY: each part has its own moments.
                let to = unsafe { parts.slice(part * 2 * channels..(part + 1) * 2 * channels) };
                moments(ws.isa(), &[&x[span]], channels, channels, to);
            });
        }
        let counts: Vec<usize> = blocks(rows, PART).map(|r| r.len()).collect();
        Self::combine(&parts, &counts, channels, ws)
    }

    /// From the mean and centred squares of parts of `counts` rows.
    pub(crate) fn combine(parts: &[f32], counts: &[usize], channels: usize, ws: &Workspace) -> Self {
        let rows = counts.iter().sum::<usize>();
        let mut moments = Self { mean: ws.take(channels), variance: ws.take(channels), rows: Some(rows) };
        let total = rows.max(1) as f64;
        // Part by part, all channels of one beside each other.
        let parts = || counts.iter().map(|&n| n as f64).zip(parts.chunks_exact((2 * channels).max(1)));
        let mut means = vec![0.0; channels];
        for (n, part) in parts() {
            means.iter_mut().zip(part).for_each(|(mean, &m)| *mean += n * f64::from(m));
        }
        for mean in &mut means {
            *mean /= total;
        }
        let mut squares = vec![0.0; channels];
        for (n, part) in parts() {
            let (part, centred) = part.split_at(channels);
            for (((sum, mean), &m), &centred) in squares.iter_mut().zip(&means).zip(part).zip(centred) {
                *sum += f64::from(centred) + n * (f64::from(m) - mean).powi(2);
            }
        }
        for c in 0..channels {
            moments.mean[c] = means[c] as f32;
            moments.variance[c] = (squares[c] / total) as f32;
        }
        moments
    }

    /// Moves running statistics towards these by `momentum`; the variance with Bessel's correction for `rows` rows.
    pub fn update_running(&self, rows: usize, momentum: f32, mean: &mut [f32], variance: &mut [f32]) {
        let correction = rows as f32 / (rows.max(2) - 1) as f32;
        for (running, batch) in mean.iter_mut().zip(self.mean.iter()) {
            *running += momentum * (batch - *running);
        }
        for (running, batch) in variance.iter_mut().zip(self.variance.iter()) {
            *running += momentum * (batch * correction - *running);
        }
    }
}
