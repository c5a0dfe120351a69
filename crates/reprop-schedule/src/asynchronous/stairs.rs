//! Intervals at the end of the chain that leave memory to the writes still under way.

use super::intervals::even;
use super::lengths::{Cuts, spread};

/// With intervals shorter than a write, the way forward leaves writes behind, each of which holds its slot until its
/// turn. What is reversed meanwhile has fewer slots, and more as time goes on: so the last intervals are
/// shorter, and climb from `base` slots. Those below are even, or as long as the dynamic
/// programme says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stairs {
    /// How many intervals lie below the stairs.
    below: usize,
    /// Whether these are even.
    even: bool,
    /// The length of the last interval.
    tail: usize,
    /// The slots of the last interval.
    base: usize,
    /// How many more each one before it has.
    rise: usize,
    /// The length of an interval on the stairs is half as often its slots.
    width: usize,
}

impl Stairs {
    /// Stairs to begin with, and so many intervals.
    pub(super) fn new(steps: usize, slots: usize, below: usize, even: bool) -> Self {
        Self { below, even, tail: (3 * slots).min(steps), base: slots.div_ceil(2), rise: 2, width: 3 }
    }

    /// The lengths of all intervals, and the slots of those on the stairs, from the last one; none if there is no room for
    /// so many below.
    pub(super) fn cut(&self, steps: usize, slots: usize, cuts: &Cuts) -> Option<(Vec<usize>, Vec<usize>)> {
        let (mut stairs, mut own) = (vec![], vec![]);
        let (mut left, mut level) = (steps, self.base);
        while left > 0 && level < slots {
            let wanted = if own.is_empty() { self.tail } else { self.width * (level + 1) / 2 };
            let length = wanted.clamp(1, left);
            stairs.push(length);
            own.push(level);
            (left, level) = (left - length, level + self.rise);
        }
        let below = if left == 0 { 0 } else { self.below };
        let mut lengths = if self.even {
            even(left, left.div_ceil(below.max(1)).max(1) as f64)
        } else {
            spread(&cuts.of(below, left)?)
        };
        lengths.extend(stairs.into_iter().rev());
        Some((lengths, own))
    }

    /// The stairs that differ in one number.
    pub(super) fn changes(&self, steps: usize, slots: usize) -> Vec<Self> {
        let near =
            |value: usize| [value - (value / 6).max(1), value - 1, value + 1, value + (value / 6).max(1)];
        let counts = near(self.below).map(|below| Self { below, ..*self });
        let tails = near(self.tail).map(|tail| Self { tail, ..*self });
        let bases = near(self.base).map(|base| Self { base, ..*self });
        let rises = [1, 2, 3].map(|rise| Self { rise, ..*self });
        let widths = [1, 2, 3, 4, 6].map(|width| Self { width, ..*self });
        let other = Self { even: !self.even, ..*self };
        let all = [other].into_iter().chain(counts).chain(tails).chain(bases).chain(rises).chain(widths);
        let fits = |stairs: &Self| {
            (1..=steps).contains(&stairs.below)
                && (1..=steps).contains(&stairs.tail)
                && (1..slots).contains(&stairs.base)
        };
        all.filter(fits).collect()
    }
}
