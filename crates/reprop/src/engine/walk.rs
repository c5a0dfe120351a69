//! A pass on bytes alone: forward and backward as the engine goes, with nothing but guards of a meter.

use std::ops::Range;

use reprop_schedule::Action;

use crate::planner::Inputs;
use crate::{BlockFootprint, Held, Holder, Meter};

use super::segments::Segments;
use super::{Sizes, snapshots};

/// Goes through a network.
pub(super) struct Walk<'s> {
    pub sizes: &'s Sizes,
    pub meter: &'s Meter,
    pub overlap: bool,
    /// Whether blocks are taken back sub-block by sub-block.
    pub reverses: bool,
    /// Whether blocks that are kept save no more than a recovery would.
    pub saves_lean: bool,
}

/// What is counted of a piece that was run.
struct Counted {
    index: usize,
    saved: Option<Held>,
    input: Option<Held>,
}

/// What is counted of a piece whose gradients can be computed.
struct Ready {
    index: usize,
    held: Held,
    /// Temporaries of its gradients.
    grads: u64,
}

/// What a backward begins with.
enum Above {
    /// The streams that the head is given.
    Head(Held),
    /// What comes down from a segment above: streams, if it hands them down, and gradients.
    Descent(Option<Held>, Held),
}

impl Walk<'_> {
    /// Once there and once back.
    pub fn at_once(&self, kept: impl Fn(usize) -> bool) {
        let Self { sizes, meter, .. } = *self;
        let whole = || meter.hold(Holder::Ends, sizes.stem.saved);
        let _stem = match sizes.stem_kept {
            Some(kept) => {
                let _whole = whole();
                meter.hold(Holder::Ends, kept)
            }
            None => whole(),
        };
        let streams = meter.hold(Holder::Streams, sizes.streams);
        let (streams, rest) = self.record(0..sizes.pieces.len(), streams, kept);
        let _gradients = self.backward(rest, Above::Head(streams), false);
        let _whole = sizes.stem_kept.map(|_| whole());
    }

    /// As a schedule says, as in `Snapshots`.
    pub fn segment_by_segment(&self, segments: &Segments, inputs: Inputs) {
        let Self { sizes, meter, .. } = *self;
        let mut slots: Vec<Option<Held>> = (0..=segments.count()).map(|_| None).collect();
        let mut work = Some(meter.hold(Holder::Streams, 0));
        let mut above: Option<Above> = None;
        let mut buffers: Option<Held> = None;
        for action in segments.schedule(inputs) {
            match action {
                Action::Forward { from, to } => {
                    for segment in from..to {
                        let entering = work.take().filter(|_| segment > 0);
                        let streams = entering.unwrap_or_else(|| meter.hold(Holder::Streams, sizes.streams));
                        work = Some(self.advance(segments.pieces(segment), streams));
                    }
                }
                Action::Save { slot, .. } => {
                    slots[slot.index] = work.replace(meter.hold(Holder::Streams, 0));
                }
                Action::Load { keep: true, .. } => work = Some(meter.hold(Holder::Streams, 0)),
                Action::Load { slot, .. } => work = slots[slot.index].take(),
                Action::Copy { step, to, .. } => {
                    let bytes = sizes.below(segments.pieces(step).start);
                    let held = meter.hold(Holder::Streams, bytes);
                    if to.tier == 0 {
                        slots[to.index] = Some(held);
                    } else {
                        work = Some(held);
                        let most = buffers.take().map_or(0, |held| held.bytes());
                        let most = most.max(snapshots::BUFFERS * bytes);
                        buffers = Some(meter.hold(Holder::Streams, most));
                    }
                }
                Action::Reverse { step } => {
                    let range = segments.pieces(step);
                    let (rest, from) = match (above.take(), work.take()) {
                        (None, Some(streams)) => {
                            let (streams, rest) = self.record(range, streams, |_| false);
                            (rest, Above::Head(streams))
                        }
                        (Some(above), mut input) => {
                            let rest = range.map(|index| {
                                let input = input.take().filter(|_| !sizes.pieces[index].is_block);
                                Counted { index, saved: None, input }
                            });
                            (rest.collect(), above)
                        }
                        (None, None) => return,
                    };
                    let (streams, gradients) = self.backward(rest, from, segments.hands_down(step));
                    let _stem = (step == 0).then(|| meter.hold(Holder::Ends, sizes.stem.saved));
                    above = Some(Above::Descent(streams, gradients));
                }
                Action::Free { .. }
                | Action::Wait { .. }
                | Action::Record { .. }
                | Action::ReverseRecorded { .. } => {}
            }
        }
    }

    /// As `forward::advance`.
    fn advance(&self, range: Range<usize>, mut streams: Held) -> Held {
        for index in range {
            let piece = &self.sizes.pieces[index];
            let _scratch = self.meter.hold(Holder::Scratch, piece.size.forward);
            drop(streams);
            streams = self.meter.hold(Holder::Streams, piece.streams);
        }
        streams
    }

    /// What a piece needs that keeps what it saved.
    fn kept(&self, index: usize) -> BlockFootprint {
        let piece = &self.sizes.pieces[index];
        if self.saves_lean { piece.kept_lean } else { piece.kept }
    }

    /// As `forward::record_pieces`.
    fn record(
        &self,
        range: Range<usize>,
        mut streams: Held,
        kept: impl Fn(usize) -> bool,
    ) -> (Held, Vec<Counted>) {
        let Self { sizes, meter, .. } = *self;
        let mut rest = Vec::new();
        for index in range {
            let piece = &sizes.pieces[index];
            let size = if kept(index) { self.kept(index) } else { piece.size };
            let _scratch = meter.hold(Holder::Scratch, size.forward);
            let recomputes = !piece.is_block && !kept(index);
            let keeps_input = recomputes || kept(index) && self.recovers(&rest, false);
            let (held, input) = if keeps_input { (None, Some(streams)) } else { (Some(streams), None) };
            let saved = kept(index).then(|| meter.hold(Holder::Blocks, size.saved));
            drop(held);
            streams = meter.hold(Holder::Streams, piece.streams);
            rest.push(Counted { index, saved, input });
        }
        (streams, rest)
    }

    /// As `backward::backward`: the streams that are handed down, and gradients.
    fn backward(&self, mut rest: Vec<Counted>, above: Above, hand_down: bool) -> (Option<Held>, Held) {
        let Self { sizes, meter, overlap, .. } = *self;
        let (mut output, first, bytes) = match above {
            Above::Head(streams) => {
                let bytes = streams.bytes();
                let output = self.recovers(&rest, false).then_some(streams);
                (output, meter.hold(Holder::Ends, sizes.head.saved), bytes)
            }
            Above::Descent(streams, gradients) => {
                let wanted = self.recovers(&rest, hand_down);
                let bytes = gradients.bytes();
                (streams.filter(|_| wanted), gradients, bytes)
            }
        };
        let scratch = meter.hold(Holder::Scratch, self.scratch(&[], &rest, false));
        let mut ready = self.recover(&mut rest, &mut output, hand_down, false);
        drop((first, scratch));
        let mut gradients = meter.hold(Holder::StreamGradients, bytes);
        loop {
            if self.reverses && ready.is_empty() && self.recovers(&rest, false) {
                gradients = self.reverse(&mut rest, &mut output, gradients, hand_down);
                let _scratch = meter.hold(Holder::Scratch, self.scratch(&[], &rest, false));
                ready = self.recover(&mut rest, &mut output, hand_down, false);
                continue;
            }
            if ready.is_empty() {
                break;
            }
            let _scratch = meter.hold(Holder::Scratch, self.scratch(&ready, &rest, overlap));
            let below = if overlap {
                // Either half may be ahead of the other, so that the largest gradients of the one count throughout the
                // other.
                let largest = ready.iter().map(|ready| sizes.below(ready.index)).max().unwrap_or(0);
                let _more = meter.hold(Holder::StreamGradients, largest.saturating_sub(gradients.bytes()));
                self.recover(&mut rest, &mut output, hand_down, true)
            } else {
                Vec::new()
            };
            let mut used = Vec::new();
            for Ready { index, held, .. } in ready {
                used.extend(overlap.then_some(held));
                drop(gradients);
                gradients = meter.hold(Holder::StreamGradients, sizes.below(index));
            }
            ready = if overlap { below } else { self.recover(&mut rest, &mut output, hand_down, false) };
        }
        (output.filter(|_| hand_down), gradients)
    }

    /// Whether the uppermost of `rest` is recovered from its output; `or` if there is none.
    fn recovers(&self, rest: &[Counted], or: bool) -> bool {
        rest.last().map_or(or, |piece| piece.saved.is_none() && self.sizes.pieces[piece.index].is_block)
    }

    /// As `Front::reach`.
    fn reach(&self, rest: &[Counted], beyond: bool) -> usize {
        let kept = rest.iter().rev().take_while(|piece| piece.saved.is_some()).count();
        let next = rest.iter().rev().nth(kept);
        let is_taken = |next: &Counted| {
            (beyond || kept == 0) && !(self.reverses && self.sizes.pieces[next.index].is_block)
        };
        if next.is_some_and(is_taken) { kept + 1 } else { kept }
    }

    /// As `Front::reverse`.
    fn reverse(&self, rest: &mut Vec<Counted>, output: &mut Option<Held>, dy: Held, hand_down: bool) -> Held {
        let Some(Counted { index, .. }) = rest.pop() else { return dy };
        let piece = &self.sizes.pieces[index];
        let _scratch = self.meter.hold(Holder::Scratch, piece.size.reverse);
        drop(self.meter.hold(Holder::Blocks, piece.size.reversed));
        drop((output.take(), dy));
        *output = self.recovers(rest, hand_down).then(|| self.meter.hold(Holder::Streams, piece.streams));
        self.meter.hold(Holder::StreamGradients, piece.streams)
    }

    /// As `Front::scratch`.
    fn scratch(&self, ready: &[Ready], rest: &[Counted], beyond: bool) -> u64 {
        let grads = ready.iter().map(|ready| ready.grads);
        let reached = rest.iter().rev().take(self.reach(rest, beyond)).filter(|piece| piece.saved.is_none());
        let recover = reached.map(|piece| self.sizes.pieces[piece.index].size.recover);
        grads.chain(recover).max().unwrap_or(0)
    }

    /// As `Front::recover`.
    fn recover(
        &self,
        rest: &mut Vec<Counted>,
        output: &mut Option<Held>,
        hand_down: bool,
        beyond: bool,
    ) -> Vec<Ready> {
        let mut ready = Vec::new();
        for _ in 0..self.reach(rest, beyond) {
            let Some(Counted { index, saved, input }) = rest.pop() else { break };
            let piece = &self.sizes.pieces[index];
            if let Some(held) = saved {
                ready.push(Ready { index, held, grads: self.kept(index).grads });
                *output = input;
                continue;
            }
            let grads = piece.size.grads;
            *output = None;
            if piece.is_block {
                let held = self.meter.hold(Holder::Blocks, piece.size.recovered);
                ready.push(Ready { index, held, grads });
                *output =
                    self.recovers(rest, hand_down).then(|| self.meter.hold(Holder::Streams, piece.streams));
            } else {
                let held = self.meter.hold(Holder::Transitions, piece.size.saved);
                ready.push(Ready { index, held, grads });
                *output = input.filter(|_| self.recovers(rest, hand_down));
            }
        }
        ready
    }
}
