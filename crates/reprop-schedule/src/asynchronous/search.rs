//! The search for the best asynchronous plan.

use std::rc::Rc;

use super::intervals::{Inside, LateFetch, Way, even, intervals};
use super::overlap;
use super::windows::Windows;
use crate::bound::weigh;
use crate::least::{Backwards, least_sum};
use crate::{Action, Channels, Costs, DiskRevolve, Prices, Revolve, Run, simulate};

/// The longest chain for which the weighed dynamic programmes are tried.
const LONGEST_WEIGHED: usize = 2000;

/// Weights of a transfer beside the computation: 0 hides it wholly, 1 waits for all of it.
const WEIGHTS: [f64; 9] = [0.0, 0.03, 0.07, 0.12, 0.2, 0.3, 0.45, 0.7, 1.0];

/// The longest interval with windows.
const LONGEST_WINDOWS: usize = 300;

/// Cells of the dynamic programme over numbers of intervals.
const MOST_CELLS: usize = 20_000_000;

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
    /// The ways to reverse an interval that are tried.
    insides: Vec<Inside>,
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
    let mut insides: Vec<Inside> = own_slots(slots).map(Inside::Revolve).collect();
    if slots > 1 {
        insides.push(Inside::LateFetch(LateFetch::new(steps, slots, costs)));
    }
    let mut search = Search { steps, slots, costs, channels, insides, best: revolve, run };
    let even = search.intervals();
    let tailed = search.tails(&even);
    let starts = if steps <= FEW { CLIMBS } else { 1 };
    for Found { makespan, lengths, way, .. } in
        even.into_iter().take(1).chain(tailed.into_iter().take(starts))
    {
        search.climb(makespan, lengths, &way);
    }
    search.windows();
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
            for parts in 1..=(parts as usize).clamp(1, PARTS) {
                for inside in self.insides.clone() {
                    let way = Way::Parts { inside, parts };
                    let makespan = self.offer(&intervals(&lengths, &way));
                    found.push(Found { makespan, interval, lengths: lengths.clone(), way });
                }
            }
        }
        found.sort_by(|a, b| a.makespan.total_cmp(&b.makespan));
        found.truncate(if self.steps <= FEW { MANY } else { BEST });
        found
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
                let makespan = self.offer(&intervals(&lengths, &way));
                found.push(Found { makespan, interval, lengths, way: way.clone() });
                tail += (tail / 5).max(1);
            }
        }
        found.sort_by(|a, b| a.makespan.total_cmp(&b.makespan));
        found
    }

    /// Moves the borders of the best even intervals one by one while that helps.
    fn climb(&mut self, mut makespan: f64, mut lengths: Vec<usize>, way: &Way) {
        let mut budget = CLIMB.min(4_000_000 / self.steps);
        let mut stride = (self.steps / 16).max(1);
        loop {
            let before = makespan;
            for border in (0..lengths.len()).rev() {
                for change in moves(&lengths, border, stride) {
                    let Some(left) = budget.checked_sub(1) else { return };
                    budget = left;
                    let found = self.offer(&intervals(&change, way));
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

    /// Intervals with windows, of the lengths that the dynamic programme at these prices finds for each number of
    /// them.
    fn windows(&mut self) {
        let longest = self.steps.min(LONGEST_WINDOWS);
        let windows = Rc::new(Windows::new(longest, self.slots, self.costs));
        let way = Way::Windows(windows.clone());
        let found = lengths(self.steps, &windows).into_iter().map(|lengths| {
            let makespan = self.offer(&intervals(&lengths, &way));
            (makespan, lengths)
        });
        if let Some((makespan, lengths)) = found.min_by(|x, y| x.0.total_cmp(&y.0)) {
            self.climb(makespan, lengths, &way);
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

/// The best lengths of intervals for each number of them, the last without its way up.
fn lengths(steps: usize, windows: &Windows) -> Vec<Vec<usize>> {
    let (gaps, tails) = (windows.intervals(), windows.tails());
    let longest = gaps.len() - 1;
    // `rows[k][l]`: the least cost of `l` steps in `k` intervals, and the last of them.
    let mut row = vec![f64::INFINITY; steps + 1];
    row[0] = 0.0;
    let mut lasts: Vec<Vec<u16>> = vec![];
    let mut found = vec![];
    for count in 0..(MOST_CELLS / (steps * longest)).min(steps) {
        let tail = (1..=longest)
            .min_by(|&x, &y| (tails[x] + row[steps - x]).total_cmp(&(tails[y] + row[steps - y])))
            .unwrap_or(longest);
        if (tails[tail] + row[steps - tail]).is_finite() {
            let mut lengths = vec![tail];
            let mut left = steps - tail;
            for lasts in lasts.iter().rev() {
                lengths.push(usize::from(lasts[left]));
                left -= usize::from(lasts[left]);
            }
            debug_assert_eq!(left, 0, "{count}");
            lengths.reverse();
            found.push(lengths);
        }
        let mut next = vec![f64::INFINITY; steps + 1];
        let mut last = vec![0; steps + 1];
        let behind = Backwards::of(&row);
        for l in 1..=steps {
            let most = longest.min(l);
            // row[l - x] for x in 1 ..= most
            if let Some((sum, index)) = least_sum(&gaps[1..=most], behind.down_from(l, most)) {
                (next[l], last[l]) = (sum, index as u16 + 1);
            }
        }
        row = next;
        lasts.push(last);
    }
    found
}

/// The interval lengths with one border moved by `stride`, removed, or set anew in the middle.
fn moves(lengths: &[usize], border: usize, stride: usize) -> Vec<Vec<usize>> {
    let mut found = vec![];
    let mut change = |edit: &dyn Fn(&mut Vec<usize>)| {
        let mut copy = lengths.to_vec();
        edit(&mut copy);
        found.push(copy);
    };
    if border + 1 < lengths.len() {
        if lengths[border] > stride {
            change(&|l| (l[border], l[border + 1]) = (l[border] - stride, l[border + 1] + stride));
        }
        if lengths[border + 1] > stride {
            change(&|l| (l[border], l[border + 1]) = (l[border] + stride, l[border + 1] - stride));
        }
        change(&|l| {
            let merged = l.remove(border);
            l[border] += merged;
        });
    }
    if lengths[border] > stride {
        change(&|l| {
            l[border] -= stride;
            l.insert(border + 1, stride);
        });
    }
    found
}
