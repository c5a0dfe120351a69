//! The search for the best asynchronous plan.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::intervals::{Way, even, intervals};
use super::lengths::{lengths, moves};
use super::overlap;
use super::stairs::Stairs;
use super::windows::Windows;
use crate::bound::weigh;
use crate::{Action, Channels, Costs, DiskRevolve, Prices, Revolve, Run, simulate};

/// The longest chain for which the weighed dynamic programmes are tried.
const LONGEST_WEIGHED: usize = 2000;

/// Weights of a transfer beside the computation: 0 hides it wholly, 1 waits for all of it.
const WEIGHTS: [f64; 9] = [0.0, 0.03, 0.07, 0.12, 0.2, 0.3, 0.45, 0.7, 1.0];

/// The longest interval with windows.
const LONGEST_WINDOWS: usize = 300;

/// Plans that the climb may look at.
const CLIMB: usize = 1000;

/// The most parts of an interval that are tried.
const PARTS: usize = 6;

/// Even intervals whose last one is then varied.
const BEST: usize = 8;

/// The longest chain for which more is tried: this many even intervals, and borders moved from this many starts.
const FEW: usize = 100;
const MANY: usize = 80;
const CLIMBS: usize = 6;

/// Borders of stairs are moved if these take no more than so many times the best.
const NEAR: f64 = 1.005;

/// Stairs start from intervals of so many times a write.
const STAIRS: [f64; 2] = [0.5, 0.8];

/// Factors of the time of a read that windows are planned for.
const READS: [f64; 5] = [1.0, 0.25, 0.5, 1.5, 2.0];

/// Intervals, how they are reversed, and what that takes.
#[derive(Clone)]
struct Found {
    makespan: f64,
    /// The mean length.
    interval: f64,
    lengths: Vec<usize>,
    way: Way,
}

struct Search<'a> {
    steps: usize,
    slots: usize,
    costs: &'a Costs,
    channels: Channels,
    /// For reads as long as they are, and for short chains also for others: a read may have to wait for a write.
    windows: Vec<Arc<Windows>>,
    best: Vec<Action>,
    run: Run,
}

/// The best plan found, and what it takes.
pub(super) fn best(steps: usize, slots: usize, costs: &Costs, channels: Channels) -> (Vec<Action>, Run) {
    let slots = slots.min(steps);
    let revolve: Vec<Action> = Revolve::over(0, steps, slots).collect();
    let run = simulate(revolve.iter().copied(), costs, channels);
    if steps == 1 {
        return (revolve, run);
    }
    let factors = if steps <= FEW { &READS[..] } else { &[1.0] };
    let windows = |&factor: &f64| {
        Arc::new(Windows::new(steps.min(LONGEST_WINDOWS), slots, &weigh(costs, 1.0, 1.0, factor)))
    };
    let windows = factors.iter().map(windows).collect();
    let mut search = Search { steps, slots, costs, channels, windows, best: revolve, run };
    let even = search.intervals();
    let tailed = search.tails(&even);
    let starts = if steps <= FEW { CLIMBS } else { 1 };
    for Found { makespan, lengths, way, .. } in
        even.into_iter().take(1).chain(tailed.into_iter().take(starts))
    {
        search.climb(makespan, lengths, &way, &[]);
    }
    search.windows();
    search.stairs();
    search.weighed();
    (search.best, search.run)
}

/// Memory slots for the plan itself: all of them, or all but those that one or two fetches hold.
fn own_slots(slots: usize) -> impl Iterator<Item = usize> {
    (0..=2).filter_map(move |fetches| slots.checked_sub(fetches)).filter(|&own| own > 0)
}

impl Search<'_> {
    /// Takes the plan with its transfers hidden if it is the best so far; gives its makespan, or infinity if
    /// its computation alone takes as long as the best, which most plans show without being simulated.
    fn offer(&mut self, plan: &[Action]) -> f64 {
        let computation: f64 = plan
            .iter()
            .map(|action| match *action {
                Action::Forward { from, to } => self.costs.forward(from, to),
                Action::Reverse { step } => self.costs.reverse(step),
                _ => 0.0,
            })
            .sum();
        if computation >= self.run.makespan {
            return f64::INFINITY;
        }
        self.hide(plan)
    }

    /// Takes the plan with its transfers hidden if it is the best so far; gives its makespan.
    fn hide(&mut self, plan: &[Action]) -> f64 {
        let (actions, run) = overlap(plan, self.slots, self.costs, self.channels);
        let makespan = run.makespan;
        if makespan < self.run.makespan {
            (self.best, self.run) = (actions, run);
        }
        makespan
    }

    /// Even intervals of every length worth trying, floor and ceiling mixed. The published interval, the time
    /// of a transfer in forward steps, is the first; a shorter one stalls on the way forward and recomputes
    /// less on the way back, and the simulator weighs the two.
    fn intervals(&mut self) -> Vec<Found> {
        let disk = self.costs.tier(1);
        let hidden = disk.write.max(disk.read) / self.costs.forward.max(f64::MIN_POSITIVE);
        let mut tried = vec![hidden.clamp(1.0, self.steps as f64)];
        let mut length = 1.0;
        while length < self.steps as f64 {
            tried.push(length);
            length = (length * 1.05).max(length + 1.0).floor();
        }
        let mut found = vec![];
        for interval in tried {
            let lengths = even(self.steps, interval);
            // Parts save writes: where the way forward hides them, there is nothing to save.
            let parts =
                (disk.write / (interval * self.costs.forward).max(f64::MIN_POSITIVE) * PARTS as f64).ceil();
            let parts = 1..=(parts as usize).clamp(1, PARTS);
            for way in self.ways(parts) {
                let makespan = self.offer(&intervals(&lengths, &way, &[]));
                found.push(Found { makespan, interval, lengths: lengths.clone(), way });
            }
        }
        found.sort_by(|a, b| a.makespan.total_cmp(&b.makespan));
        found.truncate(if self.steps <= FEW { MANY } else { BEST });
        found
    }

    /// The ways to reverse intervals, in up to so many parts.
    fn ways(&self, parts: RangeInclusive<usize>) -> Vec<Way> {
        let mut ways: Vec<Way> = self.windows.iter().cloned().map(Way::Windows).collect();
        for parts in parts {
            ways.extend(own_slots(self.slots).map(|slots| Way::Parts { slots, parts }));
            let windows = self.windows.iter().cloned();
            ways.extend(windows.map(|windows| Way::PartsWithWindows { windows, parts }));
        }
        ways
    }

    /// Other lengths of the last interval, which is reversed where it stands: it has no read to wait for and all
    /// the slots, and may be longer than the others. The best found come first.
    fn tails(&mut self, even_ones: &[Found]) -> Vec<Found> {
        let mut found = vec![];
        for Found { interval, way, .. } in even_ones.iter().cloned() {
            let mut tail = 1;
            while tail < self.steps {
                let mut lengths = even(self.steps - tail, interval);
                lengths.push(tail);
                let makespan = self.offer(&intervals(&lengths, &way, &[]));
                found.push(Found { makespan, interval, lengths, way: way.clone() });
                tail += (tail / 5).max(1);
            }
        }
        found.sort_by(|a, b| a.makespan.total_cmp(&b.makespan));
        found
    }

    /// Moves the borders of the best even intervals one by one while that helps.
    fn climb(&mut self, mut makespan: f64, mut lengths: Vec<usize>, way: &Way, own: &[usize]) {
        let mut budget = CLIMB.min(4_000_000 / self.steps);
        let mut stride = (self.steps / 16).max(1);
        loop {
            let before = makespan;
            for border in (0..lengths.len()).rev() {
                for change in moves(&lengths, border, stride) {
                    let Some(left) = budget.checked_sub(1) else { return };
                    budget = left;
                    let found = self.offer(&intervals(&change, way, own));
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

    /// Intervals with windows, of the lengths that the dynamic programme finds for each number of them.
    fn windows(&mut self) {
        let way = Way::Windows(self.windows[0].clone());
        let found = lengths(self.steps, &self.windows[0]).into_iter().map(|lengths| {
            let makespan = self.offer(&intervals(&lengths, &way, &[]));
            (makespan, lengths)
        });
        if let Some((makespan, lengths)) = found.min_by(|x, y| x.0.total_cmp(&y.0)) {
            self.climb(makespan, lengths, &way, &[]);
        }
    }

    /// Intervals so short that their writes end after the way forward, the last of them with fewer slots: the best
    /// stairs that one change at a time leads to.
    fn stairs(&mut self) {
        if self.steps > LONGEST_WEIGHED || self.slots < 2 {
            return;
        }
        let way = Way::Windows(self.windows[0].clone());
        let hidden = self.costs.tier(1).write / self.costs.forward.max(f64::MIN_POSITIVE);
        for share in STAIRS {
            let mut stairs = Stairs::new(self.steps, self.slots, share * hidden);
            let mut budget = CLIMB.min(400_000 / self.steps);
            let offer = |search: &mut Self, stairs: &Stairs| {
                let (lengths, own) = stairs.cut(search.steps, search.slots);
                search.hide(&intervals(&lengths, &way, &own))
            };
            let mut makespan = offer(self, &stairs);
            while budget > 0 {
                let before = makespan;
                for change in stairs.changes(self.steps, self.slots) {
                    budget = budget.saturating_sub(1);
                    let found = offer(self, &change);
                    if found < makespan {
                        (makespan, stairs) = (found, change);
                    }
                }
                if makespan >= before {
                    break;
                }
            }
            if makespan <= NEAR * self.run.makespan {
                let (lengths, own) = stairs.cut(self.steps, self.slots);
                self.climb(makespan, lengths, &way, &own);
            }
        }
    }

    /// Disk-Revolve at weighed prices, the unweighed ones of the synchronous schedule among them.
    fn weighed(&mut self) {
        let weights = if self.steps <= LONGEST_WEIGHED { &WEIGHTS[..] } else { &[1.0] };
        for &write in weights {
            for &read in weights {
                let costs = weigh(self.costs, 1.0, write, read);
                for own in own_slots(self.slots) {
                    if let Ok(plan) = DiskRevolve::new(self.steps, own, &costs) {
                        self.offer(&plan.collect::<Vec<_>>());
                    }
                }
            }
        }
    }
}
