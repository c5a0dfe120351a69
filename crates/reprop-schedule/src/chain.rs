//! Chains whose steps differ.

use crate::{Costs, Error, Prices, Transfer};

/// One step of a chain: its times and the bytes of what it needs.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Step {
    /// Time to run it forward, keeping nothing.
    pub forward: f64,
    /// Time to reverse it, its recording forward included.
    pub backward: f64,
    /// Bytes of its input, the state `x_i`.
    pub state_bytes: u64,
    /// Bytes of its saved tensors.
    pub tape_bytes: u64,
    /// Time to write its input to disk and to read it back.
    pub transfer: Transfer,
}

/// A chain whose steps have times and sizes of their own.
///
/// ```
/// use reprop_schedule::{Chain, Prices, Step, Transfer};
/// let step = Step { forward: 1.0, backward: 3.0, state_bytes: 100, tape_bytes: 400, transfer: Transfer::default() };
/// let chain = Chain::new(vec![step; 8])?;
/// assert_eq!(chain.forward(2, 5), 3.0);
/// # Ok::<(), reprop_schedule::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Chain {
    steps: Vec<Step>,
    /// Forward times added up: running steps `from .. to` takes `sums[to] - sums[from]`.
    sums: Vec<f64>,
}

impl Chain {
    /// A chain of these steps.
    ///
    /// # Errors
    /// [`Error::NoSteps`], [`Error::Cost`].
    pub fn new(steps: Vec<Step>) -> Result<Self, Error> {
        crate::error::require(steps.len(), 1)?;
        let mut sums = vec![0.0];
        for step in &steps {
            Costs { forward: step.forward, backward: step.backward, tiers: vec![step.transfer] }.checked()?;
            sums.push(sums[sums.len() - 1] + step.forward);
        }
        Ok(Self { steps, sums })
    }

    /// The steps.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The bytes of the leanest plan: `x_0` kept, and one step's saved tensors at a time.
    pub fn least_bytes(&self) -> u64 {
        let later = self.steps.iter().skip(1).map(|step| step.tape_bytes).max();
        let kept = later.map_or(0, |tape| tape.saturating_add(self.steps[0].state_bytes));
        kept.max(self.steps[0].tape_bytes)
    }
}

impl Prices for Chain {
    fn forward(&self, from: usize, to: usize) -> f64 {
        self.sums[to] - self.sums[from]
    }
    fn reverse(&self, step: usize) -> f64 {
        self.steps[step].backward
    }
    fn write(&self, step: usize, tier: usize) -> f64 {
        if tier == 0 { 0.0 } else { self.steps[step].transfer.write }
    }
    fn read(&self, step: usize, tier: usize) -> f64 {
        if tier == 0 { 0.0 } else { self.steps[step].transfer.read }
    }
    fn state_bytes(&self, step: usize) -> u64 {
        self.steps[step].state_bytes
    }
    fn tape_bytes(&self, step: usize) -> u64 {
        self.steps[step].tape_bytes
    }
}
