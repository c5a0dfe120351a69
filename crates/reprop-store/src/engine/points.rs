//! Durable points: which snapshots each of them adds and drops.

use std::collections::HashSet;

use super::state::{Job, Phase, State};
use crate::medium::{Medium, Point, Record};
use crate::{Error, Result, Ticket};

/// A point that was taken and is not durable yet: the difference to the one taken before it.
#[derive(Debug)]
pub(super) struct Commit {
    pub(super) added: Vec<u64>,
    pub(super) removed: Vec<u64>,
    pub(super) meta: Vec<u8>,
    pub(super) ticket: Ticket,
}

impl State {
    /// Takes a point of what is live now.
    pub(super) fn take_point(&mut self, meta: &[u8]) -> Ticket {
        let added: Vec<u64> = std::mem::take(&mut self.fresh).into_iter().collect();
        for sequence in &added {
            if let Some(entry) = self.entries.get_mut(sequence) {
                entry.held = true;
            }
        }
        let ticket = Ticket::pending();
        let removed = std::mem::take(&mut self.gone);
        self.jobs.push_back(Job::Commit(Commit {
            added,
            removed,
            meta: meta.to_vec(),
            ticket: ticket.clone(),
        }));
        self.commits += 1;
        ticket
    }

    /// The manifest's line for a commit whose writes are done. An error if one of them failed: a point without all its
    /// snapshots is none.
    pub(super) fn point(&self, commit: &Commit) -> Result<Point> {
        let mut added = Vec::with_capacity(commit.added.len());
        for sequence in &commit.added {
            match (self.frame(*sequence), self.entries.get(sequence).map(|entry| &entry.phase)) {
                (Some((frame, place)), _) => added.push(Record { frame, place }),
                (None, Some(Phase::Failed(error))) => return Err(*error.clone()),
                _ => return Err(Error::NotDurable),
            }
        }
        Ok(Point { number: 0, added, removed: commit.removed.clone(), meta: commit.meta.clone() })
    }

    /// The point is durable: what it dropped is needed no more.
    pub(super) fn point_done(&mut self, commit: &Commit, medium: &dyn Medium) {
        self.report.points += 1;
        for sequence in &commit.removed {
            self.let_go(*sequence, medium);
        }
    }

    /// The point did not become durable: its difference goes over to the next one. What it added and the next one
    /// drops was never in any manifest, and goes.
    pub(super) fn point_failed(&mut self, commit: Commit, medium: &dyn Medium) {
        let mut orphans = Vec::new();
        let next = self.jobs.iter_mut().find_map(|job| match job {
            Job::Commit(next) => Some(next),
            Job::Write(_) => None,
        });
        let gone = if let Some(next) = next {
            let removed: HashSet<u64> = next.removed.iter().copied().collect();
            for sequence in commit.added {
                let list = if removed.contains(&sequence) { &mut orphans } else { &mut next.added };
                list.push(sequence);
            }
            &mut next.removed
        } else {
            let removed: HashSet<u64> = self.gone.iter().copied().collect();
            for sequence in commit.added {
                if removed.contains(&sequence) {
                    orphans.push(sequence);
                } else if let Some(entry) = self.entries.get_mut(&sequence) {
                    entry.held = false;
                    self.fresh.insert(sequence);
                }
            }
            &mut self.gone
        };
        let dropped: HashSet<u64> = orphans.iter().copied().collect();
        gone.retain(|sequence| !dropped.contains(sequence));
        gone.extend(commit.removed);
        for sequence in orphans {
            self.let_go(sequence, medium);
        }
    }

    fn let_go(&mut self, sequence: u64, medium: &dyn Medium) {
        if let Some(entry) = self.entries.get_mut(&sequence) {
            entry.held = false;
        }
        self.release(sequence, medium);
    }
}
