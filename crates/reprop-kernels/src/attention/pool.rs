//! The pool of pooled attention: a depthwise 3x3 convolution, the same for each head, and a norm over a head's width.
//!
//! `z = conv(x)`, `y = norm(z)`. Saved: `z` and the norm's statistics; `y` is computed again from them.

use super::heads::Rows;
use crate::conv::{Depthwise, Images, Slide};
use crate::layer_norm::{LayerNorm, NormGrads};
use crate::output::Base;
use crate::sixteen::Rounds;
use crate::workspace::{Buffer, Workspace};

/// Side of the convolution, and its area.
const KERNEL: usize = 3;
const TAPS: usize = KERNEL * KERNEL;

/// Parameters of a pool.
#[derive(Clone, Copy, Debug)]
pub struct Pool<'a> {
    /// Distance between places.
    pub stride: usize,
    /// Head width x 9.
    pub weight: &'a [f32],
    /// Over a head's width.
    pub norm: LayerNorm<'a>,
}

/// Where a pool's gradients go; each is overwritten.
#[derive(Debug)]
pub struct PoolGrads<'a> {
    /// Head width x 9.
    pub weight: &'a mut [f32],
    /// The norm's.
    pub norm: NormGrads<'a>,
}

/// The convolution's result and the norm's statistics.
#[derive(Debug)]
pub(super) struct PoolSaved {
    z: Buffer,
    stats: Buffer,
}

impl Rounds for PoolSaved {
    fn values(&mut self) -> impl Iterator<Item = &mut Buffer> {
        [&mut self.z].into_iter()
    }
}

impl Pool<'_> {
    /// The images that come out.
    pub fn output(&self, images: Images) -> Images {
        self.slide().output(images)
    }

    pub(super) fn forward(
        &self,
        images: Images,
        heads: usize,
        x: Rows,
        ws: &Workspace,
    ) -> (Buffer, PoolSaved) {
        let width = heads * self.norm.width();
        let pixels = self.output(images).len(1);
        let taps = self.taps(heads, ws);
        let (mut y, mut z) = (ws.take(pixels * width), ws.take(pixels * width));
        self.conv(images, width, x.stride, &taps).forward(x.data, &mut z, ws);
        let mut stats = ws.take(2 * pixels * heads);
        self.norm.forward(&z, &mut y, &mut stats, ws);
        (y, PoolSaved { z, stats })
    }

    /// What [`Self::forward`] gave.
    pub(super) fn again(&self, saved: &PoolSaved, ws: &Workspace) -> Buffer {
        let mut y = ws.take(saved.z.len());
        self.norm.again(&saved.z, &saved.stats, &mut y, ws);
        y
    }

    /// From `dy`, which is used up, the gradients of `x`, in rows as far apart, and of the parameters.
    pub(super) fn vjp(
        &self,
        images: Images,
        (x, dx): (Rows, &mut [f32]),
        PoolSaved { z, stats }: PoolSaved,
        dy: Buffer,
        grads: PoolGrads,
        ws: &Workspace,
    ) {
        let head = self.norm.width();
        let heads = stats.len() / 2 / self.output(images).len(1).max(1);
        let taps = self.taps(heads, ws);
        let mut dz = ws.take(z.len());
        self.norm.vjp(&z, &stats, &dy, &mut dz, Base::Nothing, grads.norm, ws);
        drop(dy);
        let mut d_taps = ws.take(taps.len());
        let conv = self.conv(images, heads * head, x.stride, &taps);
        conv.vjp(x.data, &dz, dx, &mut d_taps, ws);
        for (at, d) in grads.weight.iter_mut().enumerate() {
            let (channel, tap) = (at / TAPS, at % TAPS);
            *d = (0..heads).map(|h| d_taps[(tap * heads + h) * head + channel]).sum();
        }
    }

    fn slide(&self) -> Slide {
        Slide { kernel: KERNEL, stride: self.stride, padding: KERNEL / 2 }
    }

    fn conv<'b>(&self, images: Images, channels: usize, pitch: usize, weight: &'b [f32]) -> Depthwise<'b> {
        Depthwise { images, slide: self.slide(), channels, pitch, weight }
    }

    /// The weight as 9 x width, once for each head.
    fn taps(&self, heads: usize, ws: &Workspace) -> Buffer {
        let head = self.norm.width();
        assert_eq!(self.weight.len(), head * TAPS, "a pool's weight must be {head} x {TAPS}");
        let mut taps = ws.take(TAPS * heads * head);
        for (tap, row) in taps.chunks_exact_mut((heads * head).max(1)).enumerate() {
            for head in row.chunks_exact_mut(head) {
                head.iter_mut().zip(self.weight.chunks_exact(TAPS)).for_each(|(w, taps)| *w = taps[tap]);
            }
        }
        taps
    }
}
