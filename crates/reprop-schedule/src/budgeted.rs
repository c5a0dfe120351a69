//! A chain whose steps differ, under a budget of bytes.

use crate::error::require_cells;
use crate::h_revolve::MOST_OPERATIONS;
use crate::pool::Pool;
use crate::{Action, Chain, Error, Prices, Slot};

/// How finely the budget is divided: sizes are rounded up to this part of it.
const LEVELS: u64 = 256;

/// The fastest plan for a chain of unequal steps under a byte budget, where a state or a step's saved tensors
/// may be kept (after Beaumont, Eyraud-Dubois, Herrmann, Joly & Shilova 2019, "rotor").
///
/// `U(s, t, m)`, the time to reverse steps `s ..= t` from the working state `x_s` with `m` bytes free, is
/// `b_s` for `s = t` if the saved tensors `ā_s` fit in `m`, and else the least of
/// `b_s + U(s+1, t, m - ā_s)` (record step `s`), and `min_k F(s, k) + U(k, t, m - a_s) + U(s, k-1, m)` (keep
/// `x_s`, run to `x_k`, come back). The working state itself is not counted; the saved tensors of the
/// step being reversed are. It is optimal among persistent plans (what is kept stays until it is used) up to
/// the rounding of sizes to 1/256 of the budget, and exact when the budget is 256 or less.
///
/// *Time* `O(n^3)` vector operations of 256 levels; *memory* `O(n^2)` of them. *Use it* for the layers of
/// a network. *Not* for thousands of like steps: [`Revolve`](crate::Revolve), [`Mixed`](crate::Mixed).
///
/// ```
/// use reprop_schedule::{Budgeted, Chain, Channels, Step, Transfer, simulate};
/// let step = Step { forward: 1.0, backward: 3.0, state_bytes: 10, tape_bytes: 40, transfer: Transfer::default() };
/// let chain = Chain::new(vec![step; 8])?;
/// let plan = Budgeted::new(&chain, 120)?;
/// let (planned, run) = (plan.makespan(), simulate(plan, &chain, Channels::Shared));
/// assert_eq!(planned, run.makespan);
/// assert!(run.peak_bytes[0] <= 120);
/// assert!(Budgeted::new(&chain, 49).is_err());
/// # Ok::<(), reprop_schedule::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Budgeted {
    plan: Plan,
    makespan: f64,
    tasks: Vec<Task>,
    pools: [Pool; 2],
}

#[derive(Debug, Clone, Copy)]
enum Task {
    Solve {
        from: usize,
        to: usize,
        level: usize,
    },
    Forward {
        from: usize,
        to: usize,
    },
    ReverseRecorded {
        step: usize,
        index: usize,
    },
    /// The first state comes back, on disk to be cut again or from memory for good.
    Reload {
        from: usize,
        to: usize,
        level: usize,
        slot: Slot,
    },
    /// Cut a sub-chain whose first state is on disk.
    CutFromDisk {
        from: usize,
        to: usize,
        level: usize,
        index: usize,
    },
}

impl Budgeted {
    /// A plan for the chain within `budget` bytes.
    ///
    /// # Errors
    /// [`Error::Budget`], [`Error::TooLarge`].
    pub fn new(chain: &Chain, budget: u64) -> Result<Self, Error> {
        Self::with_disk(chain, budget, None)
    }

    /// The same with a disk whose transfers count `weight` of their time.
    pub(crate) fn with_disk(chain: &Chain, budget: u64, weight: Option<f64>) -> Result<Self, Error> {
        let plan = Plan::new(chain, budget, weight)?;
        let last = chain.steps().len() - 1;
        let makespan = plan.value[plan.index(0, last, plan.levels)];
        if !makespan.is_finite() {
            // Rounding may ask for a little more than the leanest plan does.
            let needed = chain.least_bytes().max(budget + 1);
            return Err(Error::Budget { budget, needed });
        }
        let tasks = vec![Task::Solve { from: 0, to: last, level: plan.levels }];
        Ok(Self { plan, makespan, tasks, pools: Default::default() })
    }

    /// The time of the whole reversal, by the dynamic programme.
    pub fn makespan(&self) -> f64 {
        self.makespan
    }

    fn solve(&mut self, from: usize, to: usize, level: usize) -> Action {
        let Plan { states, tapes, .. } = &self.plan;
        let (state, tape) = (states[from], tapes[from]);
        match self.plan.choice[self.plan.index(from, to, level)] {
            Choice::Reverse => Action::Reverse { step: from },
            Choice::Record => {
                let index = self.pools[0].take();
                self.tasks.push(Task::ReverseRecorded { step: from, index });
                self.tasks.push(Task::Solve { from: from + 1, to, level: level - tape });
                Action::Record { step: from, slot: Slot::memory(index) }
            }
            Choice::Keep(k) => {
                let (k, slot) = (k as usize, Slot::memory(self.pools[0].take()));
                self.tasks.push(Task::Reload { from, to: k - 1, level, slot });
                self.tasks.push(Task::Solve { from: k, to, level: level - state });
                self.tasks.push(Task::Forward { from, to: k });
                Action::Save { step: from, slot }
            }
            Choice::Write => {
                let index = self.pools[1].take();
                self.tasks.push(Task::CutFromDisk { from, to, level, index });
                Action::Save { step: from, slot: Slot::disk(index) }
            }
        }
    }

    fn reload(&mut self, from: usize, to: usize, level: usize, slot: Slot) -> Action {
        let keep = slot.tier > 0 && self.plan.again(from, to, level) > 0;
        if keep {
            self.tasks.push(Task::CutFromDisk { from, to, level, index: slot.index });
        } else {
            self.pools[slot.tier].release(slot.index);
            self.tasks.push(Task::Solve { from, to, level });
        }
        Action::Load { step: from, slot, keep }
    }
}

impl Iterator for Budgeted {
    type Item = Action;

    fn next(&mut self) -> Option<Action> {
        Some(match self.tasks.pop()? {
            Task::Solve { from, to, level } => self.solve(from, to, level),
            Task::Forward { from, to } => Action::Forward { from, to },
            Task::ReverseRecorded { step, index } => {
                self.pools[0].release(index);
                Action::ReverseRecorded { step, slot: Slot::memory(index) }
            }
            Task::Reload { from, to, level, slot } => self.reload(from, to, level, slot),
            Task::CutFromDisk { from, to, level, index } => {
                let k = self.plan.cut[self.plan.index(from, to, level)] as usize;
                self.tasks.push(Task::Reload { from, to: k - 1, level, slot: Slot::disk(index) });
                self.tasks.push(Task::Solve { from: k, to, level });
                Action::Forward { from, to: k }
            }
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Reverse,
    Record,
    Keep(u16),
    Write,
}

/// The tables, a row of `levels + 1` cells for each `(from, to)`.
#[derive(Debug, Clone)]
struct Plan {
    levels: usize,
    /// Sizes in units of the budget's levels, rounded up.
    states: Vec<usize>,
    tapes: Vec<usize>,
    value: Vec<f64>,
    choice: Vec<Choice>,
    /// `E(s, t, m) = min_k F(s, k) + U(k, t, m) + r_s + min(E, U)(s, k-1, m)`: the first state is on disk.
    disk: Vec<f64>,
    cut: Vec<u16>,
}

impl Plan {
    fn new(chain: &Chain, budget: u64, weight: Option<f64>) -> Result<Self, Error> {
        let n = chain.steps().len();
        let levels = budget.min(LEVELS) as usize;
        let unit = budget.div_ceil(LEVELS).max(1);
        let cells = (n * (n + 1) / 2) as u128 * (levels as u128 + 1);
        require_cells("a byte budget", n, cells * n as u128, MOST_OPERATIONS)?;
        let units = |bytes: u64| bytes.div_ceil(unit) as usize;
        let cells = cells as usize;
        let mut plan = Self {
            levels: (budget / unit) as usize,
            states: chain.steps().iter().map(|step| units(step.state_bytes)).collect(),
            tapes: chain.steps().iter().map(|step| units(step.tape_bytes)).collect(),
            value: vec![f64::INFINITY; cells],
            choice: vec![Choice::Reverse; cells],
            disk: vec![f64::INFINITY; if weight.is_some() { cells } else { 0 }],
            cut: vec![0; if weight.is_some() { cells } else { 0 }],
        };
        for to in 0..n {
            for from in (0..=to).rev() {
                plan.fill(chain, from, to);
                if let Some(weight) = weight {
                    plan.fill_disk(chain, from, to, weight);
                }
            }
        }
        Ok(plan)
    }

    fn index(&self, from: usize, to: usize, level: usize) -> usize {
        (to * (to + 1) / 2 + from) * (self.levels + 1) + level
    }

    /// Where to cut a chain whose first state is on disk; 0 if it is better not to.
    fn again(&self, from: usize, to: usize, level: usize) -> usize {
        let index = self.index(from, to, level);
        if self.disk[index] < self.value[index] { self.cut[index] as usize } else { 0 }
    }

    fn fill(&mut self, chain: &Chain, from: usize, to: usize) {
        let (state, tape) = (self.states[from], self.tapes[from]);
        let reverse = chain.reverse(from);
        for level in tape..=self.levels {
            let rest = if from == to { 0.0 } else { self.value[self.index(from + 1, to, level - tape)] };
            let index = self.index(from, to, level);
            self.value[index] = reverse + rest;
            self.choice[index] = if from == to { Choice::Reverse } else { Choice::Record };
        }
        for k in from + 1..=to {
            let forward = chain.forward(from, k);
            for level in state..=self.levels {
                let above = self.value[self.index(k, to, level - state)];
                let time = forward + above + self.value[self.index(from, k - 1, level)];
                let index = self.index(from, to, level);
                if time < self.value[index] {
                    (self.value[index], self.choice[index]) = (time, Choice::Keep(k as u16));
                }
            }
        }
    }

    fn fill_disk(&mut self, chain: &Chain, from: usize, to: usize, weight: f64) {
        let (write, read) = (weight * chain.write(from, 1), weight * chain.read(from, 1));
        for level in 0..=self.levels {
            let index = self.index(from, to, level);
            for k in from + 1..=to {
                let below = self.index(from, k - 1, level);
                let below = self.value[below].min(self.disk[below]);
                let time = chain.forward(from, k) + self.value[self.index(k, to, level)] + read + below;
                if time < self.disk[index] {
                    (self.disk[index], self.cut[index]) = (time, k as u16);
                }
            }
            if write + self.disk[index] < self.value[index] {
                (self.value[index], self.choice[index]) = (write + self.disk[index], Choice::Write);
            }
        }
    }
}
