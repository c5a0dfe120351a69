//! Each way a disk can fail: an error with the step in it, never garbage, and the rest still readable.

#[path = "../common/mod.rs"]
mod common;
mod damage;
mod points;
mod transfers;

/// Bytes of a snapshot.
const LENGTH: usize = 40_000;
