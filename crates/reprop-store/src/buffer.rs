//! Memory that direct I/O accepts.

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

#[cfg(test)]
mod tests {
    use super::*;

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
