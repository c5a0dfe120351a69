//! What stages keep, told before they run.

use reprop::{Pass, Piece, Stem};

use crate::{Method, Piped, Settings};

/// Bytes of what a stage may have to keep for one batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageSizes {
    /// Its input.
    pub input: u64,
    /// Inputs of its parts that are not reversible, the stem's included, as they wait in their queue.
    pub rerun: u64,
}

/// What a stage keeps at most between forwards and backwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Bytes of inputs.
    pub inputs: u64,
    /// Older sets of its parameters.
    pub versions: u64,
}

/// The sizes of every stage for batches of `batch` samples with inputs of `input` bytes, or nothing where a part cannot
/// tell the shape of its streams.
pub fn stage_sizes<const D: usize, N: Piped<D>>(
    network: &N,
    settings: &Settings,
    batch: usize,
    input: u64,
    pass: &Pass,
) -> Option<Vec<StageSizes>> {
    let bytes = |dims: [usize; D]| 2 * (dims.iter().product::<usize>() * size_of::<f32>()) as u64;
    let (mut dims, _) = network.stem().footprint(batch, &pass.context(0))?;
    // What enters each place, and what of it is kept for a rerun.
    let mut places = vec![(input, input)];
    for (index, piece) in network.pieces().into_iter().enumerate() {
        let (entering, entered) = (bytes(dims), dims);
        match piece {
            Piece::Block(_) => places.push((entering, 0)),
            Piece::Transition(transition) => {
                dims = transition.footprint(dims, &pass.context(index + 1))?.0;
                places.push((entering, 2 * settings.queue.bytes(&entered)));
            }
        }
    }
    places.push((bytes(dims), 0));
    let sizes = settings.stages.iter().map(|stage| StageSizes {
        input: places[stage.start].0,
        rerun: places[stage.clone()].iter().map(|place| place.1).sum(),
    });
    Some(sizes.collect())
}

impl Settings {
    /// What each stage keeps at most. Between a forward and the next backward there are `w + 1` batches in flight, the
    /// newest of which was run with today's parameters; every `k` batches share a set.
    pub fn kept(&self, sizes: &[StageSizes]) -> Vec<Kept> {
        let last = self.stages.len() - 1;
        let stage = |(index, size): (usize, &StageSizes)| {
            let flights = (self.warm_up(index) + 1).min(self.batches);
            let older = self.warm_up(index).min(self.batches - 1).div_ceil(self.accumulate);
            match self.method {
                _ if index == last => Kept::default(),
                Method::Backprop => Kept::default(),
                Method::Reversible | Method::Petra => Kept { inputs: flights * size.rerun, versions: 0 },
                Method::Dsp => Kept { inputs: flights * size.input, versions: 0 },
                Method::Delayed => Kept { inputs: flights * size.input, versions: older },
            }
        };
        sizes.iter().enumerate().map(stage).collect()
    }
}
