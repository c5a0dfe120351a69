//! What a stage keeps of the batches in flight: first in, first out.

use std::collections::{HashSet, VecDeque};

use burn::tensor::TensorData;
use reprop::{Entry, Held, Input, Trail};

use crate::{Orders, Piped, Report};

/// What is kept of a batch between its forward and its backward.
#[expect(clippy::large_enum_variant, reason = "a stage holds as many as there are batches in flight: a few")]
pub(crate) enum Memory<const D: usize, N: Piped<D>> {
    /// What the forward left.
    Trail(Trail<D, N>),
    /// What the forward left, in fewer bits: inputs of parts that are not reversible, and the network's input where it
    /// begins here.
    Packed { input: Option<Input<D, N>>, tensors: Vec<TensorData>, held: Held },
    /// The input, which is run again; and the parameters to do it with, if not today's.
    Input { entry: Entry<D, N>, version: Option<N> },
}

/// A batch in flight.
pub(crate) struct Flight<const D: usize, N: Piped<D>> {
    pub batch: u64,
    pub memory: Memory<D, N>,
    pub orders: Orders,
    /// Bytes of kept inputs.
    pub bytes: u64,
    /// Updates that the parameters had seen in its forward.
    pub updates: u64,
    /// What the last stage knows of it already.
    pub report: Report,
}

/// The batches in flight, and the most bytes they held.
pub(crate) struct Stash<const D: usize, N: Piped<D>> {
    pub flights: VecDeque<Flight<D, N>>,
    pub most_input_bytes: u64,
    pub most_versions: u64,
}

impl<const D: usize, N: Piped<D>> Stash<D, N> {
    pub fn new() -> Self {
        Self { flights: VecDeque::new(), most_input_bytes: 0, most_versions: 0 }
    }

    /// Keeps a batch; `updates` is what today's parameters have seen.
    pub fn push(&mut self, flight: Flight<D, N>, updates: u64) {
        self.flights.push_back(flight);
        let bytes = self.flights.iter().map(|flight| flight.bytes).sum();
        self.most_input_bytes = self.most_input_bytes.max(bytes);
        self.most_versions = self.most_versions.max(self.versions(updates).len() as u64);
    }

    /// Older parameters that are kept, by the updates they had seen.
    pub fn versions(&self, updates: u64) -> HashSet<u64> {
        let older = self.flights.iter().filter(|flight| {
            flight.updates != updates && matches!(flight.memory, Memory::Input { version: Some(_), .. })
        });
        older.map(|flight| flight.updates).collect()
    }
}
