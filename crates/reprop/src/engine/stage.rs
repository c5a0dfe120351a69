//! A run of a network's parts: what one worker of a pipeline holds.

use std::ops::Range;

use crate::arithmetic::RangeWatch;
use crate::network::{Input, Output, Target};
use crate::strategy::Layout;
use crate::{Error, Gradients, Head, Holder, Kept, Network, Pass, Piece, Result, Streams};

use super::backward::{self, Descent};
use super::trail::{self, StemTrail, Trail};
use super::{FIRST_PIECE, forward};

/// What a stage is given in its forward.
#[expect(clippy::large_enum_variant, reason = "both are handles of tensors, of which a stage holds a few")]
pub enum Entry<const D: usize, N: Network<D>> {
    /// The network's input, for the stage that begins with the stem.
    Input(Input<D, N>),
    /// The streams that the stage below gave, for all others.
    Streams(Streams<D>),
}

impl<const D: usize, N: Network<D>> Clone for Entry<D, N> {
    fn clone(&self) -> Self {
        match self {
            Self::Input(input) => Self::Input(input.clone()),
            Self::Streams(streams) => Self::Streams(streams.clone()),
        }
    }
}

/// What a stage keeps between a forward and its backward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// What every part saved.
    Everything,
    /// The inputs of parts that are not reversible. The others are recovered from their outputs.
    Inputs,
}

/// A run of a network's *places*: 0 is the stem, then come the pieces, and the last place is the head.
///
/// It can go forward and backward on its own, given what its neighbours know, and its parameters may change in between.
/// That is all a pipeline needs; [`Network::step`] is the same code with one stage for the whole network.
///
/// ```
/// use burn::tensor::{Device, Int, Tensor};
/// use reprop::{Entry, Gradients, Keep, Meter, Network, Pass, Stage};
/// use reprop_models::RevVitConfig;
///
/// let network = RevVitConfig { depth: 2, ..RevVitConfig::digits() }.init(42, &Device::flex().autodiff());
/// let images = Tensor::<4>::ones([2, 1, 8, 8], &Device::flex());
/// let labels = Tensor::<1, Int>::zeros([2], &Device::flex());
/// let below = Stage::new(&network, 0..2)?;
/// let above = Stage::new(&network, 2..network.places())?;
///
/// let pass = Pass::training(42);
/// let (streams, trail_below) = below.record(Entry::Input(images), pass.clone(), Keep::Inputs, false)?;
/// let (loss, _, trail) = above.finish(Entry::Streams(streams), labels, pass, Keep::Inputs, false)?;
/// let mut gradients = Gradients::new(&Meter::new());
/// let descent = above.backward(trail, None, true, &mut gradients);
/// assert!(below.backward(trail_below, descent, false, &mut gradients).is_none());
/// # Ok::<(), reprop::Error>(())
/// ```
pub struct Stage<'n, const D: usize, N: Network<D>> {
    network: &'n N,
    /// Of the places.
    places: Range<usize>,
    /// Of the pieces alone.
    pieces: Range<usize>,
}

impl<'n, const D: usize, N: Network<D>> Stage<'n, D, N> {
    /// The stage of `places`.
    ///
    /// # Errors
    ///
    /// [`Error::Places`] if the network has no such places.
    pub fn new(network: &'n N, places: Range<usize>) -> Result<Self> {
        let all = network.places();
        if places.is_empty() || places.end > all {
            return Err(Error::Places { start: places.start, end: places.end, places: all });
        }
        let piece = |place: usize| place.saturating_sub(FIRST_PIECE).min(all - 2);
        let pieces = piece(places.start)..piece(places.end);
        Ok(Self { network, places, pieces })
    }

    /// Whether it begins with the stem.
    pub fn begins(&self) -> bool {
        self.places.start == 0
    }

    /// Whether it ends with the head.
    pub fn ends(&self) -> bool {
        self.places.end == self.network.places()
    }

    /// Whether its last part before the head is recovered from the streams above it, so that a backward needs them.
    pub fn needs_streams(&self) -> bool {
        let pieces = self.network.pieces();
        !self.pieces.is_empty() && matches!(pieces[self.pieces.end - 1], Piece::Block(_))
    }

    /// How many of its pieces, beside stem and head, are not reversible.
    pub fn transitions(&self) -> usize {
        let pieces = self.network.pieces();
        pieces[self.pieces.clone()].iter().filter(|piece| matches!(piece, Piece::Transition(_))).count()
    }

    /// The streams as they leave the stage; nothing is kept.
    ///
    /// # Errors
    ///
    /// A shape that does not fit, or streams out of range.
    pub fn forward(&self, entry: Entry<D, N>, pass: &Pass) -> Result<Streams<D>> {
        let mut watch = RangeWatch::new(pass.arithmetic_of_streams());
        let streams = match entry {
            Entry::Input(input) => forward::enter_stem(self.network, input, pass, &mut watch)?,
            Entry::Streams(streams) => streams,
        };
        let streams = forward::go_through(self.network, self.pieces.clone(), streams, pass, &mut watch);
        watch.check()?;
        Ok(streams)
    }

    /// The network's output, from a stage that ends with the head.
    ///
    /// # Errors
    ///
    /// As [`Self::forward`].
    pub fn predict(&self, entry: Entry<D, N>, pass: &Pass) -> Result<Output<D, N>> {
        let streams = self.forward(entry, pass)?;
        Ok(self.network.head().predict(streams, &pass.context(self.places.end - 1)))
    }

    /// The streams as they leave the stage, and what its backward will need.
    ///
    /// # Errors
    ///
    /// As [`Self::forward`].
    pub fn record(
        &self,
        entry: Entry<D, N>,
        pass: Pass,
        keep: Keep,
        overlap: bool,
    ) -> Result<(Streams<D>, Trail<D, N>)> {
        let (streams, trail) = self.run(entry, pass, keep, overlap)?;
        Ok((streams.into_parts().0, trail))
    }

    /// Loss and output, from a stage that ends with the head, and what its backward will need.
    ///
    /// # Errors
    ///
    /// As [`Self::forward`]; targets that do not fit, or a loss that is not finite.
    pub fn finish(
        &self,
        entry: Entry<D, N>,
        target: Target<D, N>,
        pass: Pass,
        keep: Keep,
        overlap: bool,
    ) -> Result<(f32, Output<D, N>, Trail<D, N>)> {
        let (streams, mut trail) = self.run(entry, pass, keep, overlap)?;
        self.network.head().check(&target, streams.value().dims()[0])?;
        let (loss, output) = forward::record_head(self.network, streams, target, &mut trail);
        Ok((forward::finite(&loss, &trail.pass)?, output, trail))
    }

    fn run(
        &self,
        entry: Entry<D, N>,
        pass: Pass,
        keep: Keep,
        overlap: bool,
    ) -> Result<(Kept<Streams<D>>, Trail<D, N>)> {
        let (layout, rerun) = match keep {
            Keep::Everything => (Layout::STORED, false),
            Keep::Inputs => (Layout::rerun(self.pieces.end, overlap), true),
        };
        let mut watch = RangeWatch::new(pass.arithmetic_of_streams());
        let (streams, stem) = match entry {
            Entry::Input(input) => {
                let (streams, stem) = forward::record_stem(self.network, input, &pass, rerun, &mut watch)?;
                (streams, Some(stem))
            }
            Entry::Streams(streams) => (pass.metering().keep(Holder::Streams, streams), None),
        };
        let range = self.pieces.clone();
        let (streams, pieces) =
            forward::record_pieces(self.network, range, streams, layout, &pass, &mut watch);
        watch.check()?;
        Ok((streams, Trail { pass, overlap: layout.overlap, stem, pieces, top: None, head: None }))
    }

    /// The trail that [`Self::record`] with [`Keep::Inputs`] would have left, from the inputs that it kept: the
    /// network's, if the stage begins with the stem, and those of [`Trail::inputs`].
    ///
    /// # Errors
    ///
    /// [`Error::TrailInputs`] if there are more or fewer of them than the stage keeps.
    pub fn trail(
        &self,
        input: Option<Input<D, N>>,
        inputs: Vec<Streams<D>>,
        pass: Pass,
        overlap: bool,
    ) -> Result<Trail<D, N>> {
        let (expected, found) = (self.transitions(), inputs.len());
        if expected != found || input.is_some() != self.begins() {
            return Err(Error::TrailInputs { expected, found, stem: self.begins() });
        }
        let inputs = inputs.into_iter().map(|input| pass.metering().keep(Holder::Streams, input));
        let recorded = trail::recorded(&self.network.pieces(), self.pieces.clone(), inputs, None, &pass);
        let stem = input.map(StemTrail::Rerun);
        Ok(Trail { pass, overlap, stem, pieces: recorded, top: None, head: None })
    }

    /// The backward of a trail, from what comes down (nothing, if the stage ends with the head) to what goes further
    /// down (nothing, if it begins with the stem). Reversible parts are recovered and others rerun with the parameters
    /// of today. `hand_down` asks for the streams that the stage was given, for a stage below that
    /// [needs them](Self::needs_streams).
    ///
    /// # Panics
    ///
    /// Panics if nothing comes down though the stage does not end with the head.
    pub fn backward(
        &self,
        trail: Trail<D, N>,
        above: Option<Descent<D>>,
        hand_down: bool,
        gradients: &mut Gradients,
    ) -> Option<Descent<D>> {
        backward::backward(self.network, trail, above, hand_down, gradients)
    }
}
