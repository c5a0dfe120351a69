//! The branch of a basic residual block, fused: `n₂ = norm₂(conv₂(relu(norm₁(conv₁(x)))))`, and at its end either
//! `f(x) = relu(n₂)`, the term of a reversible block, or `relu(n₂ + x)`, an ordinary block.
//!
//! Between convolutions nothing but their raw outputs `c₁`, `c₂` reaches memory: a convolution's frames are filled through
//! the norm and ReLU before it, and its output's moments are taken while an image is in cache. Backward likewise: masks come
//! from `c₁`, `c₂` again, a norm's derivative is applied while frames are filled, its sums are taken as images finish.
//! Saved: `c₁`, `c₂` and the moments.

use super::ring::Lines;
use super::source::{Kind, Source};
use super::three::{Conv3x3, copy_out};
use super::{Images, WinogradWeight};
use crate::batch_norm::{BatchNorm, BatchNormGrads, Mask, Moments, add_pixels, affine, masked, moments};
use crate::gemm::blocks;
use crate::grid::GridOverflow;
use crate::output::{Base, Output, Sink};
use crate::share::Shared;
use crate::sixteen::Rounds;
use crate::tasks::for_each;
use crate::workspace::{Buffer, Workspace, beyond_caches};

/// Rows of pixels that a convolution finishes at once.
const STRIP: usize = 4;

/// Pixels whose outputs are computed at once.
const FEW_PIXELS: usize = 64;

/// A 3x3 convolution and the batch norm after it.
#[derive(Clone, Copy, Debug)]
pub struct ConvNorm<'a> {
    /// The filters.
    pub weight: &'a WinogradWeight,
    /// The norm over the output channels.
    pub norm: BatchNorm<'a>,
}

/// Parameters of the branch.
#[derive(Clone, Copy, Debug)]
pub struct Branch<'a> {
    /// Input and output images.
    pub images: Images,
    /// The first convolution and norm, followed by ReLU.
    pub first: ConvNorm<'a>,
    /// The second convolution and norm.
    pub second: ConvNorm<'a>,
    /// Add `x` before the last ReLU.
    pub residual: bool,
}

/// What [`Branch::vjp`] needs beside `x`; the moments are also what running statistics move towards.
#[derive(Debug)]
pub struct BranchSaved {
    c1: Buffer,
    c2: Buffer,
    /// Of the first norm.
    pub first: Moments,
    /// Of the second norm.
    pub second: Moments,
}

impl Rounds for BranchSaved {
    fn values(&mut self) -> impl Iterator<Item = &mut Buffer> {
        [&mut self.c1, &mut self.c2].into_iter()
    }
}

/// Where a layer's gradients go; each is overwritten.
#[derive(Debug)]
pub struct ConvNormGrads<'a> {
    /// 3 x 3 x inputs x outputs.
    pub weight: &'a mut [f32],
    /// The norm's.
    pub norm: BatchNormGrads<'a>,
}

impl Branch<'_> {
    /// Training: `f(x)` with the batch's own moments, keeping what the derivative needs.
    ///
    /// # Errors
    /// If an output on a grid leaves its range.
    ///
    /// # Panics
    /// If shapes do not fit.
    pub fn forward_saving(
        &self,
        x: &[f32],
        output: &mut Output,
        ws: &Workspace,
    ) -> Result<BranchSaved, GridOverflow> {
        self.check(x);
        let (c1, first) = self.layer(self.first, Kind::Plain(x), ws);
        let map = self.first.norm.map(&first, ws);
        let (c2, second) = self.layer(self.second, Kind::Activated { c: &c1, map: &map }, ws);
        self.finish(x, &c2, &self.second.norm.map(&second, ws), output, ws)?;
        Ok(BranchSaved { c1, c2, first, second })
    }

    /// Evaluation: `f(x)` with given moments.
    ///
    /// # Errors
    /// If an output on a grid leaves its range.
    ///
    /// # Panics
    /// If shapes do not fit.
    pub fn forward_eval(
        &self,
        x: &[f32],
        [first, second]: [&Moments; 2],
        output: &mut Output,
        ws: &Workspace,
    ) -> Result<(), GridOverflow> {
        self.check(x);
        let (c1, _) = self.layer(self.first, Kind::Plain(x), ws);
        let map = self.first.norm.map(first, ws);
        let (c2, _) = self.layer(self.second, Kind::Activated { c: &c1, map: &map }, ws);
        self.finish(x, &c2, &self.second.norm.map(second, ws), output, ws)
    }

    /// Gradients from `dy`: `dx = base + …`, parameters' overwritten.
    ///
    /// # Panics
    /// If shapes do not fit.
    pub fn vjp(
        &self,
        x: &[f32],
        saved: &BranchSaved,
        dy: &[f32],
        dx: &mut [f32],
        base: Base,
        [first, second]: [ConvNormGrads; 2],
        ws: &Workspace,
    ) {
        self.check(x);
        let (isa, images) = (ws.isa(), self.images);
        let (inputs, channels) = (self.first.weight.inputs(), self.second.weight.outputs());
        assert_eq!((dy.len(), dx.len()), (images.len(channels), x.len()), "dy and dx do not fit");
        let past = beyond_caches(dy.len());
        let size = images.pixels() * channels;
        let image = |i: usize| i * size..(i + 1) * size;
        let (map1, map2) = (self.first.norm.map(&saved.first, ws), self.second.norm.map(&saved.second, ws));

        let (mut dz, mut sums) = (ws.take(dy.len()), ws.take_zeroed(images.batch * 2 * channels));
        {
            let (dz, sums) = (Shared::new(&mut dz), Shared::new(&mut sums));
            for_each(images.batch, |i| {
                // SAFETY: each image has its own part.
                let (dz, sums) = unsafe { (dz.slice(image(i)), part(&sums, i, channels)) };
                let skip = self.residual.then(|| &x[image(i)]);
                let mask = Mask { skip, ..Mask::RELU };
                masked(isa, &dy[image(i)], channels, &saved.c2[image(i)], &map2, mask, dz, sums, past);
            });
        }
        let back = self.second.norm.back(&saved.second, &sums, second.norm, ws);

        // Through conv₂, the ReLU before it and the sums of norm₁.
        let (mut dn, mut sums) = (ws.take(saved.c1.len()), ws.take_zeroed(images.batch * 2 * channels));
        {
            let (dn, sums) = (Shared::new(&mut dn), Shared::new(&mut sums));
            let take = |i: usize, lines: &Lines| {
                for (y, line) in lines.each() {
                    let at = (i * images.height + y) * images.width * channels;
                    let row = at..at + images.width * channels;
                    // SAFETY: each row is finished once, those of an image one after the other.
                    let (dn, sums) = unsafe { (dn.slice(row.clone()), part(&sums, i, channels)) };
                    masked(isa, line, lines.depth(), &saved.c1[row], &map1, Mask::RELU, dn, sums, past);
                }
            };
            let x = self.source(channels, Kind::Activated { c: &saved.c1, map: &map1 });
            let dy = self.source(channels, Kind::ThroughNorm { dn: &dz, c: &saved.c2, back: &back });
            self.conv(self.second).run_vjp(x, dy, Some(&take), second.weight, ws);
        }
        let back = self.first.norm.back(&saved.first, &sums, first.norm, ws);

        let dx = Shared::new(dx);
        let take = |i: usize, lines: &Lines| {
            for (y, line) in lines.each() {
                let at = (i * images.height + y) * images.width * inputs;
                let row = at..at + images.width * inputs;
                // SAFETY: each row is finished once.
                let dx = unsafe { dx.slice(row.clone()) };
                let skip = self.residual.then(|| &dz[row.clone()]);
                add_pixels(isa, line, lines.depth(), inputs, skip, base.part(row), dx, past);
            }
        };
        let x = self.source(inputs, Kind::Plain(x));
        let dy = self.source(channels, Kind::ThroughNorm { dn: &dn, c: &saved.c1, back: &back });
        self.conv(self.first).run_vjp(x, dy, Some(&take), first.weight, ws);
    }

    fn conv<'b>(&self, layer: ConvNorm<'b>) -> Conv3x3<'b> {
        Conv3x3 { images: self.images, weight: layer.weight }
    }

    fn source<'b>(&self, channels: usize, kind: Kind<'b>) -> Source<'b> {
        Source { images: self.images, channels, kind }
    }

    /// A convolution's raw output and its moments.
    fn layer(&self, layer: ConvNorm, kind: Kind, ws: &Workspace) -> (Buffer, Moments) {
        let (images, channels) = (self.images, layer.weight.outputs());
        let strips = images.height.div_ceil(STRIP);
        let (mut c, mut parts) =
            (ws.take(images.len(channels)), ws.take(images.batch * strips * 2 * channels));
        {
            let (c, parts) = (Shared::new(&mut c), Shared::new(&mut parts));
            self.conv(layer).run(
                self.source(layer.weight.inputs(), kind),
                &|i, lines| {
                    copy_out(&c, images, channels, ws.isa())(i, lines);
                    // SAFETY: each strip is finished once.
                    let part = unsafe { part(&parts, i * strips + lines.start / STRIP, channels) };
                    let rows: Vec<&[f32]> = lines.each().map(|(_, row)| row).collect();
                    moments(ws.isa(), &rows, lines.depth(), channels, part);
                },
                ws,
            );
        }
        let count = |strip: usize| STRIP.min(images.height - strip * STRIP) * images.width;
        let counts: Vec<usize> = (0..images.batch).flat_map(|_| (0..strips).map(count)).collect();
        let moments = Moments::combine(&parts, &counts, channels, ws);
        (c, moments)
    }

    fn finish(
        &self,
        x: &[f32],
        c2: &[f32],
        map: &[f32],
        output: &mut Output,
        ws: &Workspace,
    ) -> Result<(), GridOverflow> {
        let channels = self.second.weight.outputs();
        let size = self.images.pixels() * channels;
        let sink = Sink::new(output, c2.len());
        let past = sink.is_beyond_caches();
        for_each(self.images.batch, |i| {
            // What is added to a stream goes there from the first caches.
            for part in blocks(size, FEW_PIXELS * channels) {
                let span = i * size + part.start..i * size + part.end;
                let skip = self.residual.then(|| &x[span.clone()]);
                // SAFETY: neither images nor their parts overlap.
                unsafe {
                    sink.write(ws, span.clone(), |y| {
                        affine(ws.isa(), &c2[span], channels, map, skip, true, y, channels, past);
                    });
                }
            }
        });
        sink.finish()
    }

    fn check(&self, x: &[f32]) {
        let (first, second) = (self.first.weight, self.second.weight);
        assert_eq!(x.len(), self.images.len(first.inputs()), "x does not fit");
        assert_eq!(first.outputs(), second.inputs(), "the convolutions do not fit each other");
        assert_eq!(first.outputs(), second.outputs(), "both convolutions must have the same outputs");
        assert!(
            !self.residual || first.inputs() == second.outputs(),
            "a residual needs as many outputs as inputs"
        );
    }
}

/// Two rows of channels for each image or strip.
///
/// # Safety
/// As [`Shared::slice`], for part `i`.
#[allow(clippy::mut_from_ref)]
unsafe fn part<'a>(sums: &Shared<'a>, i: usize, channels: usize) -> &'a mut [f32] {
    // SAFETY: the caller's promise.
    unsafe { sums.slice(i * 2 * channels..(i + 1) * 2 * channels) }
}
