//! Durable points: where a killed run goes on.
//!
//! A point is the snapshots that the store holds, the adjoint and the sum beside them if the reverse pass has begun, and a few
//! bytes: whose chain it is, its length, the step above which all are reversed, and what the planner has to know.

use reprop_store::{Key, Store};

use super::disk::{self, POINT, STATES};
use super::machine::Machine;
use super::planner::Planner;
use super::state::{read_length, take, write_length};
use super::{Error, Recurrence, Result};

const ADJOINT: Key = Key { run: POINT, step: 0 };
const SUM: Key = Key { run: POINT, step: 1 };
const LAST: Key = Key { run: POINT, step: 2 };

/// Makes points.
pub(super) struct Points {
    /// A point at every so many borders.
    pub every: usize,
    pub identity: Vec<u8>,
    borders: usize,
    /// Whether the last state is in the store: it does not change.
    last_is_kept: bool,
}

impl Points {
    pub fn new(every: usize, identity: Vec<u8>) -> Self {
        Self { every: every.max(1), identity, borders: 0, last_is_kept: false }
    }

    /// At a border: a point, if one is due.
    pub fn offer<R: Recurrence>(
        &mut self,
        machine: &mut Machine<'_, R>,
        front: Option<usize>,
        plan: &[u8],
    ) -> Result<()> {
        self.borders += 1;
        let Some(store) = machine.disk.store() else { return Ok(()) };
        if !self.borders.is_multiple_of(self.every) {
            return Ok(());
        }
        // A point is what the store holds.
        machine.hand_over(|_| true)?;
        if let (Some(_), Some(adjoint), Some(last)) = (front, &machine.adjoint, &machine.last) {
            let (adjoint, sum) = (disk::payload(adjoint), disk::payload(&machine.sum));
            let last = (!std::mem::replace(&mut self.last_is_kept, true)).then(|| disk::payload(last));
            machine.disk.ask(ADJOINT, || store.put(ADJOINT, adjoint.clone()))?;
            machine.disk.ask(SUM, || store.put(SUM, sum.clone()))?;
            if let Some(last) = last {
                machine.disk.ask(LAST, || store.put(LAST, last.clone()))?;
            }
        }
        let mut meta = vec![];
        write_length(self.identity.len(), &mut meta);
        meta.extend_from_slice(&self.identity);
        write_length(machine.report.steps, &mut meta);
        write_length(front.map_or(0, |front| front + 1), &mut meta);
        meta.extend_from_slice(plan);
        if machine.disk.ask(ADJOINT, || store.commit(&meta))?.is_some() {
            machine.report.points += 1;
        }
        Ok(())
    }

    /// The pass is over: what belongs to points is not needed any more.
    pub fn clear(store: &dyn Store) -> Result<()> {
        for key in [ADJOINT, SUM, LAST].into_iter().filter(|&key| store.contains(key)) {
            store.remove(key)?;
        }
        Ok(())
    }

    /// Goes on from the point that `meta` tells of.
    pub fn resume<R: Recurrence, P: Planner + ?Sized>(
        &mut self,
        machine: &mut Machine<'_, R>,
        planner: &mut P,
        meta: &[u8],
    ) -> Result<()> {
        let foreign = |reason| Error::ForeignPoint { reason };
        let Meta { identity, steps, front, plan } =
            Meta::read(meta).ok_or_else(|| foreign("its bytes cannot be read"))?;
        if identity != self.identity {
            return Err(foreign("its identity is another"));
        }
        let store = machine.disk.store().ok_or_else(|| foreign("there is no store"))?;
        let keys = store.keys();
        let states = keys.iter().filter(|key| key.run == STATES).map(|key| key.step as usize);
        let snapshots: Vec<usize> = states.collect();
        if !planner.resume(front, plan, &snapshots) {
            return Err(foreign("its plan is that of another planner"));
        }
        machine.disk.restore(&snapshots);
        if front.is_some() {
            let last = machine.disk.ask(LAST, || store.get(LAST))?;
            let last = disk::state(machine.kind(), &last, steps)?;
            let (adjoint, sum) = (
                machine.disk.ask(ADJOINT, || store.get(ADJOINT))?,
                machine.disk.ask(SUM, || store.get(SUM))?,
            );
            let kind = machine.kind_of_adjoint(&last);
            machine.adjoint = Some(disk::state(&kind, &adjoint, steps)?);
            machine.sum = disk::state(&machine.sum, &sum, steps)?;
            (machine.last, machine.front, machine.report.steps) = (Some(last), front, steps);
            self.last_is_kept = true;
        }
        machine.report.resumed_at = Some(front.unwrap_or_else(|| snapshots.last().copied().unwrap_or(0)));
        Ok(())
    }
}

struct Meta<'m> {
    identity: &'m [u8],
    steps: usize,
    front: Option<usize>,
    plan: &'m [u8],
}

impl<'m> Meta<'m> {
    fn read(mut bytes: &'m [u8]) -> Option<Self> {
        let length = read_length(&mut bytes, 1).ok()?;
        let identity = take(&mut bytes, length).ok()?;
        let steps = read_length(&mut bytes, 0).ok()?;
        let front = read_length(&mut bytes, 0).ok()?.checked_sub(1);
        Some(Self { identity, steps, front, plan: bytes })
    }
}

/// Whose chain a durable point is: the identity that was given to [`Checkpointed::durable`](super::Checkpointed::durable).
/// `None` if the bytes are no point of a chain.
pub fn point_identity(meta: &[u8]) -> Option<&[u8]> {
    Meta::read(meta).map(|meta| meta.identity)
}

/// Removes everything from a store.
pub(super) fn clear_states(store: &dyn Store) -> Result<()> {
    for key in store.keys() {
        store.remove(key)?;
    }
    Ok(())
}
