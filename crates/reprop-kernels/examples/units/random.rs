//! Numbers that are the same in every run.

/// A linear congruential generator: enough for timings.
pub struct Random(u32);

impl Random {
    pub fn new() -> Self {
        Self(1)
    }

    /// `len` numbers in `-scale..scale`.
    pub fn vec(&mut self, len: usize, scale: f32) -> Vec<f32> {
        (0..len)
            .map(|_| {
                self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                ((self.0 >> 8) as f32 / (1 << 23) as f32 - 1.0) * scale
            })
            .collect()
    }
}
