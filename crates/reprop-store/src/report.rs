//! What a store has done, and how long one waited for it.

use std::fmt;
use std::time::Duration;

use crate::Estimate;

/// What a store has done so far.
///
/// *Raw* bytes are the caller's, *stored* bytes are what reached the medium: compressed, with headers and padding.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Snapshots taken by `put`.
    pub puts: u64,
    /// Snapshots handed out by `get`.
    pub gets: u64,
    /// Snapshots removed, and replaced.
    pub removes: u64,
    /// Snapshots written to the medium.
    pub writes: u64,
    /// Snapshots read from the medium.
    pub reads: u64,
    /// Writes that failed.
    pub failed_writes: u64,
    /// Reads that failed.
    pub failed_reads: u64,
    /// Durable points.
    pub points: u64,
    /// The caller's bytes written.
    pub raw_written: u64,
    /// Bytes they became.
    pub stored_written: u64,
    /// The caller's bytes read back.
    pub raw_read: u64,
    /// Bytes they came from.
    pub stored_read: u64,
    /// Time `put` and `commit` waited for room in the queue.
    pub stall_put: Duration,
    /// Time `get` waited for its snapshot.
    pub stall_get: Duration,
    /// Time the I/O threads spent on writes, compression included.
    pub busy_write: Duration,
    /// Time the I/O threads spent on reads, decompression included.
    pub busy_read: Duration,
    /// Bytes held now: in memory for a memory pool, on the medium otherwise.
    pub held: u64,
    /// The most ever held.
    pub peak_held: u64,
    /// How long a write takes.
    pub write: Estimate,
    /// How long a read takes.
    pub read: Estimate,
}

impl Report {
    /// Raw bytes per byte stored: above 1 if compression gains more than headers cost. 1 before the first write.
    pub fn compression(&self) -> f64 {
        if self.stored_written == 0 { 1.0 } else { self.raw_written as f64 / self.stored_written as f64 }
    }

    /// Seconds a snapshot of `bytes` takes to be written, as measured lately; `None` before the first write.
    pub fn write_seconds(&self, bytes: u64) -> Option<f64> {
        self.write.seconds(bytes)
    }

    /// Seconds a snapshot of `bytes` takes to be read, as measured lately; `None` before the first read.
    pub fn read_seconds(&self, bytes: u64) -> Option<f64> {
        self.read.seconds(bytes)
    }

    /// All the time callers waited.
    pub fn stall(&self) -> Duration {
        self.stall_put + self.stall_get
    }

    /// Notes a change of what is held.
    pub(crate) fn hold(&mut self, more: u64) {
        self.held += more;
        self.peak_held = self.peak_held.max(self.held);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} written ({} bytes, {:.2}x compressed), {} read ({} bytes), waited {:.3} s to put and {:.3} s to get",
            self.writes,
            self.raw_written,
            self.compression(),
            self.reads,
            self.raw_read,
            self.stall_put.as_secs_f64(),
            self.stall_get.as_secs_f64(),
        )
    }
}
