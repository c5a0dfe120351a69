//! Memory that direct I/O accepts.

use std::sync::{Arc, Mutex, PoisonError};

/// What direct I/O asks of addresses, offsets and lengths. Disks with blocks of 512 bytes take it too.
pub(crate) const ALIGNMENT: usize = 4096;

/// `length` rounded up to whole blocks.
pub(crate) fn padded(length: usize) -> usize {
    length.next_multiple_of(ALIGNMENT)
}

/// A buffer that starts at a multiple of [`ALIGNMENT`] and grows to the largest length asked for. Each I/O thread has
/// its own and uses it for all its transfers, so that a transfer allocates nothing.
///
/// It allocates a block too much and starts at the first aligned byte, which needs no `unsafe`.
#[derive(Debug, Default)]
pub(crate) struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
}

impl AlignedBuffer {
    /// The first `length` bytes, with whatever was there before.
    pub(crate) fn first(&mut self, length: usize) -> &mut [u8] {
        if self.memory.len() <= self.start + length {
            self.memory = Vec::new(); // the old one goes first: both at once would be twice the memory
            self.memory = vec![0; length + ALIGNMENT];
            self.start = self.memory.as_ptr().addr().wrapping_neg() % ALIGNMENT;
        }
        &mut self.memory[self.start..self.start + length]
    }

    /// The memory by value, and where the first byte lies in it.
    pub(crate) fn into_memory(self) -> (Vec<u8>, usize) {
        (self.memory, self.start)
    }
}

/// Memory of snapshots that were read and are done with, for the next reads: one read after the other touches no fresh memory,
/// and leaves no gaps where states of another length do not fit in.
#[derive(Debug)]
pub(crate) struct Spare {
    memory: Mutex<Vec<Vec<u8>>>,
    most: usize,
}

impl Spare {
    /// Keeps the memory of up to `most` snapshots.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { memory: Mutex::default(), most })
    }

    /// A buffer, of spare memory if there is any.
    pub(crate) fn take(&self) -> AlignedBuffer {
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        let start = memory.as_ptr().addr().wrapping_neg() % ALIGNMENT;
        AlignedBuffer { memory, start }
    }

    /// Takes memory back.
    pub(crate) fn give(&self, memory: Vec<u8>) {
        let mut spare = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if !memory.is_empty() && spare.len() < self.most {
            spare.push(memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spare_memory_is_used_again_aligned_and_bounded() {
        let spare = Spare::new(1);
        let mut first = spare.take();
        let place = first.first(10_000).as_ptr();
        let ((memory, _), (second, _)) = (first.into_memory(), spare.take().into_memory());
        assert!(second.is_empty());
        spare.give(memory);
        spare.give(vec![0; 5]);
        let mut again = spare.take();
        assert_eq!(again.first(9_000).as_ptr(), place);
        assert_eq!(again.first(30_000).as_ptr().addr() % ALIGNMENT, 0);
        assert!(spare.take().into_memory().0.is_empty());
    }

    #[test]
    fn every_length_is_aligned_and_long_enough() {
        let mut buffer = AlignedBuffer::default();
        for length in [0, 1, 4095, 4096, 4097, 100_000, 8192, 1 << 20] {
            let slice = buffer.first(length);
            assert_eq!(slice.len(), length);
            assert_eq!(slice.as_ptr().addr() % ALIGNMENT, 0);
        }
    }
}
