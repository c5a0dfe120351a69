//! Event files that TensorBoard reads.
//!
//! By hand: the crates that write them are unmaintained or bring a protobuf compiler, and a scalar needs six fields.
//!
//! A file is a row of records: length, its checksum, data, its checksum. A checksum is a CRC-32C, rotated and offset. The data
//! is a protobuf `Event`: `wall_time = 1` (double), `step = 2` (integer), `file_version = 3` (text), `summary = 5`, which holds
//! `value = 1`, each with `tag = 1` (text) and `simple_value = 2` (float).

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;

use crate::failure::Failure;

/// A file of events.
pub struct EventFile {
    file: BufWriter<File>,
}

impl EventFile {
    /// A new file in `folder`, beside those of earlier runs.
    pub fn create(folder: &Path) -> Result<Self, Failure> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let seconds = now() as u64;
        let path = folder.join(format!("events.out.tfevents.{seconds}.reprop.{}", std::process::id()));
        let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        let mut events = Self { file: BufWriter::new(file) };
        events.write(&event(now(), 0, &bytes_field(3, b"brain.Event:2")))?;
        Ok(events)
    }

    /// Values of one step.
    pub fn scalars(&mut self, step: u64, values: &[(&str, f64)]) -> Result<(), Failure> {
        self.write(&event(now(), step, &bytes_field(5, &summary(values))))
    }

    fn write(&mut self, data: &[u8]) -> Result<(), Failure> {
        self.file.write_all(&record(data))?;
        Ok(self.file.flush()?)
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// Length and data, each with its checksum.
fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    [&length[..], &masked(&length).to_le_bytes(), data, &masked(data).to_le_bytes()].concat()
}

fn event(wall_time: f64, step: u64, what: &[u8]) -> Vec<u8> {
    let mut data = vec![1 << 3 | 1];
    data.extend(wall_time.to_le_bytes());
    data.push(2 << 3);
    data.extend(varint(step));
    data.extend(what);
    data
}

fn summary(values: &[(&str, f64)]) -> Vec<u8> {
    let value = |(tag, number): &(&str, f64)| {
        let mut value = bytes_field(1, tag.as_bytes());
        value.push(2 << 3 | 5);
        value.extend((*number as f32).to_le_bytes());
        bytes_field(1, &value)
    };
    values.iter().flat_map(value).collect()
}

/// A field of text, bytes or a message.
fn bytes_field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2], &varint(bytes.len() as u64)[..], bytes].concat()
}

/// Seven bits a byte, the lowest first; the top bit says that more follow.
fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// The checksum of a record: so altered that a checksum of data with checksums in it is still one.
fn masked(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32 with Castagnoli's polynomial, bit by bit: events are few and short.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc: u32, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_has_its_published_values() {
        // The check value of CRC-32C, and the 32 zero bytes of RFC 3720, B.4.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    }

    #[test]
    fn numbers_take_seven_bits_a_byte() {
        assert_eq!(varint(1), [1]);
        // The example of protobuf's own documentation.
        assert_eq!(varint(150), [0x96, 0x01]);
    }

    #[test]
    fn an_event_is_as_tensorflow_writes_it() {
        // Encoded by hand after the message's definition: step 3, "a" = 0.5 at time 1.
        let expected =
            [&[9][..], &1.0_f64.to_le_bytes(), &[16, 3, 42, 10, 10, 8, 10, 1, b'a', 21, 0, 0, 0, 63]]
                .concat();
        assert_eq!(event(1.0, 3, &bytes_field(5, &summary(&[("a", 0.5)]))), expected);
        assert_eq!(record(&expected).len(), 8 + 4 + expected.len() + 4);
    }
}
