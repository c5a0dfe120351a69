//! A pass that keeps few of its transitions' inputs in memory, and does what a schedule says.

use reprop_schedule::{Action, Slot};

use crate::arithmetic::RangeWatch;
use crate::network::Input;
use crate::planner::Inputs;
use crate::spill::{Form, Shelf};
use crate::strategy::Layout;
use crate::{Activity, Error, Gradients, Held, Holder, Kept, Network, Pass, Result, Saved, Streams};

use super::FIRST_PIECE;
use super::backward::backward;
use super::forward;
use super::plan::are_blocks;
use super::segments::{Schedule, Segments};
use super::trail::{self, StemTrail, Trail};

/// Segments that are still to be reversed, and what is kept of their inputs.
pub(super) struct Snapshots<const D: usize, N: Network<D>> {
    segments: Segments,
    schedule: Schedule,
    input: Input<D, N>,
    slots: Vec<Content<D>>,
    shelf: Option<Shelf>,
    /// How the streams on the shelf are read, by segment.
    forms: Vec<Option<Form<D>>>,
    /// What the store has of its own for writing and for reading.
    buffers: Option<Held>,
    overlap: bool,
}

/// What a slot of memory holds.
#[expect(clippy::large_enum_variant, reason = "the largest are handles of tensors, of which there are few")]
enum Content<const D: usize> {
    Nothing,
    State(State<D>),
    /// The bytes of streams that are being written.
    Leaving {
        step: usize,
        /// Counts them until they are written.
        _held: Held,
    },
    /// The bytes of streams that are being read.
    Coming(Held),
}

/// What a segment is given.
#[expect(clippy::large_enum_variant, reason = "the largest are handles of tensors, of which there are few")]
enum State<const D: usize> {
    /// The network's input.
    Input,
    /// The input of its transition.
    Streams(Kept<Streams<D>>),
}

impl<const D: usize> State<D> {
    /// The same tensors, whose bytes stay counted here.
    fn share(&self, pass: &Pass) -> Self {
        match self {
            Self::Input => Self::Input,
            Self::Streams(streams) => {
                Self::Streams(pass.metering().hold(Holder::Streams, 0).keep(streams.value().clone()))
            }
        }
    }
}

impl<const D: usize, N: Network<D>> Snapshots<D, N> {
    /// Goes forward to the last segment. Gives what that is given, and the pieces of it.
    pub fn record(
        network: &N,
        input: Input<D, N>,
        Layout { inputs, overlap, .. }: Layout,
        pass: &Pass,
        watch: &mut RangeWatch,
    ) -> Result<(Self, Kept<Streams<D>>, std::ops::Range<usize>)> {
        let segments = Segments::of(&are_blocks(&network.pieces()));
        let shelf = match inputs {
            Inputs::Spilled => Some(pass.spilling().ok_or(Error::NoSpill)?.shelf()),
            Inputs::Kept | Inputs::Few { .. } => None,
        };
        let forms = (0..segments.count()).map(|_| None).collect();
        let schedule = segments.schedule(inputs);
        let mut snapshots =
            Self { segments, schedule, input, slots: Vec::new(), shelf, forms, buffers: None, overlap };
        let mut work = Some(State::Input);
        while let Some(action) = snapshots.schedule.next() {
            if let Action::Reverse { step } = action {
                let range = snapshots.segments.pieces(step);
                let Some(State::Streams(streams)) = work else { break };
                return Ok((snapshots, streams, range));
            }
            snapshots.apply(network, action, &mut work, pass, watch)?;
        }
        unreachable!("a schedule begins with the input and comes to the last of several segments")
    }

    /// From the last segment, of which `top` is the trail, down to the stem.
    pub fn backward(mut self, network: &N, top: Trail<D, N>, gradients: &mut Gradients) -> Result<()> {
        let pass = &top.pass.clone();
        let meter = pass.metering();
        let pieces = network.pieces();
        // Those of the forward were in range.
        let mut watch = RangeWatch::new(pass.arithmetic_of_streams());
        let hand_down = self.segments.hands_down(self.segments.count() - 1);
        let mut descent = backward(network, top, None, hand_down, gradients);
        let mut work = None;
        while let Some(action) = self.schedule.next() {
            let above = descent.as_ref().map(|above| {
                let streams = meter.hold(Holder::Streams, above.streams.as_ref().map_or(0, Saved::bytes));
                (streams, meter.hold(Holder::StreamGradients, above.gradients.bytes()))
            });
            let Action::Reverse { step } = action else {
                self.apply(network, action, &mut work, pass, &mut watch)?;
                continue;
            };
            drop(above);
            let dims = descent.as_ref().map(|above| above.gradients.dims());
            let (stem, input) = match work.take() {
                Some(State::Input) => (Some(StemTrail::Rerun(self.input.clone())), None),
                Some(State::Streams(streams)) => (None, Some(streams)),
                None => unreachable!("a segment is reversed from what it was given"),
            };
            let recorded = trail::recorded(&pieces, self.segments.pieces(step), input, dims, pass);
            let overlap = self.overlap;
            let trail = Trail { pass: pass.clone(), overlap, stem, pieces: recorded, top: None, head: None };
            descent = backward(network, trail, descent, self.segments.hands_down(step), gradients);
        }
        Ok(())
    }

    fn apply(
        &mut self,
        network: &N,
        action: Action,
        work: &mut Option<State<D>>,
        pass: &Pass,
        watch: &mut RangeWatch,
    ) -> Result<()> {
        match action {
            Action::Forward { from, to } => {
                for segment in from..to {
                    let state = work.take().expect("a schedule goes on from where it is");
                    *work = Some(State::Streams(self.advance(network, segment, state, pass, watch)?));
                }
            }
            Action::Save { slot, .. } => {
                let state = work.take().expect("a schedule saves what it has");
                *work = Some(state.share(pass));
                self.fill(slot, Content::State(state), pass)?;
            }
            Action::Load { step, slot, keep } => {
                let state = match std::mem::replace(&mut self.slots[slot.index], Content::Nothing) {
                    Content::State(state) => state,
                    Content::Coming(held) => State::Streams(self.arrive(step, held, pass)?),
                    Content::Nothing | Content::Leaving { .. } => {
                        unreachable!("a schedule loads what it saved")
                    }
                };
                if keep {
                    *work = Some(state.share(pass));
                    self.slots[slot.index] = Content::State(state);
                } else {
                    *work = Some(state);
                }
            }
            Action::Copy { step, from, to, .. } if to.tier > 0 => self.leave(step, from, work, pass)?,
            Action::Copy { step, to, .. } => {
                let bytes = self.forms[step].as_ref().map_or(0, Form::bytes);
                let held = pass.metering().hold(Holder::Streams, bytes);
                self.shelf().prefetch(step)?;
                self.fill(to, Content::Coming(held), pass)?;
            }
            Action::Free { slot, .. } => self.fill(slot, Content::Nothing, pass)?,
            Action::Wait { step, .. } => self.shelf().wait(step)?,
            Action::Record { .. } | Action::Reverse { .. } | Action::ReverseRecorded { .. } => {
                unreachable!("schedules of snapshots record nothing, and who reverses does not ask here")
            }
        }
        Ok(())
    }

    /// The streams above a segment.
    fn advance(
        &self,
        network: &N,
        segment: usize,
        state: State<D>,
        pass: &Pass,
        watch: &mut RangeWatch,
    ) -> Result<Kept<Streams<D>>> {
        let streams = match state {
            State::Input => forward::record_stem(network, self.input.clone(), pass, true, watch)?.0,
            State::Streams(streams) => streams,
        };
        Ok(forward::advance(network, self.segments.pieces(segment), streams, pass, watch))
    }

    /// Puts something in place of what a slot holds, once that is written.
    fn fill(&mut self, slot: Slot, content: Content<D>, pass: &Pass) -> Result<()> {
        while self.slots.len() <= slot.index {
            self.slots.push(Content::Nothing);
        }
        if let Content::Leaving { step, .. } = self.slots[slot.index] {
            let place = self.place(step);
            pass.note(Activity::Io, place, || self.shelf().wait(step))?;
        }
        self.slots[slot.index] = content;
        Ok(())
    }

    /// Begins to write what a slot holds. Its bytes are a copy: the streams themselves stay at work, and are counted there.
    fn leave(&mut self, step: usize, from: Slot, work: &mut Option<State<D>>, pass: &Pass) -> Result<()> {
        let meter = pass.metering();
        let Content::State(State::Streams(streams)) =
            std::mem::replace(&mut self.slots[from.index], Content::Nothing)
        else {
            unreachable!("a schedule writes streams that it saved")
        };
        let (streams, held) = streams.into_parts();
        if let Some(State::Streams(shared)) = work.take() {
            let bytes = shared.value().bytes();
            *work = Some(State::Streams(meter.hold(Holder::Streams, bytes).keep(shared.into_parts().0)));
        }
        let most = self.buffers.as_ref().map_or(0, Held::bytes).max(BUFFERS * held.bytes());
        self.buffers = None;
        self.buffers = Some(meter.hold(Holder::Streams, most));
        let place = self.place(step);
        self.forms[step] = Some(pass.note(Activity::Io, place, || self.shelf().put(step, &streams))?);
        self.slots[from.index] = Content::Leaving { step, _held: held };
        Ok(())
    }

    /// Streams that were read.
    fn arrive(&mut self, step: usize, held: Held, pass: &Pass) -> Result<Kept<Streams<D>>> {
        let form = self.forms[step].take().expect("a schedule reads what it wrote");
        let place = self.place(step);
        Ok(held.keep(pass.note(Activity::Io, place, || self.shelf().take(step, &form))?))
    }

    /// Where the streams of a segment enter the network.
    fn place(&self, segment: usize) -> usize {
        FIRST_PIECE + self.segments.pieces(segment).start
    }

    fn shelf(&mut self) -> &mut Shelf {
        self.shelf.as_mut().expect("a schedule without disk writes to none")
    }
}

/// The store keeps a buffer as large as the largest snapshot for its writer, and one for its reader.
pub(super) const BUFFERS: u64 = 2;
