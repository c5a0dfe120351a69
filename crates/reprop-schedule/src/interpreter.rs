//! The laws of reversal, checked on integers.

use thiserror::Error;

use crate::{Action, Slot};

/// What a schedule did, or will do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    /// Steps of the chain.
    pub steps: usize,
    /// Forward steps that are neither recorded nor part of a reverse step.
    pub advances: u128,
    /// Snapshots saved from the working state, to any tier.
    pub snapshots_written: u128,
    /// Snapshots that went to a tier other than memory.
    pub disk_writes: u128,
    /// Snapshots that came back from a tier other than memory.
    pub disk_reads: u128,
    /// Most slots in use at once, per tier.
    pub peak_slots: Vec<usize>,
}

impl Counts {
    /// Forward evaluations in all: each step is evaluated once more when it is recorded.
    pub fn forward_evaluations(&self) -> u128 {
        self.advances + self.steps as u128
    }
}

/// A law that a schedule broke.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Broken {
    /// An action starts where the working state is not.
    #[error("action {position} ({action}) starts at x{wanted}, but the working state is {held:?}")]
    Elsewhere {
        /// Number of the action, from 0.
        position: usize,
        /// The action.
        action: Action,
        /// The state it starts from.
        wanted: usize,
        /// The state that is there.
        held: Option<usize>,
    },
    /// An action moves or reverses beyond what is still to be reversed, or out of order.
    #[error("action {position} ({action}) passes the reverse front at step {front}")]
    PastFront {
        /// Number of the action, from 0.
        position: usize,
        /// The action.
        action: Action,
        /// Steps below this one are not reversed yet.
        front: usize,
    },
    /// An action takes from a slot what is not there.
    #[error("action {position} ({action}) needs something that {slot} does not hold")]
    Absent {
        /// Number of the action, from 0.
        position: usize,
        /// The action.
        action: Action,
        /// The slot.
        slot: Slot,
    },
    /// An action fills a slot that is full.
    #[error("action {position} ({action}) overwrites {slot}")]
    Occupied {
        /// Number of the action, from 0.
        position: usize,
        /// The action.
        action: Action,
        /// The slot.
        slot: Slot,
    },
    /// An action uses a slot that the tier does not have.
    #[error("action {position} ({action}) uses {slot}, but that tier has {capacity} slots")]
    NoSuchSlot {
        /// Number of the action, from 0.
        position: usize,
        /// The action.
        action: Action,
        /// The slot.
        slot: Slot,
        /// Slots of that tier.
        capacity: usize,
    },
    /// The schedule ended early.
    #[error("the schedule ended with {left} steps not reversed")]
    Unfinished {
        /// Steps not reversed.
        left: usize,
    },
    /// The schedule ended with something still in a slot.
    #[error("the schedule ended with {slot} in use")]
    Leaked {
        /// The slot.
        slot: Slot,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    State(usize),
    Tape(usize),
}

/// Replays a schedule on integers and checks every law after every action: start where you are, never pass
/// the reverse front, data present before it is used, slots never exceeded, everything freed at the end, each
/// step reversed once and in order.
///
/// ```
/// use reprop_schedule::{Action, Broken, Interpreter};
/// let mut interpreter = Interpreter::new(3, &[1]);
/// let wrong = interpreter.apply(&Action::Reverse { step: 2 });
/// assert!(matches!(wrong, Err(Broken::Elsewhere { wanted: 2, held: Some(0), .. })));
/// ```
#[derive(Debug, Clone)]
pub struct Interpreter {
    capacities: Vec<usize>,
    tiers: Vec<Vec<Option<Content>>>,
    in_use: Vec<usize>,
    at: Option<usize>,
    front: usize,
    position: usize,
    counts: Counts,
}

/// Replays a whole schedule of `steps` steps with `capacities[tier]` slots per tier.
///
/// ```
/// use reprop_schedule::{Revolve, check};
/// let counts = check(10, &[3], Revolve::new(10, 3).unwrap()).unwrap();
/// assert_eq!((counts.advances, counts.snapshots_written), (15, 6));
/// ```
///
/// # Errors
/// The first law that the schedule breaks.
pub fn check(
    steps: usize,
    capacities: &[usize],
    schedule: impl IntoIterator<Item = Action>,
) -> Result<Counts, Broken> {
    let mut interpreter = Interpreter::new(steps, capacities);
    for action in schedule {
        interpreter.apply(&action)?;
    }
    interpreter.finish()
}

impl Interpreter {
    /// A chain of `steps` steps whose working state is `x_0`, and `capacities[tier]` empty slots per tier.
    pub fn new(steps: usize, capacities: &[usize]) -> Self {
        Self {
            capacities: capacities.to_vec(),
            tiers: vec![vec![]; capacities.len()],
            in_use: vec![0; capacities.len()],
            at: Some(0),
            front: steps,
            position: 0,
            counts: Counts { steps, peak_slots: vec![0; capacities.len()], ..Counts::default() },
        }
    }

    /// Applies one action.
    ///
    /// # Errors
    /// The law that it breaks; the interpreter is of no use afterwards.
    pub fn apply(&mut self, action: &Action) -> Result<(), Broken> {
        match *action {
            Action::Forward { from, to } => {
                self.stand_at(action, from)?;
                if to <= from || to >= self.front {
                    return Err(self.past_front(action));
                }
                self.counts.advances += (to - from) as u128;
                self.at = Some(to);
            }
            Action::Save { step, slot } => {
                self.stand_at(action, step)?;
                self.fill(action, slot, Content::State(step))?;
                self.counts.snapshots_written += 1;
                self.counts.disk_writes += u128::from(slot.tier > 0);
            }
            Action::Load { step, slot, keep } => {
                self.take(action, slot, Content::State(step), keep)?;
                if step >= self.front {
                    return Err(self.past_front(action));
                }
                self.counts.disk_reads += u128::from(slot.tier > 0);
                self.at = Some(step);
            }
            Action::Copy { step, from, to, keep } => {
                // The source is taken first: a copy never needs its own target.
                self.take(action, from, Content::State(step), true)?;
                self.fill(action, to, Content::State(step))?;
                self.take(action, from, Content::State(step), keep)?;
                self.counts.disk_writes += u128::from(to.tier > from.tier);
                self.counts.disk_reads += u128::from(to.tier < from.tier);
            }
            Action::Wait { step, slot } => self.take(action, slot, Content::State(step), true)?,
            Action::Free { step, slot } => self.take(action, slot, Content::State(step), false)?,
            Action::Record { step, slot } => {
                self.stand_at(action, step)?;
                if step + 1 >= self.front {
                    return Err(self.past_front(action));
                }
                self.fill(action, slot, Content::Tape(step))?;
                self.counts.snapshots_written += 1;
                self.counts.disk_writes += u128::from(slot.tier > 0);
                self.at = Some(step + 1);
            }
            Action::Reverse { step } => {
                self.stand_at(action, step)?;
                self.reverse(action, step)?;
            }
            Action::ReverseRecorded { step, slot } => {
                self.take(action, slot, Content::Tape(step), false)?;
                self.counts.disk_reads += u128::from(slot.tier > 0);
                self.reverse(action, step)?;
            }
        }
        self.position += 1;
        Ok(())
    }

    /// Ends the replay.
    ///
    /// # Errors
    /// [`Broken::Unfinished`] and [`Broken::Leaked`].
    pub fn finish(self) -> Result<Counts, Broken> {
        if self.front > 0 {
            return Err(Broken::Unfinished { left: self.front });
        }
        for (tier, slots) in self.tiers.iter().enumerate() {
            if let Some(index) = slots.iter().position(Option::is_some) {
                return Err(Broken::Leaked { slot: Slot { tier, index } });
            }
        }
        Ok(self.counts)
    }

    fn stand_at(&self, action: &Action, wanted: usize) -> Result<(), Broken> {
        if self.at == Some(wanted) {
            return Ok(());
        }
        Err(Broken::Elsewhere { position: self.position, action: *action, wanted, held: self.at })
    }

    fn past_front(&self, action: &Action) -> Broken {
        Broken::PastFront { position: self.position, action: *action, front: self.front }
    }

    fn reverse(&mut self, action: &Action, step: usize) -> Result<(), Broken> {
        if step + 1 != self.front {
            return Err(self.past_front(action));
        }
        self.front = step;
        self.at = None;
        Ok(())
    }

    fn fill(&mut self, action: &Action, slot: Slot, content: Content) -> Result<(), Broken> {
        // No schedule needs more slots than there are states and saved tensors together.
        let most = 2 * self.counts.steps + 1;
        let capacity = self.capacities.get(slot.tier).map_or(0, |&capacity| capacity.min(most));
        if slot.index >= capacity {
            return Err(Broken::NoSuchSlot { position: self.position, action: *action, slot, capacity });
        }
        let slots = &mut self.tiers[slot.tier];
        if slots.len() <= slot.index {
            slots.resize(slot.index + 1, None);
        }
        if slots[slot.index].is_some() {
            return Err(Broken::Occupied { position: self.position, action: *action, slot });
        }
        slots[slot.index] = Some(content);
        self.in_use[slot.tier] += 1;
        let peak = &mut self.counts.peak_slots[slot.tier];
        *peak = (*peak).max(self.in_use[slot.tier]);
        Ok(())
    }

    fn take(&mut self, action: &Action, slot: Slot, content: Content, keep: bool) -> Result<(), Broken> {
        let held = self.tiers.get_mut(slot.tier).and_then(|slots| slots.get_mut(slot.index));
        match held {
            Some(held) if *held == Some(content) => {
                if !keep {
                    *held = None;
                    self.in_use[slot.tier] -= 1;
                }
                Ok(())
            }
            _ => Err(Broken::Absent { position: self.position, action: *action, slot }),
        }
    }
}
