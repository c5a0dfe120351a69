//! A schedule chosen by name, and what it does, ready to print.

use std::fmt;

use crate::draw::Picture;
use crate::{
    Action, Async, Channels, Costs, Counts, DiskRevolve, Error, HRevolve, Interpreter, Method, Mixed,
    Multistage, Online, Periodic, Revolve, Simulator, Stored, Tier, lower_bound,
};

/// What is asked for.
///
/// ```
/// use reprop_schedule::{Method, Request};
/// let request = Request { slots: Some(3), ..Request::new(Method::Revolve, 10) };
/// let report = request.report()?;
/// assert_eq!((report.advances, report.snapshots_written, report.makespan), (15, 6, 25.0));
/// # Ok::<(), reprop_schedule::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Which schedule.
    pub method: Method,
    /// Steps of the chain.
    pub steps: usize,
    /// Memory slots; every method but `stored` needs them.
    pub slots: Option<usize>,
    /// Disk slots; `multistage` and `h-revolve` need them, the others plan for an unlimited disk and are refused
    /// if they use more than are given.
    pub disk_slots: Option<usize>,
    /// Time of a write to disk; every method with a disk needs it.
    pub write: Option<f64>,
    /// Time of a read from disk; that of a write if not given.
    pub read: Option<f64>,
    /// Time of a forward step.
    pub forward: f64,
    /// Time of a reverse step, its recording forward included.
    pub backward: f64,
    /// Whether reads and writes share a channel.
    pub channels: Channels,
}

/// The actions of any schedule.
pub type Actions = Box<dyn Iterator<Item = Action> + Send>;

impl Request {
    /// A request with unit costs and nothing else given.
    pub fn new(method: Method, steps: usize) -> Self {
        let (slots, disk_slots, write, read) = (None, None, None, None);
        let channels = Channels::Shared;
        Self { method, steps, slots, disk_slots, write, read, forward: 1.0, backward: 1.0, channels }
    }

    /// The prices asked for.
    ///
    /// # Errors
    /// [`Error::Cost`], [`Error::Missing`].
    pub fn costs(&self) -> Result<Costs, Error> {
        let method = self.method.name();
        let write = match self.write {
            None if self.method.uses_disk() => {
                return Err(Error::Missing { method, what: "the time of a write to disk (--write)" });
            }
            write => write.unwrap_or(0.0),
        };
        Costs::new(self.forward, self.backward)?.disk(write, self.read.unwrap_or(write))
    }

    /// The schedule itself.
    ///
    /// # Errors
    /// Whatever the schedule refuses, and [`Error::Missing`].
    pub fn schedule(&self) -> Result<Actions, Error> {
        let (costs, steps) = (self.costs()?, self.steps);
        if self.method == Method::Stored {
            return Ok(Box::new(Stored::new(steps)?));
        }
        let slots = self.slots()?;
        Ok(match self.method {
            Method::Stored | Method::Revolve => Box::new(Revolve::new(steps, slots)?),
            Method::Mixed => Box::new(Mixed::new(steps, slots)?),
            Method::Multistage => Box::new(Multistage::new(steps, slots, self.disk_slots()?, &costs)?),
            Method::DiskRevolve => Box::new(DiskRevolve::new(steps, slots, &costs)?),
            Method::Periodic => Box::new(Periodic::new(steps, slots, &costs)?),
            Method::HRevolve => {
                let disk = costs.tier(1);
                let tiers =
                    [Tier::new(slots, 0.0, 0.0), Tier::new(self.disk_slots()?, disk.write, disk.read)];
                Box::new(HRevolve::new(steps, &tiers, &costs)?)
            }
            Method::Online => Box::new(online(steps, slots)?),
            Method::Async => Box::new(Async::new(steps, slots, &costs, self.channels)?),
        })
    }

    /// What the schedule does and takes. Stored and Revolve answer from closed forms; the others are replayed.
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule), and [`Error::DiskFull`].
    pub fn report(&self) -> Result<Report, Error> {
        let costs = self.costs()?;
        let (counts, makespan) = match self.method {
            Method::Stored => closed(Stored::new(self.steps)?.counts(), &costs),
            Method::Revolve => closed(Revolve::new(self.steps, self.slots()?)?.counts(), &costs),
            _ => self.replay(&costs)?,
        };
        let least = costs.forward * (self.steps - 1) as f64 + costs.backward * self.steps as f64;
        let lower_bound = match self.method {
            Method::Stored => least,
            // The best with these slots and no disk.
            Method::Revolve | Method::Online => {
                closed(Revolve::new(self.steps, self.slots()?)?.counts(), &costs).1
            }
            Method::Mixed => makespan,
            _ => lower_bound(self.steps, self.slots()?.max(1), &costs, self.channels)?,
        };
        Ok(Report {
            method: self.method.name(),
            steps: self.steps,
            slots: self.slots.unwrap_or(counts.peak_slots[0]),
            advances: counts.advances,
            forward_evaluations: counts.forward_evaluations(),
            snapshots_written: counts.snapshots_written,
            disk_writes: counts.disk_writes,
            disk_reads: counts.disk_reads,
            makespan,
            lower_bound,
            peak_slots: counts.peak_slots[0],
        })
    }

    /// The schedule laid out in time, for [`draw`](crate::draw).
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule), and [`Error::TooLarge`] for what no picture can show.
    pub fn picture(&self) -> Result<Picture, Error> {
        let report = self.report()?;
        let costs = self.costs()?;
        let title = format!("{} on {} steps, {} memory slots", self.method, self.steps, report.slots);
        Picture::new(title, self.steps, self.schedule()?, &costs, self.channels)
    }

    fn slots(&self) -> Result<usize, Error> {
        let method = self.method.name();
        self.slots.ok_or(Error::Missing { method, what: "a number of memory slots (--slots)" })
    }

    fn disk_slots(&self) -> Result<usize, Error> {
        let method = self.method.name();
        self.disk_slots.ok_or(Error::Missing { method, what: "a number of disk slots (--disk-slots)" })
    }

    fn replay(&self, costs: &Costs) -> Result<(Counts, f64), Error> {
        let mut interpreter = Interpreter::new(self.steps, &[self.slots()?, usize::MAX]);
        let mut simulator = Simulator::new(costs, self.channels);
        for action in self.schedule()? {
            interpreter.apply(&action)?;
            simulator.apply(&action);
        }
        let counts = interpreter.finish()?;
        match self.disk_slots {
            Some(given) if counts.peak_slots[1] > given => {
                let (method, needed) = (self.method.name(), counts.peak_slots[1]);
                Err(Error::DiskFull { method, needed, given })
            }
            _ => Ok((counts, simulator.finish().makespan)),
        }
    }
}

fn closed(counts: Counts, costs: &Costs) -> (Counts, f64) {
    let makespan = costs.forward * counts.advances as f64 + costs.backward * counts.steps as f64;
    (counts, makespan)
}

/// An online schedule whose end turns out to be `steps`.
fn online(steps: usize, slots: usize) -> Result<impl Iterator<Item = Action>, Error> {
    crate::error::require(steps, slots)?;
    let mut forward = Some(Online::new(slots)?);
    let mut rest = None;
    Ok(std::iter::from_fn(move || {
        if forward.as_ref().is_some_and(|online| online.at() + 1 == steps) {
            rest = forward.take().map(Online::finish);
        }
        match (&mut forward, &mut rest) {
            (Some(online), _) => online.next(),
            (None, Some(rest)) => rest.next(),
            (None, None) => None,
        }
    }))
}

/// What a schedule does and takes. The field names are those of the program's JSON.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Report {
    /// Name of the schedule.
    pub method: &'static str,
    /// Steps of the chain.
    pub steps: usize,
    /// Memory slots given.
    pub slots: usize,
    /// Forward steps that are neither recorded nor part of a reverse step.
    pub advances: u128,
    /// `advances + steps`.
    pub forward_evaluations: u128,
    /// Snapshots saved from the working state.
    pub snapshots_written: u128,
    /// Snapshots written to disk.
    pub disk_writes: u128,
    /// Snapshots read from disk.
    pub disk_reads: u128,
    /// `forward * advances + backward * steps + transfers that are not hidden`.
    pub makespan: f64,
    /// A time that no schedule beats: with these slots, and an unlimited disk if the method has one.
    pub lower_bound: f64,
    /// Most memory slots in use at once.
    pub peak_slots: usize,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} on {} steps with {} memory slots", self.method, self.steps, self.slots)?;
        writeln!(f, "  advances             {}", self.advances)?;
        writeln!(f, "  forward evaluations  {}", self.forward_evaluations)?;
        writeln!(f, "  snapshots written    {}", self.snapshots_written)?;
        writeln!(f, "  disk writes, reads   {}, {}", self.disk_writes, self.disk_reads)?;
        writeln!(f, "  peak memory slots    {}", self.peak_slots)?;
        let excess = 100.0 * (self.makespan / self.lower_bound.max(f64::MIN_POSITIVE) - 1.0);
        write!(f, "  makespan             {} (lower bound {:.1}", self.makespan, self.lower_bound)?;
        if self.lower_bound > 0.0 { write!(f, ", {excess:.1} % above)") } else { write!(f, ")") }
    }
}
