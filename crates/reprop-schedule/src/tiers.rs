//! The common walk of all schedules over several tiers, with an explicit stack.

use crate::pool::Pool;
use crate::revolve::Revolve;
use crate::{Action, Slot};

/// Where a schedule over tiers stands when it must choose.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// The tier that may be used next, counted from 1 for memory.
    pub(crate) level: usize,
    /// Steps of the sub-chain.
    pub(crate) len: usize,
    /// Slots of this tier that may be used, the one of the first state counted.
    pub(crate) free: usize,
    /// Whether the first state of the sub-chain is held by this tier already.
    pub(crate) stored: bool,
    /// Whether the chain is on its first way forward, with nothing reversed yet.
    pub(crate) first: bool,
}

/// Where to cut a sub-chain whose first state a tier holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Split {
    /// How far to advance.
    pub(crate) at: usize,
    /// The slowest tier that the part behind the cut may use, counted from 1 for memory.
    pub(crate) rest: usize,
}

/// The dynamic programme's answer.
pub(crate) trait Splits {
    /// Where to cut, or `None` to leave the sub-chain to the faster tiers.
    fn split(&self, place: Place) -> Option<Split>;
    /// Slots per tier, memory first.
    fn capacities(&self) -> &[usize];
    /// Whether memory transfers are free, so that memory is Revolve's closed form.
    fn memory_is_free(&self) -> bool;
}

#[derive(Debug, Clone, Copy)]
struct Chain {
    level: usize,
    start: usize,
    end: usize,
    free: usize,
    first: bool,
}

#[derive(Debug, Clone, Copy)]
enum Task {
    /// The working state is `x_start`, held nowhere.
    Solve(Chain),
    /// The working state is `x_start`, held in this slot of the tier.
    Cut(Chain, usize, Split),
    /// `x_start` is in this slot, the working state elsewhere.
    Reload(Chain, usize),
}

/// Walks the choices of a dynamic programme; its stack holds one entry per snapshot held.
#[derive(Debug, Clone)]
pub(crate) struct Walk<S> {
    pub(crate) splits: S,
    tasks: Vec<Task>,
    memory: Option<Revolve>,
    pools: Vec<Pool>,
}

impl<S: Splits> Walk<S> {
    pub(crate) fn new(steps: usize, splits: S) -> Self {
        let level = splits.capacities().len();
        let free = splits.capacities()[level - 1];
        let tasks = vec![Task::Solve(Chain { level, start: 0, end: steps, free, first: true })];
        Self { tasks, memory: None, pools: vec![Pool::default(); level], splits }
    }

    fn choose(&self, chain: &Chain, stored: bool) -> Option<Split> {
        let Chain { level, start, end, free, first } = *chain;
        self.splits.split(Place { level, len: end - start, free, stored, first })
    }

    /// The same sub-chain left to the next faster tier, all of whose slots are free.
    fn faster(&self, chain: Chain) -> Task {
        let level = chain.level - 1;
        let free = if level == 0 { 0 } else { self.splits.capacities()[level - 1] };
        Task::Solve(Chain { level, free, ..chain })
    }

    fn solve(&mut self, chain: Chain) -> Option<Action> {
        let Chain { level, start, end, free, .. } = chain;
        if level == 0 {
            return Some(Action::Reverse { step: start });
        }
        if level == 1 && self.splits.memory_is_free() {
            self.memory = Some(Revolve::over(start, end, free));
            return None;
        }
        let Some(split) = self.choose(&chain, false) else {
            self.tasks.push(self.faster(chain));
            return None;
        };
        let index = self.pools[level - 1].take();
        self.tasks.push(Task::Cut(chain, index, split));
        Some(Action::Save { step: start, slot: Slot { tier: level - 1, index } })
    }

    fn cut(&mut self, chain: Chain, slot: usize, split: Split) -> Action {
        let Chain { level, start, end, free, first } = chain;
        let middle = start + split.at;
        let free = if split.rest == level { free - 1 } else { self.splits.capacities()[split.rest - 1] };
        self.tasks.push(Task::Reload(Chain { end: middle, first: false, ..chain }, slot));
        self.tasks.push(Task::Solve(Chain { level: split.rest, start: middle, end, free, first }));
        Action::Forward { from: start, to: middle }
    }

    fn reload(&mut self, chain: Chain, index: usize) -> Action {
        let tier = chain.level - 1;
        let split = self.choose(&chain, true);
        let keep = split.is_some();
        if let Some(split) = split {
            self.tasks.push(Task::Cut(chain, index, split));
        } else {
            self.pools[tier].release(index);
            self.tasks.push(self.faster(chain));
        }
        Action::Load { step: chain.start, slot: Slot { tier, index }, keep }
    }
}

impl<S: Splits> Iterator for Walk<S> {
    type Item = Action;

    fn next(&mut self) -> Option<Action> {
        loop {
            if let Some(action) = self.memory.as_mut().and_then(Iterator::next) {
                return Some(action);
            }
            self.memory = None;
            let action = match self.tasks.pop()? {
                Task::Solve(chain) => self.solve(chain),
                Task::Cut(chain, slot, split) => Some(self.cut(chain, slot, split)),
                Task::Reload(chain, slot) => Some(self.reload(chain, slot)),
            };
            if action.is_some() {
                return action;
            }
        }
    }
}
