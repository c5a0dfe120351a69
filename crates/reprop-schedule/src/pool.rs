//! Which slots of a tier are free.

/// Hands out the lowest or the last released slot. Slots never used are not listed, so that a generous number
/// of slots costs nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pool {
    free: Vec<usize>,
    used: usize,
}

impl Pool {
    /// A pool with these slots taken.
    pub(crate) fn without(taken: impl Iterator<Item = usize> + Clone) -> Self {
        let used = taken.clone().max().map_or(0, |last| last + 1);
        let mut in_use = vec![false; used];
        taken.for_each(|slot| in_use[slot] = true);
        Self { free: (0..used).rev().filter(|&slot| !in_use[slot]).collect(), used }
    }

    #[inline]
    pub(crate) fn take(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.used += 1;
            self.used - 1
        })
    }

    #[inline]
    pub(crate) fn release(&mut self, slot: usize) {
        self.free.push(slot);
    }
}
