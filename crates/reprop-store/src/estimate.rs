//! How long a transfer takes, learnt while running.

/// How much one observation fades with each that follows: about the last sixteen count.
const MEMORY: f64 = 15.0 / 16.0;

/// A moving fit of `seconds = latency + bytes * seconds_per_byte`.
///
/// While all transfers have one size the two cannot be told apart, and the time is taken as proportional.
///
/// ```
/// use reprop_store::Estimate;
///
/// let mut write = Estimate::default();
/// assert_eq!(write.seconds(100), None);
/// write.observe(1_000, 3.0);
/// write.observe(3_000, 7.0);
/// let seconds = write.seconds(2_000).unwrap(); // 1 second, and 2 milliseconds a byte
/// assert!((seconds - 5.0).abs() < 1e-9);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Estimate {
    weight: f64,
    bytes: f64,
    seconds: f64,
    bytes_squared: f64,
    product: f64,
}

impl Estimate {
    /// Takes note of a transfer.
    ///
    /// One that takes less than half of what was foretold tells that those before it were held up, as the first on a new file
    /// is: they are forgotten.
    pub fn observe(&mut self, bytes: u64, seconds: f64) {
        if self.seconds(bytes).is_some_and(|foretold| seconds < 0.5 * foretold) {
            *self = Self::default();
        }
        let bytes = bytes as f64;
        for (sum, new) in [
            (&mut self.weight, 1.0),
            (&mut self.bytes, bytes),
            (&mut self.seconds, seconds),
            (&mut self.bytes_squared, bytes * bytes),
            (&mut self.product, bytes * seconds),
        ] {
            *sum = *sum * MEMORY + new;
        }
    }

    /// The time a transfer of `bytes` will take; `None` before the first observation.
    pub fn seconds(&self, bytes: u64) -> Option<f64> {
        if self.weight == 0.0 {
            return None;
        }
        let (latency, slope) = self.line();
        Some(latency + slope * bytes as f64)
    }

    /// Least squares, kept where it makes sense: neither term may be negative.
    fn line(&self) -> (f64, f64) {
        let mean_bytes = self.bytes / self.weight;
        let mean_seconds = self.seconds / self.weight;
        let variance = self.bytes_squared / self.weight - mean_bytes * mean_bytes;
        let proportional =
            if mean_bytes > 0.0 { (0.0, mean_seconds / mean_bytes) } else { (mean_seconds, 0.0) };
        // Sizes within a hundredth of each other say nothing about the slope.
        if variance <= 1e-4 * mean_bytes * mean_bytes {
            return proportional;
        }
        let slope = (self.product / self.weight - mean_bytes * mean_seconds) / variance;
        let latency = mean_seconds - slope * mean_bytes;
        if slope < 0.0 {
            (mean_seconds, 0.0)
        } else if latency < 0.0 {
            proportional
        } else {
            (latency, slope)
        }
    }
}
