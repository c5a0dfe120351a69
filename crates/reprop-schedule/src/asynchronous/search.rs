//! The search for the best asynchronous plan.

use super::intervals::{even, intervals};
use super::overlap;
use crate::bound::weigh;
use crate::{Action, Channels, Costs, DiskRevolve, Revolve, Run, simulate};

/// The longest chain for which the weighed dynamic programmes are tried.
const LONGEST_WEIGHED: usize = 2000;

/// Weights of a transfer beside the computation: 0 hides it wholly, 1 waits for all of it.
const WEIGHTS: [f64; 9] = [0.0, 0.03, 0.07, 0.12, 0.2, 0.3, 0.45, 0.7, 1.0];

struct Search<'a> {
    steps: usize,
    slots: usize,
    costs: &'a Costs,
    channels: Channels,
    best: Vec<Action>,
    run: Run,
}

/// The best plan found, and what it takes.
pub(super) fn best(steps: usize, slots: usize, costs: &Costs, channels: Channels) -> (Vec<Action>, Run) {
    let slots = slots.min(steps);
    let revolve: Vec<Action> = Revolve::over(0, steps, slots).collect();
    let run = simulate(revolve.iter().copied(), costs, channels);
    let mut search = Search { steps, slots, costs, channels, best: revolve, run };
    if steps > 1 {
        search.intervals();
        if steps <= LONGEST_WEIGHED {
            search.weighed();
            search.synchronous();
        }
        search.climb();
    }
    (search.best, search.run)
}

impl Search<'_> {
    fn offer(&mut self, actions: Vec<Action>, run: Run) -> bool {
        let better = run.makespan < self.run.makespan;
        if better {
            (self.best, self.run) = (actions, run);
        }
        better
    }

    fn offer_plan(&mut self, plan: &[Action]) -> bool {
        let (actions, run) = overlap(plan, self.slots, self.costs, self.channels);
        self.offer(actions, run)
    }

    /// Memory slots for the plan itself: all of them, or all but those that one or two fetches hold.
    fn own_slots(&self) -> impl Iterator<Item = usize> + use<> {
        let slots = self.slots;
        (0..=2).filter_map(move |fetches| slots.checked_sub(fetches)).filter(|&own| own > 0)
    }

    fn intervals(&mut self) {
        let disk = self.costs.tier(1);
        let hidden = disk.write.max(disk.read) / self.costs.forward.max(f64::MIN_POSITIVE);
        let mut tried = vec![hidden.clamp(1.0, self.steps as f64)];
        let mut length = 1.0;
        while length < self.steps as f64 {
            tried.push(length);
            length = (length * 1.05).max(length + 1.0).floor();
        }
        for interval in tried {
            for own in self.own_slots() {
                self.offer_plan(&intervals(&even(self.steps, interval), own));
            }
        }
    }

    fn weighed(&mut self) {
        for write in WEIGHTS {
            for read in WEIGHTS {
                for own in self.own_slots() {
                    let costs = weigh(self.costs, 1.0, write, read);
                    if let Ok(plan) = DiskRevolve::new(self.steps, own, &costs) {
                        self.offer_plan(&plan.collect::<Vec<_>>());
                    }
                }
            }
        }
    }

    fn synchronous(&mut self) {
        if let Ok(plan) = DiskRevolve::new(self.steps, self.slots, self.costs) {
            let actions: Vec<Action> = plan.collect();
            let run = simulate(actions.iter().copied(), self.costs, self.channels);
            self.offer(actions, run);
        }
    }

    fn climb(&mut self) {}
}
