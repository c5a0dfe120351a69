//! The search for the best asynchronous plan.

use super::intervals::{Inside, LateFetch, even, intervals};
use super::overlap;
use crate::bound::weigh;
use crate::{Action, Channels, Costs, DiskRevolve, Prices, Revolve, Run, simulate};

/// The longest chain for which the weighed dynamic programmes are tried.
const LONGEST_WEIGHED: usize = 2000;

/// Weights of a transfer beside the computation: 0 hides it wholly, 1 waits for all of it.
const WEIGHTS: [f64; 9] = [0.0, 0.03, 0.07, 0.12, 0.2, 0.3, 0.45, 0.7, 1.0];

/// Plans that the climb may look at.
const CLIMB: usize = 1500;

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
    let (makespan, lengths, inside) = search.intervals();
    search.climb(makespan, lengths, &inside);
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
    fn intervals(&mut self) -> (f64, Vec<usize>, Inside) {
        let disk = self.costs.tier(1);
        let hidden = disk.write.max(disk.read) / self.costs.forward.max(f64::MIN_POSITIVE);
        let mut tried = vec![hidden.clamp(1.0, self.steps as f64)];
        let mut length = 1.0;
        while length < self.steps as f64 {
            tried.push(length);
            length = (length * 1.05).max(length + 1.0).floor();
        }
        let mut best = (f64::INFINITY, vec![self.steps], Inside::Revolve(self.slots));
        for interval in tried {
            let lengths = even(self.steps, interval);
            for inside in self.insides.clone() {
                let makespan = self.offer(&intervals(&lengths, &inside));
                if makespan < best.0 {
                    best = (makespan, lengths.clone(), inside);
                }
            }
        }
        best
    }

    /// Moves the borders of the best even intervals one by one while that helps.
    fn climb(&mut self, mut makespan: f64, mut lengths: Vec<usize>, inside: &Inside) {
        let mut budget = CLIMB.min(4_000_000 / self.steps);
        let mut stride = (self.steps / 16).max(1);
        loop {
            let before = makespan;
            for border in (0..lengths.len()).rev() {
                for change in moves(&lengths, border, stride) {
                    let Some(left) = budget.checked_sub(1) else { return };
                    budget = left;
                    let found = self.offer(&intervals(&change, inside));
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
