//! Revolve: the fewest advances with `s` slots in memory.

use crate::binomial::{Level, short_split};
use crate::error::require;
use crate::pool::Pool;
use crate::{Action, Counts, Error, Slot, advances, snapshots};

/// Revolve (Griewank & Walther 2000): reverses `n` steps with `s` memory slots and as few advances as any
/// schedule can, writing as few snapshots as any such schedule can.
///
/// With `beta(s, r) = C(s + r, s)` and `r` the least with `beta(s, r) >= n`, advances are
/// `t(n, s) = r n - C(s + r, s + 1)`. The slot of `x_0` is counted in `s`.
///
/// *Time and memory*: constant time per action on average; the iterator holds one entry per slot, whatever
/// `n` is. *Use it* when snapshots fit in memory only. *Not* when every state fits ([`Stored`](crate::Stored)
/// does not recompute), when saved tensors fit in a slot ([`Mixed`](crate::Mixed) is cheaper), or when there
/// is a disk ([`Async`](crate::Async)).
///
/// ```
/// use reprop_schedule::{Action, Revolve, check};
/// // Four steps, two slots: the picture of every introduction to the subject.
/// let plan: Vec<String> = Revolve::new(4, 2)?.map(|action| action.to_string()).collect();
/// assert_eq!(plan[..4], ["save x0 in memory 0", "forward x0 to x1", "save x1 in memory 1", "forward x1 to x3"]);
/// let counts = check(4, &[2], Revolve::new(4, 2)?).unwrap();
/// assert_eq!(counts.advances, 4);
/// assert_eq!(Revolve::new(1_000_000_000, 30)?.counts().advances, 9_878_900_592);
/// # Ok::<(), reprop_schedule::Error>(())
/// ```
///
/// *A worked example.* Ten steps, three slots: `beta(3, 2) = 10`, so no step is run forward more than twice besides its
/// recording, and there are `t = 2 * 10 - C(5, 4) = 15` advances. Time goes to the right. The way up saves `x_0`, `x_4` and
/// `x_7`: above each of them lies what the slots left can do with one repetition less, `beta(3, 1) = 4`,
/// `beta(2, 1) = 3` and `beta(1, 1) = 2` steps and the last one. On the way back a slot whose steps are done is used again, for `x_5`, then `x_1` and `x_2`.
///
/// ```
/// # use reprop_schedule::{Method, Request, draw};
/// let request = Request { slots: Some(3), ..Request::new(Method::Revolve, 10) };
/// assert_eq!(draw::text(&request.picture()?, 80), r"revolve on 10 steps, 3 memory slots, makespan 25
///     step 9 |         \
///     step 8 |        /  \
///     step 7 |       o  ^ \
///     step 6 |      /        \
///     step 5 |     /        o \
///     step 4 |    o        ^   \
///     step 3 |   /                 \
///     step 2 |  /                 o \
///     step 1 | /                 o   \
///     step 0 |o                 ^     \
///   memory 0 |0=======================
///   memory 1 |    4============  1===
///   memory 2 |       7====  5=    2=
/// / forward   \ reverse   o snapshot taken   ^ state comes back
/// ");
/// # Ok::<(), reprop_schedule::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Revolve {
    slots: usize,
    pool: Pool,
    snapshots: Vec<Snapshot>,
    /// The working state, if there is one.
    at: Option<usize>,
    /// Steps `.. front` are not reversed yet.
    front: usize,
    start: usize,
}

#[derive(Debug, Clone, Copy)]
struct Snapshot {
    step: usize,
    slot: usize,
    /// The binomial of the sub-chain that starts here, with the slots from this one on, once it was needed.
    level: Option<Level>,
}

impl Revolve {
    /// A schedule for a chain of `steps` steps with `slots` memory slots.
    ///
    /// # Errors
    /// [`Error::NoSteps`], [`Error::NoSlots`].
    pub fn new(steps: usize, slots: usize) -> Result<Self, Error> {
        require(steps, slots)?;
        Ok(Self::over(0, steps, slots))
    }

    /// The sub-chain `start .. end`, whose first state is the working state.
    pub(crate) fn over(start: usize, end: usize, slots: usize) -> Self {
        let slots = slots.min(end - start);
        Self { slots, pool: Pool::default(), snapshots: vec![], at: Some(start), front: end, start }
    }

    /// Goes on from snapshots already taken (`(step, slot)`, steps rising) with the working state at
    /// `front - 1`.
    pub(crate) fn resume(taken: &[(usize, usize)], front: usize, slots: usize) -> Self {
        let pool = Pool::without(taken.iter().map(|&(_, slot)| slot));
        let snapshots = taken.iter().map(|&(step, slot)| Snapshot { step, slot, level: None }).collect();
        Self { slots, pool, snapshots, at: Some(front - 1), front, start: 0 }
    }

    /// The steps left, and the slots that it uses of those given.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.front - self.start, self.slots)
    }

    /// What the schedule will do, by the closed forms: as quick for 10^9 steps as for ten.
    pub fn counts(&self) -> Counts {
        let steps = self.front - self.start;
        Counts {
            steps,
            advances: advances(steps, self.slots),
            snapshots_written: snapshots(steps, self.slots),
            peak_slots: vec![self.slots.min(steps - 1)],
            ..Counts::default()
        }
    }

    #[inline]
    fn load(&mut self) -> Option<Action> {
        let Snapshot { step, slot, .. } = *self.snapshots.last()?;
        let keep = self.front - step > 1;
        if !keep {
            self.snapshots.pop();
            self.pool.release(slot);
        }
        self.at = Some(step);
        Some(Action::Load { step, slot: Slot::memory(slot), keep })
    }

    /// Advances from the snapshot at `at`: to the next snapshot's place, or with the last slot in use up to
    /// the reverse front.
    #[inline]
    fn advance(&mut self, at: usize) -> Action {
        let (steps, held) = (self.front - at, self.snapshots.len());
        let to = if held == self.slots {
            self.front - 1
        } else {
            at + short_split(steps, self.slots + 1 - held).unwrap_or_else(|| self.split(steps))
        };
        self.at = Some(to);
        Action::Forward { from: at, to }
    }

    /// Where to cut the sub-chain of the last snapshot. Its level starts from that of the one below, whose
    /// sub-chain is longer.
    fn split(&mut self, steps: usize) -> usize {
        let held = self.snapshots.len();
        let below = held.checked_sub(2).and_then(|index| self.snapshots[index].level).map(Level::below);
        match self.snapshots.last_mut() {
            Some(last) => {
                let fresh = || below.unwrap_or_else(|| Level::new(self.slots + 1 - held));
                last.level.get_or_insert_with(fresh).split(steps)
            }
            None => steps - 1,
        }
    }
}

impl Iterator for Revolve {
    type Item = Action;

    #[inline]
    fn next(&mut self) -> Option<Action> {
        let Some(at) = self.at else { return self.load() };
        if at + 1 == self.front {
            self.front -= 1;
            // The snapshot of a step just reversed has nothing left to serve.
            self.at = None;
            return Some(Action::Reverse { step: at });
        }
        let saved = self.snapshots.last().is_some_and(|snapshot| snapshot.step == at);
        if saved || self.snapshots.len() == self.slots {
            return Some(self.advance(at));
        }
        let slot = self.pool.take();
        self.snapshots.push(Snapshot { step: at, slot, level: None });
        Some(Action::Save { step: at, slot: Slot::memory(slot) })
    }
}
