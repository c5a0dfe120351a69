//! Codecs: how the bytes of a snapshot are made fewer.

mod choose;
mod shuffle;

use std::io;

use serde::{Deserialize, Serialize};

use crate::Payload;
pub(crate) use choose::Chooser;

/// How snapshots are compressed, on the I/O thread.
///
/// Compression is lossless: `get` gives the same bits. States of a network are floating-point numbers whose exponents
/// are much alike and whose low bits are noise, so a tenth to a quarter is what there is to win, and most of it only
/// after the bytes of like significance were put side by side (*shuffled*).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Codec {
    /// As it is.
    #[default]
    None,
    /// Shuffled, then zstd at level 1: the smallest.
    ShuffleZstd,
    /// Shuffled, then LZ4: the quickest.
    Lz4,
    /// Measures the others on the first snapshots and now and then later, and takes the one whose compressing and
    /// writing together take the least time on this medium.
    Auto,
}

/// A codec as written into a header: what `Auto` chooses from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub(crate) enum Coding {
    None = 0,
    ShuffleZstd = 1,
    Lz4 = 2,
}

/// LZ4's positions are 32 bits wide; larger snapshots stay as they are.
const LZ4_LIMIT: usize = 1 << 30;

impl Coding {
    pub(crate) const ALL: [Self; 3] = [Self::None, Self::ShuffleZstd, Self::Lz4];

    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    pub(crate) fn name_of(code: u8) -> String {
        Self::ALL
            .get(usize::from(code))
            .map_or_else(|| format!("unknown ({code})"), |coding| format!("{coding:?}"))
    }

    /// The most bytes `length` bytes can become.
    pub(crate) fn bound(self, length: usize) -> usize {
        match self {
            Self::None => length,
            Self::ShuffleZstd => zstd::zstd_safe::compress_bound(length).max(length),
            Self::Lz4 => lz4_flex::block::get_maximum_output_size(length).max(length),
        }
    }
}

/// The memory codecs work in; one per I/O thread.
#[derive(Default)]
pub(crate) struct Workshop {
    shuffled: Vec<u8>,
    compressor: Option<zstd::bulk::Compressor<'static>>,
}

impl Workshop {
    /// Encodes into `out`, which has room for [`Coding::bound`]. Gives the coding used, `None` where nothing is won,
    /// and the length.
    pub(crate) fn encode(&mut self, coding: Coding, payload: &Payload, out: &mut [u8]) -> (Coding, usize) {
        let raw = payload.bytes();
        let length = match coding {
            Coding::None => None,
            Coding::ShuffleZstd => self.zstd(payload, out),
            Coding::Lz4 if raw.len() > LZ4_LIMIT => None,
            Coding::Lz4 => lz4_flex::block::compress_into(self.shuffle(payload), out).ok(),
        };
        match length {
            Some(length) if length < raw.len() => (coding, length),
            _ => {
                out[..raw.len()].copy_from_slice(raw);
                (Coding::None, raw.len())
            }
        }
    }

    fn zstd(&mut self, payload: &Payload, out: &mut [u8]) -> Option<usize> {
        self.shuffle(payload);
        if self.compressor.is_none() {
            self.compressor = zstd::bulk::Compressor::new(1).ok();
        }
        self.compressor.as_mut()?.compress_to_buffer(&self.shuffled, out).ok()
    }

    fn shuffle(&mut self, payload: &Payload) -> &[u8] {
        self.shuffled.resize(payload.len(), 0);
        shuffle::shuffle(payload.bytes(), payload.dtype().width(), &mut self.shuffled);
        &self.shuffled
    }

    /// The `raw` bytes that `stored` was made from.
    pub(crate) fn decode(
        &mut self,
        coding: Coding,
        stored: &[u8],
        width: usize,
        raw: usize,
    ) -> io::Result<Vec<u8>> {
        if coding == Coding::None {
            return Ok(stored.to_vec());
        }
        self.shuffled.resize(raw, 0);
        let length = match coding {
            Coding::None => raw,
            Coding::ShuffleZstd => zstd::bulk::decompress_to_buffer(stored, &mut self.shuffled)?,
            Coding::Lz4 => {
                lz4_flex::block::decompress_into(stored, &mut self.shuffled).map_err(io::Error::other)?
            }
        };
        if length != raw {
            return Err(io::Error::other(format!("{length} bytes came out")));
        }
        let mut bytes = vec![0; raw];
        shuffle::unshuffle(&self.shuffled, width, &mut bytes);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dtype;

    #[test]
    fn every_codec_gives_the_same_bytes_back() {
        let smooth: Vec<u8> = (0..5000).flat_map(|i| (1.0 + i as f32 * 1e-3).to_le_bytes()).collect();
        let mut workshop = Workshop::default();
        for dtype in [Dtype::Bytes, Dtype::F16, Dtype::F32, Dtype::F64] {
            for length in [0, 1, 3, 4, 7, 8, 63, 4096, 19_999, 20_000] {
                for coding in Coding::ALL {
                    let payload = Payload::new(dtype, smooth[..length].to_vec());
                    let mut out = vec![0; coding.bound(length)];
                    let (used, stored) = workshop.encode(coding, &payload, &mut out);
                    let back = workshop.decode(used, &out[..stored], dtype.width(), length).unwrap();
                    assert_eq!(back, payload.bytes(), "{coding:?} {dtype:?} {length}");
                    assert!(stored <= length);
                }
            }
        }
    }

    #[test]
    fn smooth_floats_shrink_under_both_compressors() {
        let smooth: Vec<u8> = (0..5000).flat_map(|i| (1.0 + i as f32 * 1e-3).to_le_bytes()).collect();
        let payload = Payload::new(Dtype::F32, smooth);
        for coding in [Coding::ShuffleZstd, Coding::Lz4] {
            let mut out = vec![0; coding.bound(payload.len())];
            let (used, stored) = Workshop::default().encode(coding, &payload, &mut out);
            assert_eq!(used, coding);
            assert!(stored < payload.len() * 4 / 5, "{coding:?} {stored} of {}", payload.len());
        }
    }

    #[test]
    fn damaged_input_is_an_error_not_a_panic() {
        let mut workshop = Workshop::default();
        for coding in [Coding::ShuffleZstd, Coding::Lz4] {
            assert!(workshop.decode(coding, &[0xff; 40], 4, 4000).is_err(), "{coding:?}");
        }
    }
}
