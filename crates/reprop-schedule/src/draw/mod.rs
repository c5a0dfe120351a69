//! Pictures that explain a schedule: time to the right, steps upwards, slots as bands below, transfers in a
//! lane of their own.

mod svg;
mod text;

pub use svg::svg;
pub use text::text;

use crate::{Action, Channels, Error, Event, Lane, Prices, Simulator, Slot};

/// More actions than this make no picture.
const MOST_ACTIONS: usize = 100_000;

/// A forward or reverse movement of the working state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Move {
    pub(crate) reverse: bool,
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) start: f64,
    pub(crate) end: f64,
}

/// A time during which a slot holds something.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Hold {
    pub(crate) slot: Slot,
    pub(crate) step: usize,
    pub(crate) start: f64,
    pub(crate) end: f64,
}

/// A transfer to or from a slower tier.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Haul {
    pub(crate) write: bool,
    pub(crate) step: usize,
    pub(crate) start: f64,
    pub(crate) end: f64,
}

/// A moment at which the working state is saved, or comes back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Mark {
    pub(crate) save: bool,
    pub(crate) step: usize,
    pub(crate) at: f64,
}

/// A schedule laid out in time.
///
/// ```
/// use reprop_schedule::draw::{Picture, svg, text};
/// use reprop_schedule::{Channels, Costs, Revolve};
/// let plan = Revolve::new(4, 2)?;
/// let picture = Picture::new("Revolve".into(), 4, plan, &Costs::unit(), Channels::Shared)?;
/// assert!(text(&picture, 80).contains("memory 1"));
/// assert!(svg(&picture).starts_with("<svg"));
/// # Ok::<(), reprop_schedule::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Picture {
    pub(crate) title: String,
    pub(crate) steps: usize,
    pub(crate) makespan: f64,
    pub(crate) moves: Vec<Move>,
    pub(crate) holds: Vec<Hold>,
    pub(crate) hauls: Vec<Haul>,
    pub(crate) marks: Vec<Mark>,
}

impl Picture {
    /// Runs a schedule against the clock and notes what is where and when.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for schedules too long to be seen.
    pub fn new(
        title: String,
        steps: usize,
        schedule: impl IntoIterator<Item = Action>,
        prices: &impl Prices,
        channels: Channels,
    ) -> Result<Self, Error> {
        let (moves, holds, hauls, marks) = (vec![], vec![], vec![], vec![]);
        let mut picture = Self { title, steps, makespan: 0.0, moves, holds, hauls, marks };
        let mut simulator = Simulator::new(prices, channels);
        for (count, action) in schedule.into_iter().enumerate() {
            if count >= MOST_ACTIONS {
                let (cells, limit) = (count as u128 + 1, MOST_ACTIONS as u128);
                return Err(Error::TooLarge { method: "a drawing", steps, cells, limit });
            }
            picture.note(&simulator.apply(&action));
        }
        picture.makespan = simulator.finish().makespan;
        for hold in &mut picture.holds {
            hold.end = hold.end.min(picture.makespan);
        }
        Ok(picture)
    }

    /// The slots that are used, memory first.
    pub(crate) fn slots(&self) -> Vec<Slot> {
        let mut slots: Vec<Slot> = self.holds.iter().map(|hold| hold.slot).collect();
        slots.sort();
        slots.dedup();
        slots
    }

    fn note(&mut self, event: &Event) {
        let (start, end) = (event.start, event.end);
        match event.action {
            Action::Forward { from, to } => self.moves.push(Move { reverse: false, from, to, start, end }),
            Action::Reverse { step } => {
                self.moves.push(Move { reverse: true, from: step + 1, to: step, start, end });
            }
            Action::Record { step, slot } => {
                self.moves.push(Move { reverse: false, from: step, to: step + 1, start, end });
                self.marks.push(Mark { save: true, step, at: start });
                self.fill(slot, step, start);
            }
            Action::ReverseRecorded { step, slot } => {
                self.moves.push(Move { reverse: true, from: step + 1, to: step, start, end });
                self.empty(slot, end);
            }
            Action::Save { step, slot } => {
                self.marks.push(Mark { save: true, step, at: start });
                self.haul(event, step, slot.tier > 0);
                self.fill(slot, step, start);
            }
            Action::Load { step, slot, keep } => {
                self.haul(event, step, false);
                self.marks.push(Mark { save: false, step, at: end });
                if !keep {
                    self.empty(slot, end);
                }
            }
            Action::Copy { step, from, to, keep } => {
                self.haul(event, step, to.tier > from.tier);
                self.fill(to, step, start);
                if !keep {
                    self.empty(from, end);
                }
            }
            Action::Wait { .. } => {}
            Action::Free { slot, .. } => self.empty(slot, end),
        }
    }

    fn haul(&mut self, event: &Event, step: usize, write: bool) {
        if event.lane == Lane::Transfer {
            self.hauls.push(Haul { write, step, start: event.start, end: event.end });
        }
    }

    fn fill(&mut self, slot: Slot, step: usize, start: f64) {
        self.holds.push(Hold { slot, step, start, end: f64::INFINITY });
    }

    fn empty(&mut self, slot: Slot, at: f64) {
        let open = |hold: &&mut Hold| hold.slot == slot && hold.end.is_infinite();
        if let Some(hold) = self.holds.iter_mut().rev().find(open) {
            // A slot freed while it is still being written out holds its state until then.
            hold.end = at.max(hold.start);
        }
    }
}
