//! A chain whose steps differ, under a budget of bytes, with a disk beside it.

use std::collections::VecDeque;

use crate::{Action, Budgeted, Chain, Channels, Error, Prices, Run, Simulator, Slot};

/// How much of its time a transfer may count in the dynamic programme: hidden ones count little.
const WEIGHTS: [f64; 5] = [0.1, 0.25, 0.5, 0.75, 1.0];

/// Recomputation and offload together for unequal steps under a byte budget (after Beaumont, Eyraud-Dubois &
/// Shilova 2021, "POFO").
///
/// [`Budgeted`]'s recurrence has a third choice: write `x_s` to disk and read it back each time, at no bytes, for
/// `w_s + E(s, t, m)` with `E(s, t, m) = min_k F(s, k) + U(k, t, m) + r_s + min(E, U)(s, k-1, m)`.
/// Transfers count part of their time there, since many will be hidden; the plan of each part is then
/// rewritten so that writes and reads run in the background wherever the budget has room for their
/// bytes, simulated, and the fastest is taken. It is never slower than the best plan without a disk, nor
/// than the best whose transfers are all waited for.
///
/// *Time* five times [`Budgeted`]'s. *Use it* for the layers of a network with a second, slower memory.
/// *Not* for like steps: [`Async`](crate::Async) knows more.
///
/// ```
/// use reprop_schedule::{Budgeted, Chain, Channels, Offloaded, Step, Transfer};
/// let transfer = Transfer { write: 1.0, read: 1.0 };
/// let step = Step { forward: 1.0, backward: 3.0, state_bytes: 10, tape_bytes: 40, transfer };
/// let chain = Chain::new(vec![step; 12])?;
/// let (with, without) = (Offloaded::new(&chain, 80, Channels::Shared)?, Budgeted::new(&chain, 80)?);
/// assert!(with.run().makespan < without.makespan());
/// # Ok::<(), reprop_schedule::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Offloaded {
    run: Run,
    actions: std::vec::IntoIter<Action>,
}

impl Offloaded {
    /// A plan for the chain within `budget` bytes of memory.
    ///
    /// # Errors
    /// [`Error::Budget`], [`Error::TooLarge`].
    pub fn new(chain: &Chain, budget: u64, channels: Channels) -> Result<Self, Error> {
        let weights = WEIGHTS.into_iter().map(Some);
        let mut best: Option<(Vec<Action>, Run)> = None;
        for weight in weights.chain([None]) {
            let plan: Vec<Action> = Budgeted::with_disk(chain, budget, weight)?.collect();
            let (actions, run) = hide_transfers(&plan, chain, budget, channels);
            if best.as_ref().is_none_or(|(_, least)| run.makespan < least.makespan) {
                best = Some((actions, run));
            }
        }
        let (actions, run) = best.unwrap_or_default();
        Ok(Self { run, actions: actions.into_iter() })
    }

    /// What the plan takes.
    pub fn run(&self) -> &Run {
        &self.run
    }
}

impl Iterator for Offloaded {
    type Item = Action;

    fn next(&mut self) -> Option<Action> {
        self.actions.next()
    }
}

/// The bytes that the plan has in use after each action, and while it runs.
fn bytes_needed(plan: &[Action], chain: &Chain) -> Vec<u64> {
    let mut held = 0;
    plan.iter()
        .map(|action| {
            let before = held;
            match *action {
                Action::Save { step, slot } if slot.tier == 0 => held += chain.state_bytes(step),
                Action::Record { step, .. } => held += chain.tape_bytes(step),
                Action::Load { step, slot, keep: false } if slot.tier == 0 => held -= chain.state_bytes(step),
                Action::ReverseRecorded { step, .. } => held -= chain.tape_bytes(step),
                Action::Reverse { step } => return held + chain.tape_bytes(step),
                _ => {}
            }
            held.max(before)
        })
        .collect()
}

/// Moves disk transfers to the background where the budget has room for them. Memory slots of transfers are
/// numbered above the plan's own.
fn hide_transfers(plan: &[Action], chain: &Chain, budget: u64, channels: Channels) -> (Vec<Action>, Run) {
    let own = plan.iter().filter_map(|action| match action {
        Action::Save { slot, .. } | Action::Record { slot, .. } if slot.tier == 0 => Some(slot.index + 1),
        _ => None,
    });
    let mut hider = Hider {
        needed: bytes_needed(plan, chain),
        chain,
        budget,
        next_slot: own.max().unwrap_or(0),
        leaving: VecDeque::new(),
        fetched: None,
        simulator: Simulator::new(chain, channels),
        out: vec![],
    };
    for (position, action) in plan.iter().enumerate() {
        hider.fetch_ahead(plan, position);
        hider.rewrite(action, position);
    }
    (hider.out, hider.simulator.finish())
}

struct Hider<'a> {
    needed: Vec<u64>,
    chain: &'a Chain,
    budget: u64,
    next_slot: usize,
    /// States being written, oldest first: they leave memory when bytes are needed.
    leaving: VecDeque<(usize, Slot)>,
    /// `(position of its load, step, memory slot)` of the one fetch under way.
    fetched: Option<(usize, usize, Slot)>,
    simulator: Simulator<'a, Chain>,
    out: Vec<Action>,
}

impl Hider<'_> {
    fn emit(&mut self, action: Action) {
        self.simulator.apply(&action);
        self.out.push(action);
    }

    fn new_slot(&mut self) -> Slot {
        self.next_slot += 1;
        Slot::memory(self.next_slot - 1)
    }

    fn staged(&self) -> u64 {
        let leaving: u64 = self.leaving.iter().map(|&(step, _)| self.chain.state_bytes(step)).sum();
        leaving + self.fetched.map_or(0, |(_, step, _)| self.chain.state_bytes(step))
    }

    /// Waits for writes until `bytes` more than the staged ones fit.
    fn make_room(&mut self, bytes: u64) {
        while self.staged() + bytes > self.budget
            && let Some((step, slot)) = self.leaving.pop_front()
        {
            self.emit(Action::Wait { step, slot });
            self.emit(Action::Free { step, slot });
        }
    }

    /// Fetches the next load's state once the plan leaves room for it until then.
    fn fetch_ahead(&mut self, plan: &[Action], position: usize) {
        if self.fetched.is_some() {
            return;
        }
        let loads = plan[position..].iter().enumerate().find_map(|(offset, action)| match *action {
            Action::Load { step, slot, keep } if slot.tier > 0 => Some((position + offset, step, slot, keep)),
            // Written later than now: nothing to fetch yet.
            Action::Save { slot, .. } if slot.tier > 0 => Some((usize::MAX, 0, slot, false)),
            _ => None,
        });
        let Some((load, step, disk, keep)) = loads.filter(|&(load, ..)| load < plan.len() && load > position)
        else {
            return;
        };
        let most = self.needed[position..load].iter().max().copied().unwrap_or(0);
        let before = if position == 0 { 0 } else { self.needed[position - 1] };
        let bytes = self.chain.state_bytes(step);
        if most.max(before) + bytes > self.budget || self.simulator.reads_end() > self.simulator.clock() {
            return;
        }
        self.make_room(most.max(before) + bytes);
        let to = self.new_slot();
        self.emit(Action::Copy { step, from: disk, to, keep });
        self.fetched = Some((load, step, to));
    }

    fn rewrite(&mut self, action: &Action, position: usize) {
        let needed = self.needed[position];
        self.make_room(needed);
        match *action {
            Action::Save { step, slot } if slot.tier > 0 => {
                if self.staged() + needed + self.chain.state_bytes(step) > self.budget {
                    return self.emit(*action);
                }
                let from = self.new_slot();
                self.emit(Action::Save { step, slot: from });
                self.emit(Action::Copy { step, from, to: slot, keep: true });
                self.leaving.push_back((step, from));
            }
            Action::Load { step, .. } if self.fetched.is_some_and(|(load, ..)| load == position) => {
                if let Some((_, _, slot)) = self.fetched.take() {
                    self.emit(Action::Load { step, slot, keep: false });
                }
            }
            Action::Reverse { step: 0 } | Action::ReverseRecorded { step: 0, .. } => {
                for (step, slot) in std::mem::take(&mut self.leaving) {
                    self.emit(Action::Free { step, slot });
                }
                self.emit(*action);
            }
            _ => self.emit(*action),
        }
    }
}
