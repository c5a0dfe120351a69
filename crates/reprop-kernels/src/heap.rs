//! Memory of tensors: how it is cleared, and what the C library does with it when it is freed.
//!
//! Tensors come and go with every step. The GNU C library gives large blocks back to the system at once, and the system
//! clears each page again before it lends it: for convolutional networks about a tenth of a step.

use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

use rayon::prelude::*;

use crate::memory::LINE;

/// Floats that one task clears.
const PART: usize = 1 << 16;

/// Floats of a tensor. Many of them begin on a cache line, wherever the C library's memory does: a vector then lies on one line, not
/// on two, and may be stored past the caches.
#[derive(Debug)]
pub struct Values {
    memory: Vec<f32>,
    /// Where they begin; they end with the memory.
    start: usize,
}

/// So few floats begin where their memory does,
const FEW: usize = 1 << 12;

/// and the others at most so many floats later.
pub const MOST_BEFORE: usize = LINE - 1;

impl Values {
    /// Whether floats lie as those of [`blank`] do.
    pub fn lie_well(floats: &[f32]) -> bool {
        floats.len() < FEW || (floats.as_ptr() as usize).is_multiple_of(LINE * size_of::<f32>())
    }

    /// The memory, and where in it the floats begin, which end with it.
    pub fn into_parts(self) -> (Vec<f32>, usize) {
        (self.memory, self.start)
    }

    /// `len` floats that `fill` makes hold something; nothing if it cannot.
    fn filled(len: usize, fill: impl FnOnce(&mut [MaybeUninit<f32>]) -> bool) -> Option<Self> {
        let most = if len < FEW { 0 } else { MOST_BEFORE };
        let mut memory: Vec<f32> = Vec::with_capacity(len + most);
        let start = memory.as_ptr().align_offset(LINE * size_of::<f32>()).min(most);
        if !fill(&mut memory.spare_capacity_mut()[..start + len]) {
            return None;
        }
        // SAFETY: so many floats have room and hold something.
        unsafe { memory.set_len(start + len) };
        Some(Self { memory, start })
    }
}

impl From<Vec<f32>> for Values {
    fn from(memory: Vec<f32>) -> Self {
        Self { memory, start: 0 }
    }
}

impl Deref for Values {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.memory[self.start..]
    }
}

impl DerefMut for Values {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.memory[self.start..]
    }
}

/// Zeros, cleared by all threads: memory that is [kept](keep_freed_memory) is cleared for every tensor anew, while the other
/// threads would have nothing to do.
pub fn zeros(len: usize) -> Values {
    let clear = |part: &mut [MaybeUninit<f32>]| part.fill(MaybeUninit::new(0.0));
    let zeros = Values::filled(len, |memory| {
        memory.par_chunks_mut(PART).for_each(clear);
        true
    });
    zeros.expect("what was written holds something")
}

/// Floats that hold anything (in debug builds: NaN), for results that are written in full: to clear them first is a pass over
/// memory like that of many a kernel.
pub fn blank(len: usize) -> Values {
    let mut values = Values::filled(len, settle).unwrap_or_else(|| zeros(len));
    if cfg!(debug_assertions) {
        values.fill(f32::NAN);
    }
    values
}

/// As [`blank`], of numbers of 16 bits.
pub fn blank_sixteens(len: usize) -> Vec<u16> {
    let mut values: Vec<u16> = Vec::with_capacity(len);
    if !settle(&mut values.spare_capacity_mut()[..len]) {
        return vec![0; len];
    }
    // SAFETY: as in `blank`.
    unsafe { values.set_len(len) };
    values
}

/// Makes memory that was never written hold whatever bytes are there, all of which are numbers. False where that cannot be said.
fn settle<T: Copy>(numbers: &mut [MaybeUninit<T>]) -> bool {
    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
    {
        // SAFETY: no instruction at all. But a compiler has to think that these bytes were written here, and so cannot take
        // them for what has no value; and they are memory of the heap, which stays what it is until it is written.
        unsafe {
            std::arch::asm!("/* {0} */", in(reg) numbers.as_mut_ptr(), options(nostack, preserves_flags));
        }
        true
    }
    #[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
    {
        let _ = numbers;
        false
    }
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
            assert_eq!(zeros(len)[..], vec![0.0; len]);
        }
    }

    #[test]
    fn blank_memory_is_as_long_as_asked_for_and_keeps_what_is_written() {
        for len in [0, 1, PART + 1] {
            let mut values = blank(len);
            assert_eq!(values.len(), len);
            values.fill(2.0);
            assert_eq!(values[..], vec![2.0; len]);
            assert_eq!(blank_sixteens(len).len(), len);
        }
    }

    #[test]
    fn many_floats_begin_on_a_cache_line_and_end_with_their_memory() {
        let others: Vec<Vec<u8>> = (1..9).map(|i| Vec::with_capacity(16 * i)).collect();
        for len in [FEW, FEW + 1, PART, 10 * PART + 3] {
            for values in [zeros(len), blank(len)] {
                assert!((values.as_ptr() as usize).is_multiple_of(64) && Values::lie_well(&values), "{len}");
                assert!(!Values::lie_well(&values[1..]) || len == FEW, "{len}");
                let begin = values.as_ptr();
                let (memory, start) = values.into_parts();
                assert!(memory.len() == start + len && start <= MOST_BEFORE, "{len}");
                assert_eq!(memory[start..].as_ptr(), begin);
            }
        }
        drop(others);
        assert_eq!(Values::from(vec![1.0, 2.0])[..], [1.0, 2.0]);
    }
}
