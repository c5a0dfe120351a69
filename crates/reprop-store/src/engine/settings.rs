//! Bounds and habits of the background work.

use crate::{Codec, Error, Result};

#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) writers: usize,
    pub(crate) readers: usize,
    pub(crate) queue: usize,
    pub(crate) queue_bytes: u64,
    pub(crate) read_ahead: usize,
    pub(crate) codec: Codec,
    /// Every which offer of a point is taken; 0 for none.
    pub(crate) every: u64,
    pub(crate) keep: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            writers: 1,
            readers: 1,
            queue: 2,
            queue_bytes: u64::MAX,
            read_ahead: 2,
            codec: Codec::None,
            every: 0,
            keep: false,
        }
    }
}

impl Settings {
    /// Each of these at 0 would have somebody wait for ever.
    pub(crate) fn check(&self) -> Result<()> {
        for (name, value) in [
            ("writers", self.writers),
            ("readers", self.readers),
            ("queue", self.queue),
            ("read_ahead", self.read_ahead),
        ] {
            if value == 0 {
                return Err(Error::Setting { name, value: "0".into(), needed: "it has to be at least 1" });
            }
        }
        Ok(())
    }
}

/// The settings of background work, on every configuration that has an `engine: Settings`.
macro_rules! background_settings {
    ($config:ty) => {
        impl $config {
            /// How snapshots are compressed. Not at all by default.
            pub fn codec(mut self, codec: $crate::Codec) -> Self {
                self.engine.codec = codec;
                self
            }

            /// Threads that write: 1 by default. More help where the medium takes several writes at once, or where
            /// compression is the bottleneck.
            pub fn writers(mut self, writers: usize) -> Self {
                self.engine.writers = writers;
                self
            }

            /// Threads that read: 1 by default.
            pub fn readers(mut self, readers: usize) -> Self {
                self.engine.readers = readers;
                self
            }

            /// Snapshots that wait to be written before `put` waits: 2 by default, and `bytes` of them in all. A single one
            /// may be larger.
            pub fn queue(mut self, snapshots: usize, bytes: u64) -> Self {
                self.engine.queue = snapshots;
                self.engine.queue_bytes = bytes;
                self
            }

            /// Snapshots that are read ahead before `prefetch` says no: 2 by default. Each is in memory until it is got.
            pub fn read_ahead(mut self, snapshots: usize) -> Self {
                self.engine.read_ahead = snapshots;
                self
            }
        }
    };
}
pub(crate) use background_settings;
