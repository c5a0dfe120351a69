//! A trace of what ran when, and beside what.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// What a worker was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activity {
    /// A piece's forward.
    Forward,
    /// A block's inputs and saved tensors from its outputs.
    Recover,
    /// A piece's gradients; of a sub-block that is recovered and differentiated in one, its recovery too.
    Grads,
    /// A snapshot on its way to storage or back.
    Io,
    /// A message to or from a neighbouring stage, and the wait for it.
    Message,
}

impl Activity {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Forward, Self::Recover, Self::Grads, Self::Io, Self::Message];

    /// A name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Recover => "recover",
            Self::Grads => "grads",
            Self::Io => "I/O",
            Self::Message => "message",
        }
    }
}

/// One thing that ran.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// What it was.
    pub activity: Activity,
    /// The place in the network: 0 the stem, then the pieces, then the head. In a chain, the step; of a message, the place
    /// above the border that it crosses, or the first place of a stage that talks to its replicas.
    pub place: usize,
    /// The thread of the pool it began on; [`Trace::IO`] for transfers.
    pub worker: usize,
    /// Seconds since the trace began.
    pub begin: f64,
    /// How long it took.
    pub seconds: f64,
    /// Whether any of it ran on fused kernels; else all was Burn's operations.
    pub fused: bool,
}

/// Collects spans of the passes it is given to. Clones share one collection.
///
/// ```
/// use reprop::{Pass, Trace};
///
/// let trace = Trace::new();
/// let pass = Pass::training(42).trace(&trace);
/// // ... network.step(images, labels, pass, Strategy::PaReprop) ...
/// assert!(trace.spans().is_empty());
/// ```
#[derive(Clone, Debug)]
pub struct Trace {
    origin: Instant,
    spans: Arc<Mutex<Vec<Span>>>,
    /// Places that ran on fused kernels.
    fused: Arc<Mutex<BTreeSet<usize>>>,
}

impl Default for Trace {
    fn default() -> Self {
        Self { origin: Instant::now(), spans: Arc::default(), fused: Arc::default() }
    }
}

impl Trace {
    /// An empty trace, whose clock starts now.
    pub fn new() -> Self {
        Self::default()
    }

    /// What was collected, in the order in which it ended.
    pub fn spans(&self) -> Vec<Span> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The row of transfers.
    pub const IO: usize = 1 << 16;

    /// Notes what ran from `begin` until now.
    ///
    /// ```
    /// use std::time::Instant;
    /// use reprop::{Activity, Trace};
    ///
    /// let (trace, begin) = (Trace::new(), Instant::now());
    /// trace.since(Activity::Message, 3, begin);
    /// assert_eq!(trace.spans()[0].place, 3);
    /// ```
    pub fn since(&self, activity: Activity, place: usize, begin: Instant) {
        let worker = match activity {
            Activity::Io => Self::IO,
            _ => rayon::current_thread_index().unwrap_or(0),
        };
        let seconds = begin.elapsed().as_secs_f64();
        let begin = begin.duration_since(self.origin).as_secs_f64();
        let span = Span { activity, place, worker, begin, seconds, fused: false };
        self.spans.lock().unwrap_or_else(PoisonError::into_inner).push(span);
    }

    /// Notes that `place` runs on fused kernels.
    pub(crate) fn fused(&self, place: usize) {
        self.fused.lock().unwrap_or_else(PoisonError::into_inner).insert(place);
    }

    /// Runs `work` and notes when and where.
    pub(crate) fn note<T>(&self, activity: Activity, place: usize, work: impl FnOnce() -> T) -> T {
        let begin = self.origin.elapsed().as_secs_f64();
        let worker = rayon::current_thread_index().unwrap_or(0);
        let result = work();
        let seconds = self.origin.elapsed().as_secs_f64() - begin;
        let fused = self.fused.lock().unwrap_or_else(PoisonError::into_inner).contains(&place);
        let span = Span { activity, place, worker, begin, seconds, fused };
        self.spans.lock().unwrap_or_else(PoisonError::into_inner).push(span);
        result
    }
}
