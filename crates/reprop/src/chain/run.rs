//! A chain, how it is checkpointed, and the loop that runs it.

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use reprop_schedule::{Action, Channels, Simulator, Slot};
use reprop_store::Store;

use super::clock::Clocks;
use super::disk::Disk;
use super::machine::Machine;
use super::measure::LivePrices;
use super::planner::{Endless, Move, Planned, Planner, View, read_from_disk};
use super::point::{Points, clear_states};
use super::{ChainReport, Error, Measured, Recurrence, Result, State};
use crate::Trace;

/// How the backward pass over a chain gets its states: a plan, and a store if the plan writes to one.
///
/// | plan | when |
/// |---|---|
/// | [`stored`](Self::stored) | everything fits |
/// | [`schedule`](Self::schedule) of `Revolve` | it does not, and there is memory alone |
/// | [`planner`](Self::planner) of [`Async`](super::Async) | there is a disk, or the chain is long |
/// | [`online`](Self::online) | the length is not known, and there is memory alone |
/// | [`schedule`](Self::schedule) of another | its costs are known beforehand |
///
/// All give the same gradients, bit for bit.
pub struct Checkpointed<'p> {
    planner: Box<dyn Planner + 'p>,
    store: Option<&'p dyn Store>,
    points: Option<Points>,
    resume: Option<Vec<u8>>,
    trace: Option<Trace>,
    progress: Option<Box<dyn FnMut(Progress) + 'p>>,
    stop: Option<&'p AtomicBool>,
}

/// How far a pass is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The farthest state computed.
    pub forward: usize,
    /// Steps that are not reversed yet; `None` before the first is.
    pub front: Option<usize>,
}

impl<'p> Checkpointed<'p> {
    /// What `planner` says.
    pub fn planner(planner: impl Planner + 'p) -> Self {
        Self {
            planner: Box::new(planner),
            store: None,
            points: None,
            resume: None,
            trace: None,
            progress: None,
            stop: None,
        }
    }

    /// Any schedule of `reprop-schedule`, or of your own.
    pub fn schedule<I: Iterator<Item = Action> + 'p>(
        schedule: impl IntoIterator<Item = Action, IntoIter = I>,
    ) -> Self {
        Self::planner(Planned::new(schedule))
    }

    /// Keeps every step's saved tensors, as plain backpropagation does.
    ///
    /// # Errors
    ///
    /// A chain without steps.
    pub fn stored(steps: usize) -> Result<Self> {
        Ok(Self::schedule(reprop_schedule::Stored::tapes(steps)?))
    }

    /// A chain whose length is not known, with `slots` memory slots.
    ///
    /// # Errors
    ///
    /// No slots.
    pub fn online(slots: usize) -> Result<Self> {
        Ok(Self::planner(Endless::new(0, 1, slots)?))
    }

    /// Where snapshots go that leave memory. A chain uses the whole store; what is in it from before is removed, unless it
    /// is resumed.
    pub fn store(self, store: &'p dyn Store) -> Self {
        Self { store: Some(store), ..self }
    }

    /// A durable point at every `every`-th border of intervals, of a chain that `identity` tells from others: parameters,
    /// inputs, whatever its gradients depend on. The store has to be a durable one.
    pub fn durable(self, every: usize, identity: impl Into<Vec<u8>>) -> Self {
        Self { points: Some(Points::new(every, identity.into())), ..self }
    }

    /// Goes on from the durable point that the store was opened with. The chain, its start and its sum have to be the same
    /// as in the run that was killed.
    pub fn resume(self, point: impl Into<Vec<u8>>) -> Self {
        Self { resume: Some(point.into()), ..self }
    }

    /// Notes steps and transfers.
    pub fn trace(self, trace: &Trace) -> Self {
        Self { trace: Some(trace.clone()), ..self }
    }

    /// Told after each action.
    pub fn progress(self, progress: impl FnMut(Progress) + 'p) -> Self {
        Self { progress: Some(Box::new(progress)), ..self }
    }

    /// Ends the pass with [`Error::Interrupted`] before its next step once `stop` is set, from any thread. Durable points stay
    /// in the store, unless [`finish`](Store::finish) removes them.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// use reprop::chain::{Chain, Checkpointed, Error, Steps};
    /// use reprop_schedule::Revolve;
    ///
    /// let stop = AtomicBool::new(false);
    /// let steps = Steps::new(
    ///     |step, x: f64| {
    ///         stop.store(step == 3, Ordering::Relaxed);
    ///         0.5 * x
    ///     },
    ///     |_, _: f64, adjoint: f64, (): &mut ()| 0.5 * adjoint,
    ///     |_: &f64, (): &mut ()| 1.0,
    /// );
    /// let how = Checkpointed::schedule(Revolve::new(100, 5)?).stop(&stop);
    /// let ended = Chain::new(steps).run(1.0, (), how).err();
    /// assert!(matches!(ended, Some(Error::Interrupted { at: Some(4), front: None })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stop(self, stop: &'p AtomicBool) -> Self {
        Self { stop: Some(stop), ..self }
    }
}

/// A recurrence that can be run there and back.
///
/// ```
/// use reprop::chain::{Chain, Checkpointed, Steps};
/// use reprop_schedule::{Mixed, Revolve};
///
/// let chain = || Chain::new(Steps::new(
///     |step, x: f32| (x * 3.7).sin() + step as f32 * 0.01,
///     |_, x: f32, adjoint: f32, (): &mut ()| adjoint * 3.7 * (x * 3.7).cos(),
///     |_: &f32, (): &mut ()| 1.0,
/// ));
/// let stored = chain().run(0.5, (), Checkpointed::stored(100)?)?;
/// let revolve = chain().run(0.5, (), Checkpointed::schedule(Revolve::new(100, 4)?))?;
/// let mixed = chain().run(0.5, (), Checkpointed::schedule(Mixed::new(100, 4)?))?;
/// assert_eq!(stored.adjoint.to_bits(), revolve.adjoint.to_bits());
/// assert_eq!(stored.adjoint.to_bits(), mixed.adjoint.to_bits());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Chain<R> {
    recurrence: R,
}

/// What a pass over a chain gave.
pub struct Done<R: Recurrence> {
    /// The last state of all.
    pub last: R::State,
    /// The gradient with respect to the first state.
    pub adjoint: R::Adjoint,
    /// What the reverse steps added up: gradients of parameters, the loss.
    pub sum: R::Sum,
    /// What it took.
    pub report: ChainReport,
}

impl<R: Recurrence> Chain<R> {
    /// The chain of these steps.
    pub fn new(recurrence: R) -> Self {
        Self { recurrence }
    }

    /// The recurrence.
    pub fn into_inner(self) -> R {
        self.recurrence
    }

    /// Runs the chain from `start` there and back; reverse steps add to `sum`.
    ///
    /// # Errors
    ///
    /// A schedule that breaks a law, a store that fails, or the wish to stop.
    pub fn run(&mut self, start: R::State, sum: R::Sum, how: Checkpointed<'_>) -> Result<Done<R>> {
        let Checkpointed { mut planner, store, mut points, resume, trace, mut progress, stop } = how;
        planner.begin();
        let begun = Instant::now();
        let prices = LivePrices::default();
        let mut simulator = Simulator::new(&prices, Channels::Shared);
        let state_bytes = start.bytes();
        let survives = planner.survives_full();
        let mut machine =
            Machine::new(&mut self.recurrence, start, sum, Disk::new(store), Clocks::new(trace), survives);
        machine.stop = stop;
        match (&resume, &mut points) {
            (Some(point), Some(points)) => points.resume(&mut machine, &mut *planner, point)?,
            (Some(_), None) => return Err(Error::ForeignPoint { reason: "the chain has no identity" }),
            (None, _) => store.map_or(Ok(()), clear_states)?,
        }
        let before = store.map(Store::stats);
        let mut wanted = VecDeque::new();
        let mut transfers = Measured::default();
        let mut farthest = 0;
        loop {
            machine.go_on()?;
            machine.settle()?;
            if transfers.write.is_none() || machine.disk.news {
                transfers = machine.disk.measured();
            }
            ask_ahead(&mut *planner, &mut machine, &mut wanted)?;
            let measured = machine.clocks.measured().or(transfers);
            let written = machine.disk.written;
            let failed = std::mem::take(&mut machine.disk.failed);
            let next = {
                let mut more = |step| machine.has_step(step);
                planner.next(&mut View { measured, written, failed: &failed, more: &mut more })
            };
            machine.disk.failed = failed;
            match next? {
                None => break,
                Some(Move::Point { front, plan }) => {
                    if let Some(points) = &mut points {
                        points.offer(&mut machine, front, &plan)?;
                    }
                }
                Some(Move::Do(action)) => {
                    let (start, stalled) = (Instant::now(), machine.disk.stall);
                    machine.apply(&action)?;
                    let waited = machine.disk.stall - stalled;
                    let seconds = (start.elapsed().as_secs_f64() - waited).max(0.0);
                    if read_from_disk(&action).is_some_and(|read| wanted.front() == Some(&read)) {
                        wanted.pop_front();
                    }
                    prices.set(&action, seconds, transfers, state_bytes);
                    if let Action::Copy { step, to, .. } = action {
                        if to.tier > 0 {
                            machine.clocks.hand_over(seconds);
                        }
                        // Handing a state over takes the computation as long as steps would.
                        simulator.apply(&Action::Forward { from: step, to: step + 1 });
                    }
                    simulator.apply(&in_ring(action));
                    farthest = farthest.max(machine.at().unwrap_or(0));
                    if let Some(progress) = &mut progress {
                        progress(Progress { forward: farthest, front: machine.front });
                    }
                }
            }
        }
        if let (Some(_), Some(store)) = (&points, store) {
            Points::clear(store)?;
        }
        machine.hand_over(|_| true)?;
        machine.settle()?;
        let measured = machine.clocks.measured().or(machine.disk.measured());
        planner.learn(measured);
        let Machine { front, adjoint, sum, last, disk, memory, report, .. } = machine;
        let (Some(0), Some(adjoint), Some(last)) = (front, adjoint, last) else {
            return Err(Error::Unfinished { left: front });
        };
        let report = ChainReport {
            forward_evaluations: report.advances + report.steps as u64,
            peak_slots: memory.peak,
            peak_bytes: memory.peak_bytes,
            bytes_written: disk.raw_written,
            bytes_read: disk.raw_read,
            compression: compression(before.as_ref(), store),
            seconds: begun.elapsed().as_secs_f64(),
            stall_seconds: disk.stall,
            predicted_seconds: simulator.finish().makespan,
            measured,
            ..report
        };
        Ok(Done { last, adjoint, sum, report })
    }
}

/// Disk slots whose times the simulator remembers.
const RING: usize = 1024;

/// The action with disk slots counted around a ring. Times of a slot matter while a transfer to or from it is under way, and
/// of those there are few; a long chain has a great many slots.
fn in_ring(mut action: Action) -> Action {
    let around = |slot: &mut Slot| {
        if slot.tier > 0 {
            slot.index %= RING;
        }
    };
    match &mut action {
        Action::Save { slot, .. }
        | Action::Load { slot, .. }
        | Action::Free { slot, .. }
        | Action::Wait { slot, .. } => around(slot),
        Action::Copy { from, to, .. } => {
            around(from);
            around(to);
        }
        Action::Forward { .. }
        | Action::Record { .. }
        | Action::Reverse { .. }
        | Action::ReverseRecorded { .. } => {}
    }
    action
}

/// Bytes handed over for each byte that reached the medium since `before`.
fn compression(before: Option<&reprop_store::Report>, store: Option<&dyn Store>) -> f64 {
    let (Some(before), Some(store)) = (before, store) else { return 1.0 };
    let now = store.stats();
    match now.stored_written - before.stored_written {
        0 => 1.0,
        stored => (now.raw_written - before.raw_written) as f64 / stored as f64,
    }
}

/// Asks the store for what the schedule will want, in the order in which it will.
fn ask_ahead<R: Recurrence>(
    planner: &mut dyn Planner,
    machine: &mut Machine<'_, R>,
    wanted: &mut VecDeque<(usize, Slot)>,
) -> Result<()> {
    while let Some(read) = planner.ahead() {
        wanted.push_back(read);
    }
    // What is not written yet ends the asking for now.
    while let Some(&(step, slot)) = wanted.front() {
        if machine.disk.held(slot.index) != Some(step) || !machine.disk.prefetch(step)? {
            break;
        }
        wanted.pop_front();
    }
    Ok(())
}
