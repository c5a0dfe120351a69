//! Aligned memory for floats.
//!
//! Every buffer begins on a cache line. Large ones begin on a huge page and ask the system for such pages: a pass over a few
//! tensors of megabytes needs a new address translation every 4 KiB of each otherwise, and no core remembers so many.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Floats of a cache line.
pub(crate) const LINE: usize = 16;

/// Bytes of a cache line.
const SMALL: usize = LINE * size_of::<f32>();

/// Bytes of a huge page.
const HUGE: usize = 2 << 20;

/// A fixed number of floats.
#[derive(Debug)]
pub(crate) struct Memory {
    floats: NonNull<f32>,
    len: usize,
}

// SAFETY: it owns its floats alone, as a `Vec<f32>` does.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// `len` zeros.
    pub(crate) fn zeros(len: usize) -> Self {
        if len == 0 {
            return Self { floats: NonNull::dangling(), len };
        }
        let layout = layout(len);
        // SAFETY: the layout is not empty.
        let Some(start) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
        ask_for_huge_pages(start, layout);
        let floats = start.cast();
        // SAFETY: so many floats are ours, and zeros are floats.
        unsafe { floats.write_bytes(0, len) };
        Self { floats, len }
    }
}

impl Memory {
    /// The same bytes as numbers of 16 bits, two for each float.
    pub(crate) fn sixteens(&self) -> &[u16] {
        // SAFETY: the bytes are ours, all of them were written, and lie as numbers of fewer bits may.
        unsafe { std::slice::from_raw_parts(self.floats.as_ptr().cast(), 2 * self.len) }
    }

    /// The same bytes as numbers of 16 bits, two for each float. Whatever is written, is floats.
    pub(crate) fn sixteens_mut(&mut self) -> &mut [u16] {
        // SAFETY: as in `sixteens`.
        unsafe { std::slice::from_raw_parts_mut(self.floats.as_ptr().cast(), 2 * self.len) }
    }
}

/// Where floats may lie.
fn layout(len: usize) -> Layout {
    let bytes = len * size_of::<f32>();
    Layout::from_size_align(bytes, if bytes < HUGE { SMALL } else { HUGE })
        .expect("a length that fits into memory")
}

/// A wish that changes no float; pages that are not whole stay small, so that no memory is lost.
fn ask_for_huge_pages(start: NonNull<u8>, layout: Layout) {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    if layout.size() >= HUGE {
        // SAFETY: the pages are ours, and stay what they are whatever the answer.
        unsafe { libc::madvise(start.as_ptr().cast(), layout.size() / HUGE * HUGE, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu", not(miri))))]
    let _ = (start, layout);
}

impl Deref for Memory {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        // SAFETY: `len` floats, all written once, are ours.
        unsafe { std::slice::from_raw_parts(self.floats.as_ptr(), self.len) }
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as in `deref`.
        unsafe { std::slice::from_raw_parts_mut(self.floats.as_ptr(), self.len) }
    }
}

impl Clone for Memory {
    fn clone(&self) -> Self {
        let mut copy = Self::zeros(self.len);
        copy.copy_from_slice(self);
        copy
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: allocated with this layout.
            unsafe { dealloc(self.floats.as_ptr().cast(), layout(self.len)) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_aligned_and_copied_whole() {
        for len in [0, 1, 15, 16, 1000, HUGE / 4, HUGE / 4 + 1] {
            let mut memory = Memory::zeros(len);
            assert!(memory.len() == len && memory.iter().all(|&x| x == 0.0));
            assert!(len == 0 || (memory.as_ptr() as usize).is_multiple_of(SMALL));
            memory.iter_mut().enumerate().for_each(|(i, x)| *x = i as f32);
            assert_eq!(memory.clone()[..], memory[..]);
        }
    }
}
