//! Intervals at the end of the chain that leave memory to the writes still under way.

use super::intervals::even;

/// With intervals shorter than a write, the way forward leaves writes behind, each of which holds its slot until its
/// turn. What is reversed meanwhile has fewer slots, and more as time goes on: so the last intervals are
/// shorter, and climb from `base` slots.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stairs {
    /// The length of the intervals below the stairs.
    interval: usize,
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
    /// Stairs to begin with.
    pub(super) fn new(steps: usize, slots: usize, interval: f64) -> Self {
        let interval = (interval.ceil() as usize).clamp(1, steps);
        Self { interval, tail: (3 * slots).min(steps), base: slots.div_ceil(2), rise: 2, width: 3 }
    }

    /// The lengths of all intervals, and the slots of those on the stairs, from the last one.
    pub(super) fn cut(&self, steps: usize, slots: usize) -> (Vec<usize>, Vec<usize>) {
        let (mut stairs, mut own) = (vec![], vec![]);
        let (mut left, mut level) = (steps, self.base);
        while left > 0 && level < slots {
            let wanted =
                if own.is_empty() { self.tail } else { (self.width * (level + 1) / 2).min(self.interval) };
            let length = wanted.clamp(1, left);
            stairs.push(length);
            own.push(level);
            (left, level) = (left - length, level + self.rise);
        }
        let mut lengths = even(left, self.interval as f64);
        lengths.extend(stairs.into_iter().rev());
        (lengths, own)
    }

    /// The stairs that differ in one number.
    pub(super) fn changes(&self, steps: usize, slots: usize) -> Vec<Self> {
        let near =
            |value: usize| [value - (value / 6).max(1), value - 1, value + 1, value + (value / 6).max(1)];
        let intervals = near(self.interval).map(|interval| Self { interval, ..*self });
        let tails = near(self.tail).map(|tail| Self { tail, ..*self });
        let bases = near(self.base).map(|base| Self { base, ..*self });
        let rises = [1, 2, 3].map(|rise| Self { rise, ..*self });
        let widths = [1, 2, 3, 4, 6].map(|width| Self { width, ..*self });
        let all = intervals.into_iter().chain(tails).chain(bases).chain(rises).chain(widths);
        let fits = |stairs: &Self| {
            (1..=steps).contains(&stairs.interval)
                && (1..=steps).contains(&stairs.tail)
                && (1..slots).contains(&stairs.base)
        };
        all.filter(fits).collect()
    }
}
