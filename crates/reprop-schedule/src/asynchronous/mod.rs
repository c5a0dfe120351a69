//! Asynchronous multistage: transfers in the background.

mod held;
mod improve;
mod intervals;
mod lengths;
mod overlap;
mod search;
mod stairs;
mod stream;
mod windows;
mod work;

use crate::error::require;
use crate::{Action, Channels, Costs, Error, Revolve, Run, simulate};

pub(crate) use overlap::overlap;
use stream::Stream;

/// The longest chain whose plan is searched for and held as a list; longer ones stream from a formula.
const LONGEST_SEARCHED: usize = 3000;

/// Asynchronous multistage: snapshots go to disk and come back while the computation runs (after Kukreja,
/// Hückelheim & Gorman 2018).
///
/// The published plan writes every `I = ceil(W)` steps on the way forward, `W` being the time of a write in
/// forward steps, and on the way back fetches interval `k - 1` while interval `k` is reversed with Revolve:
/// the extra work per step, `t(I, s) / I`, does not grow with the chain. This planner keeps to `s` memory slots
/// *with those of running transfers counted*, and takes the best of:
/// - Revolve;
/// - even intervals of every length: a shorter one stalls and recomputes less; floor and ceiling are mixed
///   for a fractional mean;
/// - intervals in parts, each from the interval's first state read anew, where writes hold up the way forward;
/// - intervals that use all slots until the next fetch needs one, in parts of any length, and as many and as long as a
///   dynamic programme finds best (`asynchronous/windows.rs`), long and short ones in turn, so that the writes keep
///   pace with the way forward;
/// - a last interval of any length, and uneven ones, found by moving borders;
/// - intervals shorter than a write, whose last writes end after the way forward, with fewer slots for what is
///   reversed meanwhile (`asynchronous/stairs.rs`), or with an end of the chain held in memory, cut as a dynamic programme
///   finds best for the slots that the writes leave it (`asynchronous/held.rs`);
/// - Disk-Revolve at weighed prices, the unweighed included, with its transfers moved to the background.
///
/// The last interval stays in memory, and so do written states while there is room. So it is never worse than
/// Revolve or Disk-Revolve, nor than H-Revolve or periodic Disk-Revolve, which Disk-Revolve beats.
///
/// For `f = b = 1` and `W = R` it reaches the exact optimum for all `n <= 10`, `s <= 3`, `W <= 6`, and in all cases of 12 and
/// 13 steps with three to five slots and `W` up to 12 that were searched; of 14 steps with three slots some (`W` 6, 12 to 14) take
/// one unit more than they need. Long chains
/// are so far above [`lower_bound`](crate::lower_bound), which no schedule beats, and above
/// [`orderly_bound`](crate::orderly_bound), which none beats whose writes are over before its first reverse step and which
/// uses up what it has read in the order of the reads (`examples/bounds.rs` prints this table, and a test holds it):
///
/// | steps, slots, W | plan | any schedule | above | orderly ones | above |
/// |---|---|---|---|---|---|
/// | 1000, 1, 20 | 8569 | 8486.9 | 1.0 % | 8557.4 | 0.1 % |
/// | 1000, 1, 50 | 12867 | 12584.2 | 2.2 % | 12849.1 | 0.1 % |
/// | 1000, 2, 20 | 5173 | 4746.8 | 9.0 % | 5027.3 | 2.9 % |
/// | 1000, 3, 20 | 4225 | 3881.8 | 8.8 % | 4163.0 | 1.5 % |
/// | 1000, 4, 20 | 3878 | 3614.8 | 7.3 % | 3839.3 | 1.0 % |
/// | 1000, 5, 20 | 3640 | 3545.9 | 2.7 % | 3595.7 | 1.2 % |
/// | 250, 8, 100 | 928 | 904.9 | 2.6 % | 919.4 | 0.9 % |
/// | 500, 10, 10 | 1439 | 1437.8 | 0.1 % | 1438.0 | 0.1 % |
/// | 500, 10, 50 | 1795 | 1751.3 | 2.5 % | 1795.3 | -0.0 % |
/// | 1000, 10, 10 | 2889 | 2887.7 | 0.0 % | 2887.9 | 0.0 % |
/// | 1000, 10, 20 | 3320 | 3225.1 | 2.9 % | 3293.0 | 0.8 % |
/// | 1000, 10, 50 | 3680 | 3613.8 | 1.8 % | 3667.3 | 0.3 % |
/// | 2000, 10, 50 | 7443 | 7338.8 | 1.4 % | 7411.2 | 0.4 % |
/// | 1000, 20, 100 | 3492 | 3407.4 | 2.5 % | 3519.2 | -0.8 % |
/// | 909, 20, 40 | 2829 | 2716.3 | 4.1 % | 2875.4 | -1.6 % |
/// | 1000, 30, 10 | 2869 | 2867.5 | 0.1 % | 2867.8 | 0.0 % |
///
/// *Around 1000, 10, 50*: with 800 to 1200 steps all plans tried are 1.4 to 2.6 % above the first bound for nine to twelve slots and `W`
/// from 40 to 60, and 1.5 to 1.8 % for eight slots and `W` up to 50 (`tests/neighbourhood.rs` holds the corners). Beyond, they
/// part, with five to eight slots, where a write takes longer than 1.1 to 1.3 times the `C(s + 2, 2)` steps that two repetitions of Revolve reach. With
/// 1000 steps, in percent above the first bound and above the one for orderly schedules (`W` rounded down):
///
/// | slots | `C(s + 2, 2)` | `W` as long | 1.1 times | 1.2 times | 1.3 times | 1.5 times |
/// |---|---|---|---|---|---|---|
/// | 5 | 21 | 2.9 and 1.4 | 3.8 and 1.0 | 5.2 and 1.1 | 6.2 and 1.0 | 7.7 and 0.8 |
/// | 6 | 28 | 2.1 and 0.8 | 2.7 and 0.9 | 4.0 and 0.9 | 5.4 and 1.0 | 7.5 and 0.8 |
/// | 7 | 36 | 1.7 and 0.6 | 2.2 and 1.0 | 3.1 and 0.6 | 4.3 and 0.7 | 6.4 and 0.5 |
/// | 8 | 45 | 1.5 and 0.3 | 1.5 and 0.3 | 2.1 and 0.3 | 3.1 and 0.2 | 5.3 and 0.3 |
/// | 10 | 66 | 1.5 and 0.1 | 1.6 and 0.2 | 1.5 and 0.2 | 1.4 and 0.1 | 2.3 and -0.3 |
///
/// So eight slots leave the 3 % between `W = 55` and 60: 1000, 8, 62 is 4.0 % above, and 0.1 % above what orderly schedules can
/// do. No reason is known why a schedule that is not orderly should gain more there, nor a proof that none does.
///
/// With one to three slots the plans are orderly themselves. With ten or more some write on after the first reverse step, and
/// beat every orderly schedule. With `W = 100`, 1000 steps are within 2.4 % for ten slots and 2.5 % for twenty, but
/// 4.8 % above for thirty, 8 % for eight and 9 % for five. Over 3 % above the first bound, only a schedule that is not
/// orderly could gain more than the last column says: one that writes states after the first reverse step, or reads a state
/// while one below it waits in memory. How much that can be is not known; a better proof of the bound or a better plan is what
/// is missing there. The exact optima of short chains, which these plans reach, say how far the first bound is from the best
/// that is possible there:
///
/// | steps, slots, W | optimum | bound | apart | steps, slots, W | optimum | bound | apart |
/// |---|---|---|---|---|---|---|---|
/// | 12, 2, 6 | 35 | 30.4 | 15 % | 14, 3, 8 | 37 | 35.4 | 4.5 % |
/// | 12, 2, 8 | 36 | 31.9 | 13 % | 14, 3, 10 | 37 | 35.7 | 3.6 % |
/// | 14, 2, 10 | 44 | 40.3 | 9 % | 14, 4, 8 | 35 | 34.4 | 1.8 % |
///
/// *Time* some hundred simulations of the plan up to 3000 steps, about a tenth of a second for 1000 and up to a second for
/// 3000: a plan is simulated only if its computation and its writes alone take less than the best known. Over 3000
/// steps all intervals are equal, the best of them by a formula, and the actions stream in constant memory. *Use it*
/// whenever there is a disk or a slower memory and a thread to serve it. *Not* when transfers block the computation
/// anyway: [`HRevolve`](crate::HRevolve).
///
/// ```
/// use reprop_schedule::{Async, Channels, Costs, HRevolve, Tier, check, simulate};
/// let costs = Costs::unit().disk(5.0, 5.0)?;
/// let plan = Async::new(100, 5, &costs, Channels::Shared)?;
/// check(100, &[5, usize::MAX], plan.clone()).unwrap();
/// let run = simulate(plan, &costs, Channels::Shared);
/// // The best schedule that waits takes 380 with ten disk slots; nothing takes less than 2n - 1 = 199.
/// assert!(run.makespan < 280.0);
/// # Ok::<(), reprop_schedule::Error>(())
/// ```
///
/// *A worked example.* Twelve steps, three slots, `W = R = 3`: `x_0`, `x_4` and `x_6` leave for the disk on the way up, and
/// each frees its slot when it is written. At the top `x_8`, `x_9` and `x_10` have the slots. The channel brings `x_6`,
/// `x_4` and `x_0` back one after the other, each as soon as a slot is free, and the computation never waits: 28 is
/// 16 advances and 12 reverse steps, where Revolve takes 21 and 12.
///
/// ```
/// # use reprop_schedule::{Method, Request, advances, draw};
/// let request = Request { slots: Some(3), write: Some(3.0), ..Request::new(Method::Async, 12) };
/// assert_eq!(draw::text(&request.picture()?, 80), r"async on 12 steps, 3 memory slots, makespan 28
///    step 11 |           \
///    step 10 |          o \
///     step 9 |         o   \
///     step 8 |        o     \
///     step 7 |       /        \
///     step 6 |      o        ^ \
///     step 5 |     /             \
///     step 4 |    o             ^ \
///     step 3 |   /                    \
///     step 2 |  /                    o \
///     step 1 | /                    o   \
///     step 0 |o                    ^     \
///   memory 0 |0=======8===== 4====  1===
///   memory 1 |    4====9===     0========
///   memory 2 |      6===106====      2=
///     disk 0 |0====================
///     disk 1 |    4=============
///     disk 2 |       6=======
///  transfers |W0> W4>W6>  R6<R4<R0<
/// / forward   \ reverse   o snapshot taken   ^ state comes back   W write   R read
/// ");
/// assert_eq!(advances(12, 3), 21);
/// # Ok::<(), reprop_schedule::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Async {
    actions: Actions,
    run: Option<Run>,
}

#[derive(Debug, Clone)]
enum Actions {
    List(std::vec::IntoIter<Action>),
    Stream(Stream),
    Revolve(Revolve),
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

    /// A schedule of the same kind without the search: equal intervals by the formula, or Revolve where that is quicker. It
    /// is made in a time that grows with `steps` alone, for chains whose steps take less than planning them would.
    ///
    /// ```
    /// use reprop_schedule::{Async, Channels, Costs};
    /// let costs = Costs::unit().disk(5.0, 5.0)?;
    /// let makespan = |plan: Async| plan.run().unwrap().makespan;
    /// let quick = makespan(Async::quick(500, 5, &costs, Channels::Shared)?);
    /// assert!(quick < 1.1 * makespan(Async::new(500, 5, &costs, Channels::Shared)?));
    /// # Ok::<(), reprop_schedule::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn quick(steps: usize, slots: usize, costs: &Costs, channels: Channels) -> Result<Self, Error> {
        require(steps, slots)?;
        let costs = costs.clone().checked()?;
        let (stream, revolve) = (Stream::new(steps, slots, &costs), Revolve::new(steps, slots)?);
        let streamed = simulate(stream.clone(), &costs, channels);
        let in_memory = simulate(revolve.clone(), &costs, channels);
        Ok(if streamed.makespan < in_memory.makespan {
            Self { actions: Actions::Stream(stream), run: Some(streamed) }
        } else {
            Self { actions: Actions::Revolve(revolve), run: Some(in_memory) }
        })
    }

    /// What the schedule takes, if the planner simulated it; ask [`simulate`](crate::simulate) for a streamed one.
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
            Actions::Revolve(revolve) => revolve.next(),
        }
    }
}
