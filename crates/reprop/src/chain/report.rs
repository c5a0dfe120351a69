//! What a chain did and took.

use reprop_schedule::{Channels, Costs, lower_bound};

use super::Measured;

/// What a pass over a chain did, and what it took. Times are in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChainReport {
    /// Steps of the chain.
    pub steps: usize,
    /// Forward steps that are neither recorded nor part of a reverse step.
    pub advances: u64,
    /// Forward evaluations in all: each step is evaluated once more when it is reversed.
    pub forward_evaluations: u64,
    /// Snapshots taken from the working state, to any tier.
    pub snapshots: u64,
    /// Snapshots handed to the store.
    pub disk_writes: u64,
    /// Snapshots fetched from the store.
    pub disk_reads: u64,
    /// Bytes of the snapshots handed to the store.
    pub bytes_written: u64,
    /// Bytes of the snapshots fetched from the store.
    pub bytes_read: u64,
    /// Bytes written for each byte that reached the medium.
    pub compression: f64,
    /// The most memory slots in use at once.
    pub peak_slots: usize,
    /// The most bytes that memory slots held at once.
    pub peak_bytes: u64,
    /// Time from the first action to the end of the last reverse step.
    pub seconds: f64,
    /// Time in which the computation waited for the store.
    pub stall_seconds: f64,
    /// The time that the simulator says these actions take: steps and copies as long as they did, transfers as long as the
    /// store measured, and as much of them beside the computation as the schedule allows.
    pub predicted_seconds: f64,
    /// Times of steps and transfers.
    pub measured: Measured,
    /// Snapshots that found no room in the store and were computed again.
    pub without_room: u64,
    /// Durable points.
    pub points: u64,
    /// The step below which this run began, if it went on from a durable point inside the reverse pass.
    pub resumed_at: Option<usize>,
}

impl ChainReport {
    /// A time that no schedule with the slots used and an unlimited disk beats at the times measured. It takes a while to
    /// compute: a search up to some thousand steps.
    ///
    /// # Errors
    ///
    /// A chain without steps or slots.
    pub fn lower_bound(&self) -> Result<f64, reprop_schedule::Error> {
        let Measured { forward, backward, .. } = self.measured;
        let costs = match self.measured.costs() {
            Some(costs) => costs,
            // Nothing was written: what a transfer takes is not known, and none is charged.
            None => Costs::new(forward.unwrap_or(0.0), backward.unwrap_or(0.0))?,
        };
        lower_bound(self.steps, self.peak_slots.max(1), &costs, Channels::Shared)
    }
}
