//! Where a convolution's images come from: tensors, perhaps through a norm, one row of pixels at a time.

use super::Images;
use crate::batch_norm::{affine, gradient};
use crate::simd::{Isa, dispatch};

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
        let span = self.span(image * self.images.height + y, 1);
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

    /// Asks the caches for part `part` of `parts` of what `rows` rows from row `first` of all images are read from.
    pub(super) fn fetch(&self, isa: Isa, (first, rows): (usize, usize), part: usize, parts: usize) {
        let span = self.span(first, rows);
        let (start, len) = (span.start, span.len());
        let cut = |i: usize| start + len * i / parts;
        let piece = cut(part)..cut(part + 1);
        match self.kind {
            Kind::Plain(x) | Kind::Activated { c: x, .. } => fetch(isa, &x[piece]),
            Kind::ThroughNorm { dn, c, .. } => {
                fetch(isa, &dn[piece.clone()]);
                fetch(isa, &c[piece]);
            }
        }
    }

    /// Floats of some rows, cut at the end of the last image.
    fn span(&self, first: usize, rows: usize) -> std::ops::Range<usize> {
        let (row, all) = (self.images.width * self.channels, self.images.batch * self.images.height);
        first.min(all) * row..(first + rows).min(all) * row
    }
}

dispatch! {
    fn fetch(s: Isa, floats: &[f32]) {
        for line in floats.chunks(LINE) {
            s.prefetch_far(line.as_ptr());
        }
    }
}

/// Floats of a cache line.
const LINE: usize = 16;
