//! Floats in 16 bits are those of another implementation, on every instruction set and at any length.

mod common;

use common::{Rng, assert_same_bits, workspaces};
use half::{bf16, f16};
use reprop_kernels::sixteen::{Format, narrow, widen};

const FORMATS: [Format; 2] = [Format::Bf16, Format::F16];

/// Bits of the value in `format`, by the other implementation.
fn narrowed(format: Format, x: f32) -> u16 {
    match format {
        Format::Bf16 => bf16::from_f32(x).to_bits(),
        Format::F16 => f16::from_f32_const(x).to_bits(),
    }
}

/// The value of bits in `format`, by the other implementation.
fn widened(format: Format, x: u16) -> f32 {
    match format {
        Format::Bf16 => bf16::from_bits(x).to_f32(),
        Format::F16 => f16::from_bits(x).to_f32_const(),
    }
}

/// Every exponent and sign, with significands on both sides of every border of rounding.
fn hard() -> Vec<f32> {
    let mut significands = vec![0];
    for bit in 0..23 {
        let at = 1_u32 << bit;
        significands.extend([at, at - 1, at + 1, 3 * at, 3 * at - 1, 3 * at + 1, (1 << 23) - at]);
    }
    let all = (0..=u32::from(u16::MAX >> 7)).flat_map(|upper| {
        significands.iter().map(move |&lower| f32::from_bits(upper << 23 | lower & ((1 << 23) - 1)))
    });
    let mut rng = Rng(5);
    all.chain((0..100_000).map(|_| f32::from_bits(rng.next().to_bits().wrapping_mul(0x9E37_79B9)))).collect()
}

#[test]
fn narrow_values_are_the_nearest() {
    let x = hard();
    for (ws, format) in workspaces().iter().flat_map(|ws| FORMATS.map(|format| (ws, format))) {
        let mut y = vec![0; x.len()];
        narrow(format, &x, &mut y, ws);
        for (x, y) in x.iter().zip(&y) {
            let want = narrowed(format, *x);
            assert_eq!(*y, want, "{x:e} ({:#x}) in {format:?} on {}", x.to_bits(), ws.isa().name());
        }
    }
}

/// Signalling NaNs, which come of no arithmetic, may stay so.
#[test]
fn wide_values_are_those_that_the_bits_stand_for() {
    let x: Vec<u16> = (0..=u16::MAX).collect();
    for (ws, format) in workspaces().iter().flat_map(|ws| FORMATS.map(|format| (ws, format))) {
        let (mut y, mut back) = (vec![0.0; x.len()], vec![0; x.len()]);
        widen(format, &x, &mut y, ws);
        narrow(format, &y, &mut back, ws);
        for ((x, y), back) in x.iter().zip(&y).zip(&back) {
            let want = widened(format, *x);
            let same = y.to_bits() == want.to_bits() && back == x;
            assert!(same || y.is_nan() && want.is_nan() && y.is_sign_negative() == want.is_sign_negative());
        }
    }
}

#[test]
fn what_is_beyond_half_floats_is_infinite_and_what_is_tiny_is_zero() {
    let ws = &workspaces()[0];
    let x = [65504.0, 65519.0, 65520.0, -1e30, f32::NAN, 2f32.powi(-24), 2f32.powi(-25), -1e-30];
    let (mut half, mut y) = ([0; 8], [0.0; 8]);
    narrow(Format::F16, &x, &mut half, ws);
    widen(Format::F16, &half, &mut y, ws);
    let infinite = f32::INFINITY;
    assert_eq!(y[..4], [65504.0, 65504.0, infinite, -infinite]);
    assert!(y[4].is_nan());
    assert_same_bits("tiny", &y[5..], &[2f32.powi(-24), 0.0, -0.0]);
}

/// Parts are cut by length alone; threads only share them out.
#[test]
fn any_length_has_the_same_bits_at_any_number_of_threads() {
    let ws = &workspaces()[0];
    for (len, format) in [0, 1, 15, 33, (1 << 15) - 1, (1 << 16) + 7].into_iter().zip(FORMATS.iter().cycle())
    {
        let x = Rng(len as u64).vec(len);
        let want: Vec<u16> = x.iter().map(|&x| narrowed(*format, x)).collect();
        for threads in [1, 2, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            let (mut y, mut back) = (vec![0; len], vec![0.0; len]);
            pool.install(|| {
                narrow(*format, &x, &mut y, ws);
                widen(*format, &y, &mut back, ws);
            });
            assert_eq!(y, want, "{len} values at {threads} threads");
            assert!(back.iter().zip(&y).all(|(back, y)| back.to_bits() == widened(*format, *y).to_bits()));
        }
    }
}

#[test]
fn a_narrow_buffer_takes_half_the_memory_and_comes_back_rounded() {
    for (ws, len) in workspaces().iter().zip([1, 2, 31, 33, 1000].into_iter().cycle()) {
        let x = Rng(len as u64).vec(len);
        for format in FORMATS {
            let mut buffer = ws.take(len);
            buffer.copy_from_slice(&x);
            let lent = ws.usage().lent;
            assert_eq!(lent, buffer.bytes());
            buffer.narrow(format);
            buffer.narrow(format);
            assert!(buffer.is_empty(), "nothing can be seen of it");
            let bytes = reprop_kernels::Workspace::bytes(len.div_ceil(2));
            assert_eq!((buffer.bytes(), ws.usage().lent), (bytes, bytes));
            buffer.widen();
            buffer.widen();
            assert_eq!((buffer.len(), ws.usage().lent), (len, lent));
            assert!(
                buffer
                    .iter()
                    .zip(&x)
                    .all(|(y, x)| y.to_bits() == widened(format, narrowed(format, *x)).to_bits())
            );
        }
        let made = ws.usage().made;
        let mut again = ws.take(len);
        again.fill(1.0);
        again.narrow(Format::Bf16);
        again.widen();
        assert_eq!(ws.usage().made, made, "no fresh memory");
    }
}
