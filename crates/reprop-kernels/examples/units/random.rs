//! Numbers that are the same in every run.

use reprop_kernels::heap::{self, Values};

/// A linear congruential generator: enough for timings.
pub struct Random(u32);

impl Random {
    pub fn new() -> Self {
        Self(1)
    }

    /// `len` numbers in `-scale..scale`, in memory as layers have it.
    pub fn values(&mut self, len: usize, scale: f32) -> Values {
        let mut values = heap::blank(len);
        for x in values.iter_mut() {
            self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *x = ((self.0 >> 8) as f32 / (1 << 23) as f32 - 1.0) * scale;
        }
        values
    }
}
