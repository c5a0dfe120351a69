//! Bytes that a piece of a network will need, told before it runs.

/// Bytes that a function will need for one input, told before it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// What `forward_saving` hands over for the derivative.
    pub saved: u64,
    /// The most that lives inside a forward beside its input, its saved tensors and its output.
    pub forward: u64,
    /// The most that lives inside a vjp beside the saved tensors and the output's gradient.
    pub vjp: u64,
}
