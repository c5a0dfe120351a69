//! What things cost: forward steps, reverse steps, and transfers.

use crate::Error;

/// The time a snapshot takes to go to a tier and to come back.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Transfer {
    /// Time of one write.
    pub write: f64,
    /// Time of one read.
    pub read: f64,
}

/// The prices that a simulator charges. Implement it for a chain whose steps differ; [`Costs`] is the uniform
/// case.
pub trait Prices {
    /// Time of the forward steps `from .. to`, keeping nothing.
    fn forward(&self, from: usize, to: usize) -> f64;
    /// Time to reverse a step, its recording forward included.
    fn reverse(&self, step: usize) -> f64;
    /// Time to write `x_step` to a tier.
    fn write(&self, step: usize, tier: usize) -> f64;
    /// Time to read `x_step` from a tier.
    fn read(&self, step: usize, tier: usize) -> f64;
    /// Bytes of the state `x_step`. In a uniform chain a state counts 1.
    fn state_bytes(&self, _step: usize) -> u64 {
        1
    }
    /// Bytes of the saved tensors of a step. In a uniform chain they count 1.
    fn tape_bytes(&self, _step: usize) -> u64 {
        1
    }
    /// Time to record a step: the part of [`reverse`](Self::reverse) that comes first. It is charged there so
    /// that recording and reversing cost one reverse step together, whenever each happens.
    fn record(&self, step: usize) -> f64 {
        self.forward(step, step + 1).min(self.reverse(step))
    }
}

/// Uniform prices: every step alike.
///
/// `makespan = forward * advances + backward * steps + transfers that are not hidden`.
///
/// ```
/// use reprop_schedule::Costs;
/// let costs = Costs::unit().disk(5.0, 5.0).unwrap();
/// assert_eq!(costs.tier(1).write, 5.0);
/// assert_eq!(costs.tier(0).write, 0.0);
/// assert!(Costs::new(-1.0, 1.0).is_err());
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Costs {
    /// Time of one forward step that keeps nothing.
    pub forward: f64,
    /// Time of one reverse step, its recording forward included.
    pub backward: f64,
    /// Transfers per tier; a tier beyond the end is free.
    pub tiers: Vec<Transfer>,
}

impl Costs {
    /// Forward and backward cost 1, transfers nothing.
    pub fn unit() -> Self {
        Self { forward: 1.0, backward: 1.0, tiers: vec![Transfer::default()] }
    }

    /// The costs of one forward and one reverse step; transfers are free.
    ///
    /// # Errors
    /// [`Error::Cost`] for a cost that is negative or not finite.
    pub fn new(forward: f64, backward: f64) -> Result<Self, Error> {
        Self { forward: amount("forward", forward)?, backward: amount("backward", backward)?, ..Self::unit() }
            .checked()
    }

    /// Adds one slower tier.
    ///
    /// # Errors
    /// [`Error::Cost`] for a cost that is negative or not finite.
    pub fn disk(mut self, write: f64, read: f64) -> Result<Self, Error> {
        self.tiers.push(Transfer { write, read });
        self.checked()
    }

    /// The transfer times of a tier.
    pub fn tier(&self, tier: usize) -> Transfer {
        self.tiers.get(tier).copied().unwrap_or_default()
    }

    /// The same costs if all are times.
    pub(crate) fn checked(self) -> Result<Self, Error> {
        amount("forward", self.forward)?;
        amount("backward", self.backward)?;
        for tier in &self.tiers {
            amount("write", tier.write)?;
            amount("read", tier.read)?;
        }
        Ok(self)
    }
}

impl Prices for Costs {
    fn forward(&self, from: usize, to: usize) -> f64 {
        self.forward * (to - from) as f64
    }
    fn reverse(&self, _step: usize) -> f64 {
        self.backward
    }
    fn write(&self, _step: usize, tier: usize) -> f64 {
        self.tier(tier).write
    }
    fn read(&self, _step: usize, tier: usize) -> f64 {
        self.tier(tier).read
    }
}

fn amount(name: &'static str, value: f64) -> Result<f64, Error> {
    if value.is_finite() && value >= 0.0 { Ok(value) } else { Err(Error::Cost { name, value }) }
}
