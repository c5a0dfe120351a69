//! Where a convolution's images come from: tensors, perhaps through a norm, one row of pixels at a time.

use super::Images;
use crate::batch_norm::{affine, gradient};
use crate::simd::Isa;

/// Images that a convolution reads.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub images: Images,
    pub channels: usize,
    pub kind: Kind<'a>,
}

/// What is read, and what becomes of it on the way.
#[derive(Clone, Copy)]
pub(crate) enum Kind<'a> {
    /// A tensor as it is.
    Plain(&'a [f32]),
    /// `relu(a c + b)`.
    Activated { c: &'a [f32], map: &'a [f32] },
    /// A norm's derivative of `dn`.
    ThroughNorm { dn: &'a [f32], c: &'a [f32], back: &'a [f32] },
}

impl Source<'_> {
    /// Writes row `y` of image `image` as pixels `depth` floats apart.
    pub(super) fn fill(&self, isa: Isa, image: usize, y: usize, row: &mut [f32], depth: usize) {
        let (at, len) = (image * self.images.height + y, self.images.width * self.channels);
        let span = at * len..(at + 1) * len;
        match self.kind {
            Kind::Plain(x) if depth == self.channels => row.copy_from_slice(&x[span]),
            Kind::Plain(x) => {
                for (to, from) in row.chunks_exact_mut(depth).zip(x[span].chunks_exact(self.channels)) {
                    to[..self.channels].copy_from_slice(from);
                }
            }
            Kind::Activated { c, map } => {
                affine(isa, &c[span], self.channels, map, None, true, row, depth, false);
            }
            Kind::ThroughNorm { dn, c, back } => gradient(isa, &dn[span.clone()], &c[span], back, row, depth),
        }
    }
}
