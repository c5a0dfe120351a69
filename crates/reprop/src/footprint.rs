//! Bytes that a piece of a network will need, told before it runs.
//!
//! Those of the layers here are counted for Burn's CPU backend: it works in place where an operand has one owner, and
//! makes the result of a matrix product twice for a moment, to align it.

/// Bytes that a function will need for one input, told before it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// What `forward_saving` hands over for the derivative.
    pub saved: u64,
    /// By how much the most that lives at once inside `forward_saving` exceeds what it leaves: saved tensors and
    /// output. The input is not counted.
    pub forward: u64,
    /// By how much the most that lives at once inside a vjp exceeds the saved tensors it is given. The output's
    /// gradient and the parameters' are not counted.
    pub vjp: u64,
    /// By how much less `saved` is in a pass that keeps floats in [16 bits](crate::Pass::saved_in): half of those that
    /// [`Saved::store`](crate::Saved::store) shows.
    pub spared: u64,
}
