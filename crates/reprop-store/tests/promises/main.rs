//! The six promises of the store. Threads are held and released, so nothing here depends on time.

#[path = "../common/mod.rs"]
mod common;
mod lives;
mod points;
mod queues;

/// Bytes of a snapshot.
const LENGTH: usize = 40_000;
