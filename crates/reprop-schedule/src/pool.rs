//! Which slots of a tier are free.

/// Hands out the lowest or the last released slot. Slots never used are not listed, so that a generous number
/// of slots costs nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pool {
    free: Vec<usize>,
    used: usize,
}

impl Pool {
    /// A pool of `slots` slots, some of them taken.
    pub(crate) fn without(slots: usize, taken: impl Iterator<Item = usize>) -> Self {
        let taken: Vec<usize> = taken.collect();
        Self { free: (0..slots).rev().filter(|slot| !taken.contains(slot)).collect(), used: slots }
    }

    pub(crate) fn take(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.used += 1;
            self.used - 1
        })
    }

    pub(crate) fn release(&mut self, slot: usize) {
        self.free.push(slot);
    }
}
