//! How a snapshot looks on a medium: a header of 72 bytes, the encoded payload, zeros up to a whole block.
//!
//! All that could be mixed up is in the header: which store wrote it, which snapshot it is, and the number of the write,
//! so that an older snapshot of the same key in the same place is not taken for the newer one whose write got lost.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::codec::Coding;
use crate::payload::Dtype;
use crate::{Error, Key, Result};

/// Bytes before the payload.
pub(crate) const HEADER: usize = 72;

const MAGIC: [u8; 8] = *b"reprop\x1a\n";
const VERSION: u32 = 1;

/// What is known of a stored snapshot: kept in memory (and in the manifest), and found again in its header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Frame {
    pub(crate) store: u64,
    pub(crate) key: Key,
    pub(crate) sequence: u64,
    pub(crate) dtype: Dtype,
    pub(crate) coding: Coding,
    pub(crate) raw: u64,
    pub(crate) stored: u64,
    pub(crate) crc: u32,
}

impl Frame {
    /// Fills the header. `frame` is header and payload, whose checksum is in `self.crc` already.
    pub(crate) fn write_header(&self, frame: &mut [u8]) {
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[12] = self.dtype.code();
        header[13] = self.coding.code();
        let numbers = [self.store, self.key.run, self.key.step, self.sequence, self.raw, self.stored];
        for (place, number) in header[16..64].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        header[64..68].copy_from_slice(&self.crc.to_le_bytes());
        let crc = crc32fast::hash(&header[..68]);
        header[68..].copy_from_slice(&crc.to_le_bytes());
        frame[..HEADER].copy_from_slice(&header);
    }

    /// Compares header and payload with what was written; gives the encoded payload if all is well.
    pub(crate) fn check<'a>(&self, frame: &'a [u8], path: &Path) -> Result<&'a [u8]> {
        let differs = |field, expected: String, found: String| {
            let path = path.to_path_buf();
            Err(Error::Corrupt { path, key: self.key, field, expected, found })
        };
        let end = HEADER.saturating_add(self.stored as usize);
        if frame.len() < end {
            return differs("the length of the frame", end.to_string(), frame.len().to_string());
        }
        let (header, payload) = (&frame[..HEADER], &frame[HEADER..end]);
        let word =
            |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        if header[..8] != MAGIC {
            return differs("the magic number", format!("{MAGIC:02x?}"), format!("{:02x?}", &header[..8]));
        }
        if word(8) != VERSION {
            return differs("the version", VERSION.to_string(), word(8).to_string());
        }
        let numbers = [
            ("the store's number", self.store, long(16)),
            ("the run", self.key.run, long(24)),
            ("the step", self.key.step, long(32)),
            ("the number of the write", self.sequence, long(40)),
            ("the length", self.raw, long(48)),
            ("the stored length", self.stored, long(56)),
        ];
        for (field, expected, found) in numbers {
            if expected != found {
                return differs(field, expected.to_string(), found.to_string());
            }
        }
        if header[12] != self.dtype.code() {
            return differs("the dtype", format!("{:?}", self.dtype), Dtype::name_of(header[12]));
        }
        if header[13] != self.coding.code() {
            return differs("the codec", format!("{:?}", self.coding), Coding::name_of(header[13]));
        }
        let header_crc = crc32fast::hash(&header[..68]);
        if header_crc != word(68) {
            return differs(
                "the header's checksum",
                format!("{header_crc:08x}"),
                format!("{:08x}", word(68)),
            );
        }
        let crc = crc32fast::hash(payload);
        if crc != self.crc {
            return differs("the checksum", format!("{:08x}", self.crc), format!("{crc:08x}"));
        }
        Ok(payload)
    }
}
