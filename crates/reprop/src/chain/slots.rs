//! Memory slots, and how much they hold.

use reprop_store::Payload;

use super::{Recurrence, State};

/// What a memory slot holds.
pub(super) enum Content<R: Recurrence> {
    Nothing,
    State(usize, R::State),
    /// A state as bytes, shared with the store that is writing it.
    Bytes(usize, Payload),
    /// What a step saved, and its bytes.
    Tape(usize, R::Tape, usize),
    /// A state that the store is reading ahead, from this disk slot, which keeps it or not.
    Incoming {
        step: usize,
        disk: usize,
        keep: bool,
    },
}

impl<R: Recurrence> Content<R> {
    fn bytes(&self) -> u64 {
        match self {
            Self::Nothing | Self::Incoming { .. } => 0,
            Self::State(_, state) => state.bytes() as u64,
            Self::Bytes(_, payload) => payload.len() as u64,
            Self::Tape(_, _, bytes) => *bytes as u64,
        }
    }

    fn is_something(&self) -> bool {
        !matches!(self, Self::Nothing)
    }
}

/// Slots by number, made as they are used.
pub(super) struct Slots<R: Recurrence> {
    contents: Vec<Content<R>>,
    in_use: usize,
    bytes: u64,
    /// The most in use at once.
    pub peak: usize,
    /// The most bytes held at once.
    pub peak_bytes: u64,
}

impl<R: Recurrence> Default for Slots<R> {
    fn default() -> Self {
        Self { contents: vec![], in_use: 0, bytes: 0, peak: 0, peak_bytes: 0 }
    }
}

impl<R: Recurrence> Slots<R> {
    pub fn get(&self, index: usize) -> Option<&Content<R>> {
        self.contents.get(index)
    }

    /// Puts `content` into a slot, and gives what was there.
    pub fn replace(&mut self, index: usize, content: Content<R>) -> Content<R> {
        while self.contents.len() <= index {
            self.contents.push(Content::Nothing);
        }
        self.in_use += usize::from(content.is_something());
        self.bytes += content.bytes();
        let before = std::mem::replace(&mut self.contents[index], content);
        self.in_use -= usize::from(before.is_something());
        self.bytes -= before.bytes();
        self.peak = self.peak.max(self.in_use);
        self.peak_bytes = self.peak_bytes.max(self.bytes);
        before
    }
}
