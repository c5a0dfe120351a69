//! Asynchronous multistage: transfers in the background.

mod intervals;
mod overlap;
mod search;
mod stream;

use crate::error::require;
use crate::{Action, Channels, Costs, Error, Run};

pub(crate) use overlap::overlap;
use stream::Stream;

/// The longest chain whose plan is searched for and held as a list; longer ones stream from a formula.
const LONGEST_SEARCHED: usize = 20_000;

/// Asynchronous multistage (after Kukreja, Hückelheim & Gorman 2018).
#[derive(Debug, Clone)]
pub struct Async {
    actions: Actions,
    run: Option<Run>,
}

#[derive(Debug, Clone)]
enum Actions {
    List(std::vec::IntoIter<Action>),
    Stream(Stream),
}

impl Async {
    /// A schedule for `steps` steps with `slots` memory slots; `costs` prices tier 1.
    ///
    /// # Errors
    /// [`Error::NoSteps`], [`Error::NoSlots`], [`Error::Cost`].
    pub fn new(steps: usize, slots: usize, costs: &Costs, channels: Channels) -> Result<Self, Error> {
        require(steps, slots)?;
        let costs = costs.clone().checked()?;
        if steps > LONGEST_SEARCHED {
            let stream = Stream::new(steps, slots, &costs);
            return Ok(Self { actions: Actions::Stream(stream), run: None });
        }
        let (actions, run) = search::best(steps, slots, &costs, channels);
        Ok(Self { actions: Actions::List(actions.into_iter()), run: Some(run) })
    }

    /// What the schedule takes, if the planner simulated it; a streamed one is for [`simulate`](crate::simulate) to say.
    pub fn run(&self) -> Option<&Run> {
        self.run.as_ref()
    }
}

impl Iterator for Async {
    type Item = Action;

    fn next(&mut self) -> Option<Action> {
        match &mut self.actions {
            Actions::List(list) => list.next(),
            Actions::Stream(stream) => stream.next(),
        }
    }
}
