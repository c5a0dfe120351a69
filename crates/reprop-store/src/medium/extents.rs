//! Which parts of a segment are free.

use std::collections::BTreeMap;

/// The free stretches of a segment, by where they start; neighbours are always joined.
#[derive(Debug)]
pub(super) struct Extents {
    free: BTreeMap<u64, u64>,
}

impl Extents {
    /// A segment of `length` bytes, all free.
    pub(super) fn new(length: u64) -> Self {
        Self { free: BTreeMap::from([(0, length)]) }
    }

    /// Whether a stretch of `span` bytes is free.
    pub(super) fn fits(&self, span: u64) -> bool {
        self.free.values().any(|length| *length >= span)
    }

    /// Takes the first free stretch that `span` bytes fit into. Snapshots go as they came, last in first out, so
    /// the first fit keeps the taken part together at the front.
    pub(super) fn take(&mut self, span: u64) -> Option<u64> {
        let (&start, &length) = self.free.iter().find(|(_, length)| **length >= span)?;
        self.free.remove(&start);
        if length > span {
            self.free.insert(start + span, length - span);
        }
        Some(start)
    }

    /// Takes this very stretch, which a manifest says is in use. `false` if it is not free.
    pub(super) fn claim(&mut self, start: u64, span: u64) -> bool {
        let Some((&from, &length)) = self.free.range(..=start).next_back() else { return false };
        let Some(end) = start.checked_add(span) else { return false };
        if end > from + length {
            return false;
        }
        self.free.remove(&from);
        if from < start {
            self.free.insert(from, start - from);
        }
        if end < from + length {
            self.free.insert(end, from + length - end);
        }
        true
    }

    /// Gives a stretch back.
    pub(super) fn give(&mut self, start: u64, span: u64) {
        let (mut start, mut end) = (start, start + span);
        if let Some((&before, &length)) = self.free.range(..start).next_back()
            && before + length == start
        {
            self.free.remove(&before);
            start = before;
        }
        if let Some(length) = self.free.remove(&end) {
            end += length;
        }
        self.free.insert(start, end - start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_joins_its_neighbours() {
        let mut extents = Extents::new(100);
        let starts: Vec<_> = (0..10).map(|_| extents.take(10).unwrap()).collect();
        assert_eq!(extents.take(1), None);
        for i in [3, 5, 4, 0, 9, 1, 2, 8, 6, 7] {
            extents.give(starts[i], 10);
        }
        assert_eq!(extents.free, BTreeMap::from([(0, 100)]));
    }

    #[test]
    fn only_what_is_free_can_be_claimed() {
        let mut extents = Extents::new(100);
        assert!(extents.claim(40, 20));
        assert!(!extents.claim(50, 20));
        assert!(!extents.claim(39, 2));
        assert!(!extents.claim(90, 20));
        assert!(!extents.claim(u64::MAX, 20));
        assert_eq!(extents.take(41), None);
        assert_eq!(extents.take(40), Some(0));
        assert_eq!(extents.take(40), Some(60));
        extents.give(40, 20);
        assert_eq!(extents.free, BTreeMap::from([(40, 20)]));
    }
}
