//! Memory of tensors: how it is cleared, and what the C library does with it when it is freed.
//!
//! Tensors come and go with every step. The GNU C library gives large blocks back to the system at once, and the system
//! clears each page again before it lends it: for convolutional networks about a tenth of a step.

use std::mem::MaybeUninit;

use rayon::prelude::*;

/// Floats that one task clears.
const PART: usize = 1 << 16;

/// Zeros, cleared by all threads: memory that is [kept](keep_freed_memory) is cleared for every tensor anew, while the other
/// threads would have nothing to do.
pub fn zeros(len: usize) -> Vec<f32> {
    let mut values: Vec<f32> = Vec::with_capacity(len);
    values.spare_capacity_mut()[..len].par_chunks_mut(PART).for_each(|part| part.fill(MaybeUninit::new(0.0)));
    // SAFETY: `len` floats have room and were written.
    unsafe { values.set_len(len) };
    values
}

/// Makes the C library keep what is freed for the next allocation, for the whole process, until it ends: a steady training
/// step then touches no fresh page. False, and nothing changes, where the C library has no such setting.
///
/// It is the program's choice, since the memory is lost to other processes; call it once, before the first step.
pub fn keep_freed_memory() -> bool {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: `mallopt` takes any values, may be called at any time, and changes no memory that is in use.
        unsafe {
            // Nothing by `mmap`, which is given back when it is freed; never give back the end of the heap; and one heap for
            // all threads, so that one uses what another freed.
            libc::mallopt(libc::M_MMAP_MAX, 0) == 1
                && libc::mallopt(libc::M_TRIM_THRESHOLD, -1) == 1
                && libc::mallopt(libc::M_ARENA_MAX, 1) == 1
        }
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_as_many_as_asked_for() {
        for len in [0, 1, PART - 1, PART, 3 * PART + 7] {
            assert_eq!(zeros(len), vec![0.0; len]);
        }
    }
}
