//! Methods: when a stage goes backward, and from what.

use std::fmt;
use std::str::FromStr;

/// How stages share the work. All are settings of one worker.
///
/// | method | kept between forward and backward | backward runs with |
/// |---|---|---|
/// | `Backprop` | everything, one batch at a time | the parameters of the forward |
/// | `Reversible` | nothing, one batch at a time | the parameters of the forward |
/// | `Delayed` | inputs and parameters of the batches in flight | the parameters of the forward |
/// | `Dsp` | inputs of the batches in flight | today's parameters |
/// | `Petra` | nothing, but the inputs of parts that are not reversible | today's parameters |
///
/// ```
/// use reprop_pipeline::Method;
///
/// assert_eq!("petra".parse(), Ok(Method::Petra));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Plain model parallelism: a batch goes up and comes down before the next one starts.
    Backprop,
    /// The same with activations recovered.
    Reversible,
    /// Stages work on several batches at once; inputs and parameters of each are kept.
    Delayed,
    /// Stages work on several batches at once; inputs are kept and rerun (delayed gradients with recomputation).
    Dsp,
    /// Stages work on several batches at once; reversible ones keep nothing.
    Petra,
}

impl Method {
    /// Every method.
    pub const ALL: [Self; 5] = [Self::Backprop, Self::Reversible, Self::Petra, Self::Delayed, Self::Dsp];

    /// Whether a batch has to be done before the next one starts.
    pub fn is_synchronous(self) -> bool {
        matches!(self, Self::Backprop | Self::Reversible)
    }

    /// Whether activations travel down beside gradients.
    pub fn recovers(self) -> bool {
        matches!(self, Self::Reversible | Self::Petra)
    }

    /// Forwards that stage `stage` of `stages` does before its first backward; `depth` is the `c` of `c (J - j)`: 2 is
    /// PETRA's, 1 is one-forward-one-backward.
    pub fn warm_up(self, stage: usize, stages: usize, depth: f64) -> u64 {
        let above = stages - 1 - stage;
        if self.is_synchronous() { 0 } else { (depth * above as f64).ceil() as u64 }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Backprop => "backprop",
            Self::Reversible => "reversible",
            Self::Delayed => "delayed",
            Self::Dsp => "dsp",
            Self::Petra => "petra",
        })
    }
}

/// A name that is not a method's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no method called `{0}`: choose backprop, reversible, petra, delayed or dsp")]
pub struct UnknownMethod(String);

impl FromStr for Method {
    type Err = UnknownMethod;

    fn from_str(name: &str) -> Result<Self, UnknownMethod> {
        let known = Self::ALL.into_iter().find(|method| method.to_string() == name);
        known.ok_or_else(|| UnknownMethod(name.to_owned()))
    }
}
