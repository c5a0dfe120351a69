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
