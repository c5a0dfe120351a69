//! The gradient of what a norm reads, made where it is used: a convolution's derivative reads it a few pixels at a time.

use std::ops::Range;

use super::{PART, gradient};
use crate::share::Shared;
use crate::simd::Isa;
use crate::tasks::for_each;
use crate::workspace::{Buffer, Workspace};

/// What a norm's derivative is made from beside the norm's input.
#[derive(Debug)]
pub struct Behind {
    pub(super) dz: Buffer,
    pub(super) back: Buffer,
}

impl Behind {
    /// The gradient of `c`, which the norm read.
    ///
    /// # Panics
    /// If `c` is not as long as what the norm read.
    pub fn of<'a>(&'a self, c: &'a [f32]) -> OutputGradient<'a> {
        assert_eq!(c.len(), self.dz.len(), "not what the norm read");
        OutputGradient::BehindNorm { dn: &self.dz, c, back: &self.back }
    }
}

/// The gradient of a convolution's output.
#[derive(Clone, Copy, Debug)]
pub enum OutputGradient<'a> {
    /// As it is.
    Plain(&'a [f32]),
    /// Through the norm that reads the output: see [`Behind`].
    BehindNorm {
        /// The gradient of the norm's output.
        dn: &'a [f32],
        /// The norm's input.
        c: &'a [f32],
        /// The coefficients of the norm's derivative.
        back: &'a [f32],
    },
}

impl<'a> From<&'a [f32]> for OutputGradient<'a> {
    fn from(dy: &'a [f32]) -> Self {
        Self::Plain(dy)
    }
}

impl<'a> From<&'a Vec<f32>> for OutputGradient<'a> {
    fn from(dy: &'a Vec<f32>) -> Self {
        Self::Plain(dy)
    }
}

impl<'a> OutputGradient<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Plain(dy) => dy.len(),
            Self::BehindNorm { dn, .. } => dn.len(),
        }
    }

    /// Some floats, whole rows of channels: in place, or made in `room`.
    pub(crate) fn part<'b>(&self, isa: Isa, span: Range<usize>, room: &'b mut Room) -> &'b [f32]
    where
        'a: 'b,
    {
        match *self {
            Self::Plain(dy) => &dy[span],
            Self::BehindNorm { dn, c, back } => {
                let room = &mut room.0[..span.len()];
                gradient(isa, &dn[span.clone()], &c[span], back, room, back.len() / 4);
                room
            }
        }
    }

    /// Room for parts of at most `len` floats.
    pub(crate) fn room(&self, len: usize, ws: &Workspace) -> Room {
        Room(ws.take(if matches!(self, Self::Plain(_)) { 0 } else { len }))
    }

    /// All of it.
    pub(crate) fn write(&self, to: &mut [f32], ws: &Workspace) {
        match *self {
            Self::Plain(dy) => to.copy_from_slice(dy),
            Self::BehindNorm { dn, c, back } => {
                let size = (PART * (back.len() / 4)).max(1);
                let to = Shared::new(to);
                for_each(dn.len().div_ceil(size), |part| {
                    let span = part * size..((part + 1) * size).min(dn.len());
                    // SAFETY: parts do not overlap.
                    let to = unsafe { to.slice(span.clone()) };
                    gradient(ws.isa(), &dn[span.clone()], &c[span], back, to, back.len() / 4);
                });
            }
        }
    }
}

/// Memory for a part of a gradient.
pub(crate) struct Room(Buffer);
