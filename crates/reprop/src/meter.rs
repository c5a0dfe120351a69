//! The memory meter: how many bytes of activations live, how many lived at most, and what held them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Saved;

/// What holds bytes during a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holder {
    /// The residual streams, in flight or kept for the reverse pass.
    Streams,
    /// Gradients with respect to the streams.
    StreamGradients,
    /// What blocks saved for their gradients.
    Blocks,
    /// What transitions between stages saved.
    Transitions,
    /// What the stem and the head saved.
    Ends,
    /// Temporaries inside a sub-block.
    Scratch,
    /// Gradients of parameters. Not activations, but they live at the same time.
    Parameters,
}

impl Holder {
    /// Every holder, in the order of [`MemoryReport`]'s columns.
    pub const ALL: [Self; 7] = [
        Self::Streams,
        Self::StreamGradients,
        Self::Blocks,
        Self::Transitions,
        Self::Ends,
        Self::Scratch,
        Self::Parameters,
    ];

    /// A name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Streams => "streams",
            Self::StreamGradients => "stream gradients",
            Self::Blocks => "blocks' saved tensors",
            Self::Transitions => "transitions' saved tensors",
            Self::Ends => "stem and head",
            Self::Scratch => "scratch",
            Self::Parameters => "parameter gradients",
        }
    }
}

/// Bytes by holder.
type Columns = [u64; Holder::ALL.len()];

#[derive(Debug, Default)]
struct Ledger {
    live: Columns,
    activation_peak: u64,
    at_activation_peak: Columns,
    total_peak: u64,
    most_parameters: u64,
}

impl Ledger {
    /// Bytes that are held, gradients of parameters included, and without them.
    fn sums(&self) -> (u64, u64) {
        let total: u64 = self.live.iter().sum();
        (total, total - self.live[Holder::Parameters as usize])
    }

    fn take(&mut self, holder: Holder, bytes: u64) {
        self.live[holder as usize] += bytes;
        let (total, activations) = self.sums();
        self.most_parameters = self.most_parameters.max(self.live[Holder::Parameters as usize]);
        self.total_peak = self.total_peak.max(total);
        if activations > self.activation_peak {
            self.activation_peak = activations;
            self.at_activation_peak = self.live;
        }
    }
}

/// Counts the bytes that passes hold. Clones share one count.
///
/// ```
/// use reprop::{Holder, Meter};
///
/// let meter = Meter::new();
/// let held = meter.hold(Holder::Streams, 1024);
/// drop(held);
/// let report = meter.report();
/// assert_eq!((report.live(Holder::Streams), report.activation_peak), (0, 1024));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Meter {
    ledger: Arc<Mutex<Ledger>>,
}

impl Meter {
    /// A meter that has counted nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts `bytes` for `holder` until the guard is dropped.
    pub fn hold(&self, holder: Holder, bytes: u64) -> Held {
        self.ledger().take(holder, bytes);
        Held { meter: self.clone(), holder, bytes }
    }

    /// Counts the bytes of `value` for `holder` for as long as the value is kept here.
    pub fn keep<S: Saved>(&self, holder: Holder, value: S) -> Kept<S> {
        Kept { held: self.hold(holder, value.bytes()), value }
    }

    /// What was counted so far.
    pub fn report(&self) -> MemoryReport {
        let ledger = self.ledger();
        MemoryReport {
            live: ledger.live,
            activation_peak: ledger.activation_peak,
            at_activation_peak: ledger.at_activation_peak,
            total_peak: ledger.total_peak,
            pooled_peak: ledger.activation_peak + ledger.most_parameters,
            idle: 0,
        }
    }

    /// A panic while the lock is held leaves whole numbers behind, so a poisoned lock is still good to read.
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that are counted until this is dropped.
#[derive(Debug)]
pub struct Held {
    meter: Meter,
    holder: Holder,
    bytes: u64,
}

impl Held {
    /// How many they are.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// `value`, whose bytes are those that are counted here.
    pub(crate) fn keep<S>(self, value: S) -> Kept<S> {
        Kept { value, held: self }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.meter.ledger().live[self.holder as usize] -= self.bytes;
    }
}

/// A value whose bytes are counted.
#[derive(Debug)]
pub struct Kept<S> {
    value: S,
    held: Held,
}

impl<S> Kept<S> {
    /// The value.
    pub fn value(&self) -> &S {
        &self.value
    }

    /// The value and the guard that counts it.
    pub fn into_parts(self) -> (S, Held) {
        (self.value, self.held)
    }
}

/// Bytes counted by a [`Meter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryReport {
    live: Columns,
    at_activation_peak: Columns,
    /// The most bytes of activations that lived at once.
    pub activation_peak: u64,
    /// The most bytes that lived at once, gradients of parameters included.
    pub total_peak: u64,
    /// The most bytes that the process needs where activations live in a [`Workspace`](crate::Workspace), which keeps
    /// what is given back to it: activations and gradients of parameters, each at its peak.
    pub pooled_peak: u64,
    /// Bytes that the pass's workspace keeps beside those, for the next pass.
    pub idle: u64,
}

impl MemoryReport {
    /// This report for a pass whose workspace keeps `idle` bytes more.
    pub(crate) fn beside(self, idle: u64) -> Self {
        Self { idle, ..self }
    }

    /// Bytes that `holder` holds now.
    pub fn live(&self, holder: Holder) -> u64 {
        self.live[holder as usize]
    }

    /// Bytes that `holder` held when activations were at their peak.
    pub fn at_peak(&self, holder: Holder) -> u64 {
        self.at_activation_peak[holder as usize]
    }
}
