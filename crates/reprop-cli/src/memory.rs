//! What the whole process holds.

use crate::ALLOCATOR;

/// Forgets earlier peaks.
pub fn reset_peak() {
    ALLOCATOR.reset_peak_usage();
}

/// The most bytes held at once since the last reset.
pub fn peak() -> u64 {
    ALLOCATOR.peak_usage() as u64
}

/// The bytes held now.
pub fn held() -> u64 {
    ALLOCATOR.current_usage() as u64
}
