//! Floats in 16 bits: what is kept for long takes half the memory, and comes back rounded.
//!
//! Every value goes to the nearest of the format's, to the even one of two that are as near. NaN stays NaN and infinities stay
//! infinite. What a format cannot hold: half floats end at 65504, and what lies 16 or more beyond becomes infinite, as IEEE 754
//! has it; nothing is clipped, so that an overflow shows in the first gradient that comes of it. Below `2^-14` they lose bits, and
//! below `2^-25` there is zero. Brain floats have the range of `f32`.
//!
//! Each conversion is one expression without branches, which the compiler turns into vectors for every instruction set: the
//! bits are the same on all of them.

use crate::share::Shared;
use crate::simd::dispatch;
use crate::tasks::for_each;
use crate::workspace::{Buffer, Workspace};

/// Elements of one task.
const PART: usize = 1 << 15;

/// A format of 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Brain floats: the range of `f32` with 8 bits of significand.
    Bf16,
    /// Half floats of IEEE 754: 11 bits of significand, up to 65504.
    F16,
}

/// What a forward keeps for its derivative, as far as it may be rounded.
pub trait Rounds {
    /// Buffers of values. Statistics, which are few and on which many values hang, are not among them.
    fn values(&mut self) -> impl Iterator<Item = &mut Buffer>;
}

impl<T: Rounds> Rounds for Option<T> {
    fn values(&mut self) -> impl Iterator<Item = &mut Buffer> {
        self.iter_mut().flat_map(T::values)
    }
}

/// `y` is `x` in `format`.
///
/// # Panics
/// If lengths differ.
pub fn narrow(format: Format, x: &[f32], y: &mut [u16], ws: &Workspace) {
    let part = match format {
        Format::Bf16 => to_bf16,
        Format::F16 => to_f16,
    };
    in_parts(x, y, |x, y| part(ws.isa(), x, y));
}

/// `y` is what `x` in `format` stands for.
///
/// # Panics
/// If lengths differ.
pub fn widen(format: Format, x: &[u16], y: &mut [f32], ws: &Workspace) {
    let part = match format {
        Format::Bf16 => from_bf16,
        Format::F16 => from_f16,
    };
    in_parts(x, y, |x, y| part(ws.isa(), x, y));
}

fn in_parts<X: Sync, Y: Send>(x: &[X], y: &mut [Y], convert: impl Fn(&[X], &mut [Y]) + Sync) {
    assert_eq!(x.len(), y.len(), "lengths differ");
    let (len, y) = (y.len(), Shared::new(y));
    for_each(len.div_ceil(PART), |i| {
        let span = i * PART..((i + 1) * PART).min(len);
        // SAFETY: parts do not overlap.
        convert(&x[span.clone()], unsafe { y.slice(span) });
    });
}

dispatch! {
    fn to_bf16(_s: Isa, x: &[f32], y: &mut [u16]) {
        x.iter().zip(y).for_each(|(x, y)| *y = bf16(*x));
    }
}

dispatch! {
    fn to_f16(_s: Isa, x: &[f32], y: &mut [u16]) {
        x.iter().zip(y).for_each(|(x, y)| *y = f16(*x));
    }
}

dispatch! {
    fn from_bf16(_s: Isa, x: &[u16], y: &mut [f32]) {
        x.iter().zip(y).for_each(|(x, y)| *y = f32::from_bits(u32::from(*x) << 16));
    }
}

dispatch! {
    fn from_f16(_s: Isa, x: &[u16], y: &mut [f32]) {
        x.iter().zip(y).for_each(|(x, y)| *y = of_f16(*x));
    }
}

/// Bits of an infinite `f32`; those of NaN are above it.
const INFINITE: u32 = 0x7f80_0000;

/// The upper of `bits` from `shift` on, rounded to nearest even. A carry goes into the exponent, where it belongs.
#[inline(always)]
const fn rounded(bits: u32, shift: u32) -> u32 {
    let odd = (bits >> shift) & 1;
    bits.wrapping_add((1 << (shift - 1)) - 1 + odd) >> shift
}

#[inline(always)]
fn bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    // A NaN that has its bits in the lower half alone must not become infinite.
    let nan = (bits >> 16) | 0x40;
    (if bits & 0x7fff_ffff > INFINITE { nan } else { rounded(bits, 16) }) as u16
}

/// The smallest half float with all its bits, `2^-14`, as bits of an `f32`.
const SMALLEST: u32 = (127 - 14) << 23;
/// Exponents of `f32` are biased by so much more than those of half floats.
const BIAS: u32 = (127 - 15) << 23;
/// Bits of `2^16`, where even exponents of half floats end.
const BEYOND: u32 = (127 + 16) << 23;

#[inline(always)]
fn f16(x: f32) -> u16 {
    let (sign, bits) = (x.to_bits() >> 16 & 0x8000, x.to_bits() & 0x7fff_ffff);
    let whole = rounded(bits.wrapping_sub(BIAS) & 0x7fff_ffff, 13);
    // One unit in the last place of 0.5 is the smallest half float: the sum is rounded as it should be, and its last bits are the
    // half float's.
    let small = (f32::from_bits(bits) + 0.5).to_bits().wrapping_sub(0.5_f32.to_bits());
    let finite = if bits < SMALLEST { small } else { whole };
    let infinite = if bits < BEYOND { finite } else { 0x7c00 };
    let nan = 0x7e00 | (bits >> 13 & 0x3ff);
    (sign | if bits > INFINITE { nan } else { infinite }) as u16
}

#[inline(always)]
fn of_f16(x: u16) -> f32 {
    let (sign, bits) = (u32::from(x & 0x8000) << 16, u32::from(x & 0x7fff) << 13);
    // As if there were a leading one, which is then taken away.
    let small = (f32::from_bits(bits + SMALLEST) - f32::from_bits(SMALLEST)).to_bits();
    let finite = if bits < 1 << 23 { small } else { bits + BIAS };
    f32::from_bits(sign | if bits < 0x1f << 23 { finite } else { bits | INFINITE })
}
