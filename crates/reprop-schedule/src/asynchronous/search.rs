//! The search for the best asynchronous plan.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::intervals::{End, Way, even, intervals};
use super::lengths::{Cuts, spread};
use super::overlap;
use super::windows::{READ_PARTS, Windows, whole_parts};
use super::work::Work;
use crate::bound::weigh;
use crate::{Action, Channels, Costs, DiskRevolve, Revolve, Run, simulate};

/// Weights of a transfer beside the computation: 0 hides it wholly, 1 waits for all of it.
const WEIGHTS: [f64; 9] = [0.0, 0.03, 0.07, 0.12, 0.2, 0.3, 0.45, 0.7, 1.0];

/// The same for longer chains, where intervals are better.
const FEW_WEIGHTS: [f64; 2] = [0.2, 1.0];

/// The longest interval with windows.
const LONGEST_WINDOWS: usize = 300;

/// The most parts of an interval that are tried.
const PARTS: usize = 6;

/// Even intervals that are made, and those of them whose last one is then varied.
const EVEN: usize = 24;
const BEST: usize = 2;

/// The longest chain for which more is tried: this many even intervals, and borders moved from this many starts.
pub(super) const FEW: usize = 100;
const MANY: usize = 80;
const CLIMBS: usize = 6;

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

pub(super) struct Search<'a> {
    pub(super) steps: usize,
    pub(super) slots: usize,
    pub(super) costs: &'a Costs,
    channels: Channels,
    /// For reads as long as they are, and for short chains also for others: a read may have to wait for a write.
    pub(super) windows: Vec<Arc<Windows>>,
    work: Work,
    best: Vec<Action>,
    pub(super) run: Run,
}

/// The best plan found, and what it takes.
pub(super) fn best(steps: usize, slots: usize, costs: &Costs, channels: Channels) -> (Vec<Action>, Run) {
    let slots = slots.min(steps);
    let revolve: Vec<Action> = Revolve::over(0, steps, slots).collect();
    let run = simulate(revolve.iter().copied(), costs, channels);
    if steps == 1 {
        return (revolve, run);
    }
    let longest = steps.min(longest_windows(slots, costs));
    let windows = |factor: f64, parts: usize| {
        Arc::new(Windows::new(longest, slots, &weigh(costs, 1.0, 1.0, factor), parts))
    };
    // Short chains gain from many different windows, those that round more among them.
    let factors = if steps <= FEW { &READS[..] } else { &[] };
    let rounded = factors.iter().map(|&factor| windows(factor, READ_PARTS));
    let windows = rounded.chain([windows(1.0, whole_parts(costs))]).collect();
    let work = Work::new(steps, slots, costs);
    let mut search = Search { steps, slots, costs, channels, windows, work, best: revolve, run };
    let cuts = Cuts::new(steps, search.hidden(), &search.windows[0]);
    let cut = search.windows(&cuts);
    let even = search.intervals();
    let tailed = search.tails(&even);
    let starts = if steps <= FEW { CLIMBS } else { 1 };
    for Found { makespan, lengths, way, .. } in
        even.into_iter().take(1).chain(tailed.into_iter().take(starts)).chain(cut)
    {
        search.climb(makespan, lengths, &way, End::default());
    }
    search.stairs(&cuts);
    search.held(&cuts);
    search.weighed();
    (search.best, search.run)
}

/// Intervals with windows need not be longer than some transfers take, nor the last one than what memory holds with few
/// repetitions.
fn longest_windows(slots: usize, costs: &Costs) -> usize {
    let disk = costs.tier(1);
    let hidden = disk.write.max(disk.read) / costs.forward.max(f64::MIN_POSITIVE);
    ((6.0 * hidden) as usize).saturating_add(6 * slots).clamp(LONGEST_WINDOWS / 4, LONGEST_WINDOWS)
}

/// Memory slots for the plan itself: all of them, or all but those that one or two fetches hold.
fn own_slots(slots: usize) -> impl Iterator<Item = usize> {
    (0..=2).filter_map(move |fetches| slots.checked_sub(fetches)).filter(|&own| own > 0)
}

impl Search<'_> {
    /// Hides the transfers of the intervals unless they take at least `limit` anyway; gives their makespan, or
    /// infinity. Takes the plan if it is the best so far.
    pub(super) fn offer(&mut self, lengths: &[usize], way: &Way, end: End, limit: f64) -> f64 {
        if self.work.least(lengths, way, end) >= limit {
            return f64::INFINITY;
        }
        let lowest = self.work.lowest(lengths, way);
        self.hide(&intervals(lengths, way, end, &lowest))
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

    /// The time of a write in forward steps.
    pub(super) fn hidden(&self) -> f64 {
        self.costs.tier(1).write / self.costs.forward.max(f64::MIN_POSITIVE)
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
        let mut candidates = vec![];
        for interval in tried {
            let lengths = even(self.steps, interval);
            // Parts save writes: where the way forward hides them, there is nothing to save.
            let parts =
                (disk.write / (interval * self.costs.forward).max(f64::MIN_POSITIVE) * PARTS as f64).ceil();
            let parts = 1..=(parts as usize).clamp(1, PARTS);
            for way in self.ways(parts) {
                let least = self.work.least(&lengths, &way, End::default());
                candidates.push(Found { makespan: least, interval, lengths: lengths.clone(), way });
            }
        }
        // The most promising first: the sooner a good plan is known, the fewer need to be made.
        candidates.sort_by(|a, b| a.makespan.total_cmp(&b.makespan));
        let mut found = vec![];
        for mut candidate in candidates {
            let limit = self.run.makespan;
            candidate.makespan = self.offer(&candidate.lengths, &candidate.way, End::default(), limit);
            if self.steps > FEW && (found.len() == EVEN || candidate.makespan == f64::INFINITY) {
                break; // the others take no less
            }
            found.push(candidate);
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
                let makespan = self.offer(&lengths, &way, End::default(), self.run.makespan);
                found.push(Found { makespan, interval, lengths, way: way.clone() });
                tail += (tail / 5).max(1);
            }
        }
        found.sort_by(|a, b| a.makespan.total_cmp(&b.makespan));
        found
    }

    /// Intervals with windows, of the lengths that the dynamic programme finds for each number of them.
    fn windows(&mut self, cuts: &Cuts) -> Option<Found> {
        let way = Way::Windows(self.windows[0].clone());
        let in_both_orders = |lengths: Vec<usize>| {
            let (last, earlier) = lengths.split_last().unwrap_or((&0, &[]));
            let mut spread = spread(earlier);
            spread.push(*last);
            [spread, lengths]
        };
        let mut found: Vec<Found> = cuts
            .whole()
            .into_iter()
            .flat_map(in_both_orders)
            .map(|lengths| {
                let least = self.work.least(&lengths, &way, End::default());
                let interval = self.steps as f64 / lengths.len() as f64;
                Found { makespan: least, interval, lengths, way: way.clone() }
            })
            .collect();
        found.sort_by(|x, y| x.makespan.total_cmp(&y.makespan));
        for found in &mut found {
            found.makespan = self.offer(&found.lengths, &way, End::default(), self.run.makespan);
        }
        found.into_iter().min_by(|x, y| x.makespan.total_cmp(&y.makespan))
    }

    /// Disk-Revolve at weighed prices, the unweighed ones of the synchronous schedule among them.
    fn weighed(&mut self) {
        let weights = if self.steps <= FEW { &WEIGHTS[..] } else { &FEW_WEIGHTS[..] };
        for &write in weights {
            for &read in weights {
                let costs = weigh(self.costs, 1.0, write, read);
                for own in own_slots(self.slots) {
                    if let Ok(plan) = DiskRevolve::new(self.steps, own, &costs) {
                        self.hide(&plan.collect::<Vec<_>>());
                    }
                }
            }
        }
    }
}
