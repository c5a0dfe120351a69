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

/// Bytes that a sub-block will need where it is [recovered and differentiated at once](crate::Residual::reverse_onto), beside streams
/// and their gradients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reversal {
    /// What is kept from its recovery to its derivative.
    pub saved: u64,
    /// The most that it needs beside that.
    pub scratch: u64,
}

impl Reversal {
    /// Of a recovery and a derivative after it, of a stream of shape `dims`: temporaries of the recovery, the change that is added in
    /// place among them, or of the derivative.
    pub(crate) fn in_turn<const D: usize>(dims: [usize; D], told: Footprint) -> Self {
        let stream = dims.iter().product::<usize>() as u64 * size_of::<f32>() as u64;
        let Footprint { saved, forward, vjp, .. } = told;
        Self { saved, scratch: (stream + forward).max(vjp) }
    }

    /// All of it.
    pub fn bytes(&self) -> u64 {
        self.saved + self.scratch
    }
}
