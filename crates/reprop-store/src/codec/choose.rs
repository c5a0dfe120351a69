//! Which codec to use, by measured benefit.

use super::{Codec, Coding};
use crate::buffer::padded;
use crate::estimate::Estimate;
use crate::frame::HEADER;

/// Snapshots each codec is tried on before one is chosen.
const TRIALS: u64 = 2;
/// Snapshots between two rounds of trials: data and disks change.
const PERIOD: u64 = 512;

/// What is known of one codec.
#[derive(Debug, Clone, Copy, Default)]
struct Record {
    encode: Estimate,
    /// Bytes in and out in the latest round of trials.
    raw: u64,
    stored: u64,
}

/// Chooses the coding of each snapshot.
#[derive(Debug)]
pub(crate) struct Chooser {
    codec: Codec,
    taken: u64,
    records: [Record; 3],
    medium: Estimate,
}

impl Chooser {
    pub(crate) fn new(codec: Codec) -> Self {
        Self { codec, taken: 0, records: [Record::default(); 3], medium: Estimate::default() }
    }

    /// The coding for the next snapshot, of `raw` bytes.
    pub(crate) fn choose(&mut self, raw: u64) -> Coding {
        match self.codec {
            Codec::None => Coding::None,
            Codec::ShuffleZstd => Coding::ShuffleZstd,
            Codec::Lz4 => Coding::Lz4,
            Codec::Auto => {
                let round = self.taken % PERIOD;
                self.taken += 1;
                if round == 0 {
                    self.records = [Record::default(); 3];
                }
                if round < TRIALS * 3 { Coding::ALL[(round % 3) as usize] } else { self.quickest(raw) }
            }
        }
    }

    /// Takes note of a write: `wanted` is what [`choose`](Self::choose) said.
    pub(crate) fn observe(&mut self, wanted: Coding, raw: u64, stored: u64, encoding: f64, writing: f64) {
        let record = &mut self.records[wanted as usize];
        record.encode.observe(raw, encoding);
        record.raw += raw;
        record.stored += stored;
        self.medium.observe(on_medium(stored), writing);
    }

    fn quickest(&self, raw: u64) -> Coding {
        let seconds = |coding: Coding| {
            let record = &self.records[coding as usize];
            let stored =
                if record.raw == 0 { 1.0 } else { record.stored as f64 / record.raw as f64 } * raw as f64;
            let encode = record.encode.seconds(raw).unwrap_or(0.0);
            encode + self.medium.seconds(on_medium(stored as u64)).unwrap_or(0.0)
        };
        Coding::ALL.into_iter().min_by(|a, b| seconds(*a).total_cmp(&seconds(*b))).unwrap_or(Coding::None)
    }
}

/// Whole blocks, since that is what is written: a snapshot of one block cannot gain.
fn on_medium(stored: u64) -> u64 {
    padded(HEADER + stored as usize) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAW: u64 = 1 << 20;

    /// Chooses after trials on a medium of `disk` bytes a second, with codecs that halve at 1 GB/s and take a third
    /// away at 4 GB/s.
    fn chosen(disk: f64) -> Coding {
        let mut chooser = Chooser::new(Codec::Auto);
        for _ in 0..TRIALS * 3 {
            let coding = chooser.choose(RAW);
            let (stored, speed) = match coding {
                Coding::None => (RAW, 20e9),
                Coding::ShuffleZstd => (RAW / 2, 1e9),
                Coding::Lz4 => (RAW * 2 / 3, 4e9),
            };
            chooser.observe(coding, RAW, stored, RAW as f64 / speed, on_medium(stored) as f64 / disk);
        }
        chooser.choose(RAW)
    }

    #[test]
    fn a_slow_disk_is_worth_the_smallest_a_fast_one_none() {
        assert_eq!(chosen(100e6), Coding::ShuffleZstd);
        assert_eq!(chosen(1e9), Coding::Lz4);
        assert_eq!(chosen(10e9), Coding::None);
    }

    #[test]
    fn a_fixed_codec_is_obeyed() {
        assert_eq!(Chooser::new(Codec::Lz4).choose(RAW), Coding::Lz4);
        assert_eq!(Chooser::new(Codec::None).choose(RAW), Coding::None);
    }

    #[test]
    fn trials_come_again() {
        let mut chooser = Chooser::new(Codec::Auto);
        let all: Vec<_> = (0..=PERIOD + 1).map(|_| chooser.choose(RAW)).collect();
        assert_eq!(all[PERIOD as usize..], Coding::ALL[..2]);
    }
}
