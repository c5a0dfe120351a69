//! Turns a plan that waits for its transfers into one that does not.

use std::collections::VecDeque;

use crate::{Action, Channels, Prices, Run, Simulator, Slot, simulate};

/// What a memory slot is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Nothing,
    /// A snapshot that the plan keeps in its own memory slot of this index.
    Plan(usize, usize),
    /// A state that is on disk too: it may be dropped when room is needed.
    Spare(usize),
    /// A state fetched, or kept, for the load at this position of the plan.
    Fetched(usize, usize),
}

/// Rewrites `plan` (tiers 0 and 1, transfers waited for) so that each disk write leaves from a memory slot in
/// the background and each disk read is fetched into a memory slot ahead of its use. Never more than `slots`
/// memory slots are in use, those of running transfers included. Gives the actions and what they take.
///
/// A state just written stays in its slot as a spare until room is needed, so the last ones written (the
/// first ones needed) are often still there. A fetch starts as soon as the plan's own use of memory, known
/// in advance, leaves it a slot until its load.
pub(crate) fn overlap<P: Prices>(
    plan: &[Action],
    slots: usize,
    prices: &P,
    channels: Channels,
) -> (Vec<Action>, Run) {
    let mut overlap = Overlap {
        plan,
        loads: earliest_fetches(plan, slots),
        next_load: 0,
        fetched: VecDeque::new(),
        memory: vec![Use::Nothing; slots],
        spares: 0,
        written: vec![],
        simulator: Simulator::new(prices, channels),
        prices,
        out: Vec::with_capacity(plan.len() * 3 / 2),
    };
    for position in 0..plan.len() {
        overlap.fetch_ahead(position);
        overlap.rewrite(position);
    }
    let (actions, run) = (overlap.out, overlap.simulator.finish());
    match without_idle_writes(&actions) {
        Some(fewer) => {
            let run = simulate(fewer.iter().copied(), prices, channels);
            (fewer, run)
        }
        None => (actions, run),
    }
}

/// The actions without the disk copies that nobody reads, because their states stayed in memory; `None` if
/// there are no such copies.
fn without_idle_writes(actions: &[Action]) -> Option<Vec<Action>> {
    // Where each disk slot was filled and not read since.
    let mut written: Vec<Option<usize>> = vec![];
    let mut idle = vec![];
    for (position, action) in actions.iter().enumerate() {
        match *action {
            Action::Copy { to, .. } if to.tier > 0 => {
                written.resize(written.len().max(to.index + 1), None);
                written[to.index] = Some(position);
            }
            Action::Copy { from, .. } if from.tier > 0 => written[from.index] = None,
            Action::Free { slot, .. } if slot.tier > 0 => {
                idle.extend(written[slot.index].take().into_iter().flat_map(|copy| [copy, position]));
            }
            _ => {}
        }
    }
    idle.sort_unstable();
    let mut idle = idle.into_iter().peekable();
    idle.peek()?;
    let kept = actions.iter().enumerate().filter(|&(position, _)| idle.next_if_eq(&position).is_none());
    Some(kept.map(|(_, action)| *action).collect())
}

/// A disk load of the plan, and from where on `k + 1` fetches at once leave the plan enough memory.
#[derive(Debug, Clone, Copy)]
struct DiskLoad {
    position: usize,
    step: usize,
    slot: Slot,
    earliest: [usize; DEEPEST],
}

/// More fetches than two at once would only hold memory: one channel serves them one after the other.
const DEEPEST: usize = 2;

fn earliest_fetches(plan: &[Action], slots: usize) -> Vec<DiskLoad> {
    let mut in_use = 0_usize;
    // For each number of fetches, the first position before whose action the plan leaves room for them, and
    // goes on doing so.
    let mut blocked = [0; DEEPEST];
    let mut loads = vec![];
    for (position, action) in plan.iter().enumerate() {
        match *action {
            Action::Save { slot, .. } if slot.tier == 0 => in_use += 1,
            Action::Load { slot, keep: false, .. } if slot.tier == 0 => in_use -= 1,
            Action::Load { step, slot, .. } if slot.tier > 0 => {
                loads.push(DiskLoad { position, step, slot, earliest: blocked });
            }
            _ => {}
        }
        for (fetches, last) in blocked.iter_mut().enumerate() {
            if in_use + fetches + 1 > slots {
                *last = position + 2;
            }
        }
    }
    loads
}

struct Overlap<'a, P> {
    plan: &'a [Action],
    loads: Vec<DiskLoad>,
    next_load: usize,
    /// `(position of the load, memory slot)` of the fetches under way, in the order of their loads.
    fetched: VecDeque<(usize, usize)>,
    memory: Vec<Use>,
    /// How many spares there are.
    spares: usize,
    /// Whether each step's state was written to disk and is still needed.
    written: Vec<bool>,
    simulator: Simulator<'a, P>,
    prices: &'a P,
    out: Vec<Action>,
}

impl<P: Prices> Overlap<'_, P> {
    fn emit(&mut self, action: Action) {
        self.simulator.apply(&action);
        self.out.push(action);
    }

    /// Lets a slot be used so.
    fn put(&mut self, index: usize, to: Use) {
        let from = std::mem::replace(&mut self.memory[index], to);
        self.spares += usize::from(matches!(to, Use::Spare(_)));
        self.spares -= usize::from(matches!(from, Use::Spare(_)));
    }

    /// The slot with the spare state of this step.
    fn spare(&self, step: usize) -> Option<usize> {
        if self.spares == 0 {
            return None;
        }
        self.memory.iter().position(|&held| held == Use::Spare(step))
    }

    /// Starts the fetches that memory and the channel have room for before the action at `position`.
    fn fetch_ahead(&mut self, position: usize) {
        while self.fetched.len() < DEEPEST
            && let Some(&load) = self.loads.get(self.next_load)
        {
            let early = load.position > position && load.earliest[self.fetched.len()] > position;
            if early || !self.written.get(load.step).is_some_and(|&written| written) {
                return;
            }
            let kept = self.spare(load.step);
            if kept.is_none() && load.position > position && !self.channel_is_due(position) {
                return;
            }
            let index = kept.unwrap_or_else(|| self.make_room());
            if kept.is_none() {
                self.emit(Action::Copy {
                    step: load.step,
                    from: load.slot,
                    to: Slot::memory(index),
                    keep: true,
                });
            }
            self.put(index, Use::Fetched(load.step, load.position));
            self.fetched.push_back((load.position, index));
            self.next_load += 1;
        }
    }

    /// Whether the channel falls idle before the next action ends: a fetch asked for sooner would only queue,
    /// and hold its slot for nothing.
    fn channel_is_due(&self, position: usize) -> bool {
        let next = match self.plan[position] {
            Action::Forward { from, to } => self.prices.forward(from, to),
            Action::Reverse { step } => self.prices.reverse(step),
            _ => 0.0,
        };
        self.simulator.reads_end() <= self.simulator.clock() + next
    }

    /// A memory slot to fill: an idle one, or that of the spare whose loss hurts least.
    fn make_room(&mut self) -> usize {
        let clock = self.simulator.clock();
        let busy = |index: usize| (self.simulator.busy_until(Slot::memory(index)) - clock).max(0.0);
        let idle =
            |(index, held): (usize, &Use)| (*held == Use::Nothing && busy(index) <= 0.0).then_some(index);
        if let Some(index) = self.memory.iter().enumerate().find_map(idle) {
            return index;
        }
        let candidates = self.memory.iter().enumerate().filter_map(|(index, held)| match held {
            // A spare lower in the chain is needed later.
            Use::Nothing => Some((busy(index), 0, index)),
            Use::Spare(step) => Some((busy(index), 1 + step, index)),
            _ => None,
        });
        let choice = candidates.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
        let index = choice.map_or_else(|| unreachable!("the plan keeps to its slots"), |(_, _, index)| index);
        if let Use::Spare(step) = self.memory[index] {
            self.emit(Action::Free { step, slot: Slot::memory(index) });
        }
        self.put(index, Use::Nothing);
        index
    }

    fn rewrite(&mut self, position: usize) {
        match self.plan[position] {
            Action::Save { step, slot } if slot.tier == 0 => {
                let spare = self.spare(step);
                let index = spare.unwrap_or_else(|| self.save(step));
                self.put(index, Use::Plan(slot.index, step));
            }
            Action::Save { step, slot } => {
                let spare = self.spare(step);
                let index = spare.unwrap_or_else(|| self.save(step));
                self.emit(Action::Copy { step, from: Slot::memory(index), to: slot, keep: true });
                self.put(index, Use::Spare(step));
                self.written.resize(self.written.len().max(step + 1), false);
                self.written[step] = true;
            }
            Action::Load { step, slot, keep } if slot.tier == 0 => {
                let held = |held: &Use| *held == Use::Plan(slot.index, step);
                if let Some(index) = self.memory.iter().position(held) {
                    self.emit(Action::Load { step, slot: Slot::memory(index), keep });
                    if !keep {
                        self.put(index, Use::Nothing);
                    }
                }
            }
            Action::Load { step, slot, keep } => self.load(position, step, slot, keep),
            Action::Reverse { step } => {
                self.emit(Action::Reverse { step });
                while let Some(index) = self.spare(step) {
                    self.emit(Action::Free { step, slot: Slot::memory(index) });
                    self.put(index, Use::Nothing);
                }
            }
            other => self.emit(other),
        }
    }

    fn save(&mut self, step: usize) -> usize {
        let index = self.make_room();
        self.emit(Action::Save { step, slot: Slot::memory(index) });
        index
    }

    /// The load of a state that was fetched. It stays as a spare, which a following save of the plan takes over.
    fn load(&mut self, position: usize, step: usize, disk: Slot, keep: bool) {
        let Some((_, index)) = self.fetched.pop_front() else {
            unreachable!("fetch_ahead fetches at the load's own position at the latest")
        };
        let saved_next =
            matches!(self.plan.get(position + 1), Some(Action::Save { slot, .. }) if slot.tier == 0);
        if keep || saved_next {
            self.emit(Action::Load { step, slot: Slot::memory(index), keep: true });
            self.put(index, Use::Spare(step));
        } else {
            self.emit(Action::Load { step, slot: Slot::memory(index), keep: false });
            self.put(index, Use::Nothing);
        }
        if !keep {
            self.written[step] = false;
            self.emit(Action::Free { step, slot: disk });
        }
    }
}
