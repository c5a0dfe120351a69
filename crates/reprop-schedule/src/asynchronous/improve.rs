//! Plans made better by small changes.

use super::held::Ends;
use super::intervals::{End, Way};
use super::lengths::{Cuts, moves, spread};
use super::search::{FEW, Search};
use super::stairs::Stairs;

/// Plans that a climb may make, and their steps in all; those in which stairs may be changed.
const CLIMB: usize = 1000;
const MOST_CLIMBED: usize = 50_000;
const MOST_STAIRS: usize = 60_000;

/// Borders are moved in plans that take no more than so many times the best.
const NEAR: f64 = 1.005;

/// Stairs that take more than so many times the best are given up; those after the first changes sooner.
const FAR: [f64; 2] = [1.1, 1.02];

/// Stairs start from intervals of so many times a write, even ones or as long as the dynamic programme says.
const STAIRS: [(f64, bool); 3] = [(0.5, false), (0.75, false), (0.9, true)];

/// Ends that are held in memory: so many are made, and the borders of so many of them are moved.
const HELD: usize = 16;
const HELD_CLIMBS: usize = 2;

impl Search<'_> {
    /// Moves the borders of the best even intervals one by one while that helps.
    pub(super) fn climb(&mut self, mut makespan: f64, mut lengths: Vec<usize>, way: &Way, end: End) {
        if self.steps > FEW && makespan > NEAR * self.run.makespan {
            return;
        }
        let mut budget = CLIMB.min(MOST_CLIMBED / self.steps);
        let mut stride = (self.steps / 16).max(1);
        loop {
            let before = makespan;
            for border in (0..lengths.len()).rev() {
                for change in moves(&lengths, border, stride) {
                    let found = self.offer(&change, way, end, self.run.makespan);
                    let Some(left) = budget.checked_sub(usize::from(found.is_finite())) else { return };
                    budget = left;
                    if found < makespan {
                        (makespan, lengths) = (found, change);
                        break;
                    }
                }
                if border >= lengths.len() {
                    break;
                }
            }
            if makespan >= before {
                if stride == 1 {
                    return;
                }
                stride = (stride / 4).max(1);
            }
        }
    }

    /// Intervals so short that their writes end after the way forward, the last of them with fewer slots: the best
    /// stairs that one change at a time leads to.
    pub(super) fn stairs(&mut self, cuts: &Cuts) {
        if self.slots < 2 {
            return;
        }
        let way = Way::Windows(self.windows[0].clone());
        for (share, even) in STAIRS {
            let below = (self.steps as f64 / (share * self.hidden()).max(1.0)) as usize;
            let mut stairs = Stairs::new(self.steps, self.slots, below.max(1), even);
            let mut budget = CLIMB.min(MOST_STAIRS / self.steps);
            let offer = |search: &mut Self, stairs: &Stairs, limit: f64| match stairs.cut(
                search.steps,
                search.slots,
                cuts,
            ) {
                Some((lengths, own)) => search.offer(&lengths, &way, End { slots: &own, held: 0 }, limit),
                None => f64::INFINITY,
            };
            let mut makespan = offer(self, &stairs, f64::INFINITY);
            if self.steps > FEW && makespan > FAR[0] * self.run.makespan {
                continue;
            }
            while budget > 0 {
                let before = makespan;
                for change in stairs.changes(self.steps, self.slots) {
                    let found = offer(self, &change, makespan);
                    budget = budget.saturating_sub(usize::from(found.is_finite()));
                    if found < makespan {
                        (makespan, stairs) = (found, change);
                    }
                }
                if makespan >= before || self.steps > FEW && makespan > FAR[1] * self.run.makespan {
                    break;
                }
            }
            if let Some((lengths, own)) = stairs.cut(self.steps, self.slots, cuts) {
                self.climb(makespan, lengths, &way, End { slots: &own, held: 0 });
            }
        }
    }

    /// Ends of the chain that are held in memory, above each number of intervals; the borders of the best ones are moved.
    pub(super) fn held(&mut self, cuts: &Cuts) {
        if self.slots < 2 {
            return;
        }
        let way = Way::Windows(self.windows[0].clone());
        let ends = Ends::new(self.steps, self.slots, self.costs);
        let mut found: Vec<_> = (1..=cuts.most()).filter_map(|count| ends.best(count, cuts)).collect();
        found.sort_by(|x, y| x.time.total_cmp(&y.time));
        let mut made = vec![];
        for held in found.into_iter().take(HELD) {
            let Some(below) = cuts.of(held.count, self.steps - held.lengths.iter().sum::<usize>()) else {
                continue;
            };
            let mut lengths = spread(&below);
            lengths.extend(&held.lengths);
            let end = End { slots: &held.slots, held: held.slots.len() - 1 };
            let makespan = self.offer(&lengths, &way, end, f64::INFINITY);
            made.push((makespan, lengths, held.slots));
        }
        made.sort_by(|x, y| x.0.total_cmp(&y.0));
        for (makespan, lengths, slots) in made.into_iter().take(HELD_CLIMBS) {
            self.climb(makespan, lengths, &way, End { slots: &slots, held: slots.len() - 1 });
        }
    }
}
