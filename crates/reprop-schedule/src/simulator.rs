//! Clocks: one for the computation, one or two for transfers.

use crate::{Action, Prices, Slot};

/// How many transfers run at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Channels {
    /// Reads and writes share one channel, as on one disk.
    #[default]
    Shared,
    /// Reads and writes each have their own, as on a link with two directions.
    Separate,
}

/// Who is busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// The computation.
    Compute,
    /// A transfer.
    Transfer,
}

/// When an action ran.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Event {
    /// What ran.
    pub action: Action,
    /// Where it ran.
    pub lane: Lane,
    /// When it began.
    pub start: f64,
    /// When it ended.
    pub end: f64,
}

/// What a simulated schedule took.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Run {
    /// Time from the first action to the end of the last reverse step.
    pub makespan: f64,
    /// Time of forward and reverse steps.
    pub compute: f64,
    /// Time in which the computation waited for transfers.
    pub stall: f64,
    /// Time in which transfers ran, over all channels.
    pub transfer: f64,
    /// Most slots in use at once, per tier.
    pub peak_slots: Vec<usize>,
    /// Most bytes in use at once, per tier (states count 1 in a uniform chain).
    pub peak_bytes: Vec<u64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct SlotTimes {
    /// When what it holds is there.
    ready: f64,
    /// When the last copy out of it ends: nothing else may fill it before.
    busy: f64,
    bytes: u64,
}

/// Runs a schedule against clocks. Actions start in order; a transfer started by [`Action::Copy`] runs beside the
/// computation, transfers on one channel run one after the other, and whoever needs a slot waits for the
/// transfers that fill it or empty it.
///
/// It trusts the schedule: check it with the [`Interpreter`](crate::Interpreter).
///
/// ```
/// use reprop_schedule::{Channels, Costs, DiskRevolve, simulate};
/// let costs = Costs::unit().disk(5.0, 5.0).unwrap();
/// let plan = DiskRevolve::new(100, 5, &costs).unwrap();
/// let planned = plan.makespan();
/// let run = simulate(plan, &costs, Channels::Shared);
/// assert_eq!(run.makespan, planned);
/// assert_eq!(run.stall, run.transfer); // nothing is hidden by a schedule that waits
/// ```
#[derive(Debug, Clone)]
pub struct Simulator<'a, P> {
    prices: &'a P,
    channels: Channels,
    clock: f64,
    /// When the write and the read channel are free; the same clock twice if they are shared.
    free: [f64; 2],
    tiers: Vec<Vec<SlotTimes>>,
    in_use: Vec<usize>,
    bytes: Vec<u64>,
    run: Run,
}

/// Simulates a whole schedule.
pub fn simulate(schedule: impl IntoIterator<Item = Action>, prices: &impl Prices, channels: Channels) -> Run {
    let mut simulator = Simulator::new(prices, channels);
    for action in schedule {
        simulator.apply(&action);
    }
    simulator.finish()
}

impl<'a, P: Prices> Simulator<'a, P> {
    /// All clocks at 0, all slots empty.
    pub fn new(prices: &'a P, channels: Channels) -> Self {
        let (tiers, in_use, bytes) = (vec![], vec![], vec![]);
        Self { prices, channels, clock: 0.0, free: [0.0; 2], tiers, in_use, bytes, run: Run::default() }
    }

    /// The time that the computation has reached.
    pub fn clock(&self) -> f64 {
        self.clock
    }

    /// When the last read asked for so far will have ended.
    pub fn reads_end(&self) -> f64 {
        self.free[1]
    }

    /// When the last copy out of a slot will have ended.
    pub fn busy_until(&self, slot: Slot) -> f64 {
        self.tiers.get(slot.tier).and_then(|tier| tier.get(slot.index)).map_or(0.0, |times| times.busy)
    }

    /// Runs one action and says when it ran.
    #[inline]
    pub fn apply(&mut self, action: &Action) -> Event {
        let (lane, start, end) = match *action {
            Action::Forward { from, to } => self.compute(self.prices.forward(from, to)),
            Action::Reverse { step } => self.compute(self.prices.reverse(step)),
            Action::Record { step, slot } => {
                self.wait(self.busy_until(slot));
                self.fill(slot, self.prices.tape_bytes(step), 0.0);
                self.compute(self.prices.record(step))
            }
            Action::ReverseRecorded { step, slot } => {
                self.empty(slot);
                self.compute(self.prices.reverse(step) - self.prices.record(step))
            }
            Action::Save { step, slot } => {
                self.wait(self.busy_until(slot));
                let span = self.transfer(slot.tier, 0, self.prices.write(step, slot.tier));
                self.fill(slot, self.prices.state_bytes(step), self.clock);
                span
            }
            Action::Load { step, slot, keep } => {
                self.wait(self.times(slot).ready);
                let span = self.transfer(slot.tier, 1, self.prices.read(step, slot.tier));
                if !keep {
                    self.empty(slot);
                }
                span
            }
            Action::Copy { step, from, to, keep } => self.copy(step, from, to, keep),
            Action::Wait { slot, .. } => {
                let start = self.clock;
                self.wait(self.times(slot).ready.max(self.busy_until(slot)));
                (Lane::Compute, start, self.clock)
            }
            Action::Free { slot, .. } => {
                self.empty(slot);
                (Lane::Compute, self.clock, self.clock)
            }
        };
        Event { action: *action, lane, start, end }
    }

    /// Ends the simulation.
    pub fn finish(mut self) -> Run {
        self.run.makespan = self.clock;
        self.run
    }

    fn compute(&mut self, time: f64) -> (Lane, f64, f64) {
        let start = self.clock;
        self.clock += time;
        self.run.compute += time;
        (Lane::Compute, start, self.clock)
    }

    fn wait(&mut self, until: f64) {
        self.run.stall += (until - self.clock).max(0.0);
        self.clock = self.clock.max(until);
    }

    /// A transfer that the computation waits for. Memory has no channel.
    fn transfer(&mut self, tier: usize, channel: usize, time: f64) -> (Lane, f64, f64) {
        if tier > 0 {
            self.wait(self.free[channel]);
        }
        let start = self.clock;
        self.wait(start + time);
        self.run.transfer += time;
        if tier > 0 {
            self.occupy(channel, self.clock);
        }
        (if tier > 0 { Lane::Transfer } else { Lane::Compute }, start, self.clock)
    }

    fn copy(&mut self, step: usize, from: Slot, to: Slot, keep: bool) -> (Lane, f64, f64) {
        let writes = to.tier > from.tier;
        let (channel, time) = if writes {
            (0, self.prices.write(step, to.tier))
        } else {
            (1, self.prices.read(step, from.tier))
        };
        let start = self.clock.max(self.free[channel]).max(self.times(from).ready).max(self.busy_until(to));
        let end = start + time;
        self.occupy(channel, end);
        self.run.transfer += time;
        self.fill(to, self.prices.state_bytes(step), end);
        self.times_mut(from).busy = end;
        if !keep {
            self.empty(from);
        }
        (Lane::Transfer, start, end)
    }

    fn occupy(&mut self, channel: usize, until: f64) {
        match self.channels {
            Channels::Shared => self.free = [until; 2],
            Channels::Separate => self.free[channel] = until,
        }
    }

    fn times(&self, slot: Slot) -> SlotTimes {
        self.tiers.get(slot.tier).and_then(|tier| tier.get(slot.index)).copied().unwrap_or_default()
    }

    #[inline]
    fn times_mut(&mut self, slot: Slot) -> &mut SlotTimes {
        if self.tiers.len() <= slot.tier {
            self.tiers.resize(slot.tier + 1, vec![]);
            self.in_use.resize(slot.tier + 1, 0);
            self.bytes.resize(slot.tier + 1, 0);
            self.run.peak_slots.resize(slot.tier + 1, 0);
            self.run.peak_bytes.resize(slot.tier + 1, 0);
        }
        let tier = &mut self.tiers[slot.tier];
        if tier.len() <= slot.index {
            tier.resize(slot.index + 1, SlotTimes::default());
        }
        &mut tier[slot.index]
    }

    fn fill(&mut self, slot: Slot, bytes: u64, ready: f64) {
        let times = self.times_mut(slot);
        (times.ready, times.bytes) = (ready, bytes);
        let tier = slot.tier;
        self.in_use[tier] += 1;
        self.bytes[tier] += bytes;
        self.run.peak_slots[tier] = self.run.peak_slots[tier].max(self.in_use[tier]);
        self.run.peak_bytes[tier] = self.run.peak_bytes[tier].max(self.bytes[tier]);
    }

    fn empty(&mut self, slot: Slot) {
        let bytes = std::mem::take(&mut self.times_mut(slot).bytes);
        self.in_use[slot.tier] = self.in_use[slot.tier].saturating_sub(1);
        self.bytes[slot.tier] = self.bytes[slot.tier].saturating_sub(bytes);
    }
}
