//! A network cut into stages gives the gradients of the whole network.

use std::ops::Range;

use burn::optim::GradientsParams;
use reprop::{Entry, Error, Gradients, Keep, Meter, Network, Pass, Stage, Strategy};

use crate::common::{Bits, assert_same, bits, mixed, stepped, training, user_data, user_network};

/// Loss and gradients of one batch, stage by stage.
fn staged<N: Network<3>>(
    network: &N,
    cuts: &[Range<usize>],
    (input, target): (reprop::Input<3, N>, reprop::Target<3, N>),
    pass: &Pass,
    keep: Keep,
    overlap: bool,
) -> (u32, Bits) {
    let stages: Vec<_> = cuts
        .iter()
        .map(|places| Stage::new(network, places.clone()).expect("places of the network"))
        .collect();
    let (last, below) = stages.split_last().expect("at least one stage");
    let mut trails = Vec::new();
    let mut entry = Entry::Input(input);
    for stage in below {
        let (streams, trail) = stage.record(entry, pass.clone(), keep, overlap).expect("a forward");
        entry = Entry::Streams(streams);
        // What a resumed pipeline does: the trail from the inputs that it kept.
        let trail = if keep == Keep::Inputs && !stage.begins() {
            let inputs = trail.inputs().cloned().collect();
            stage.trail(None, inputs, pass.clone(), overlap).expect("the inputs that were kept")
        } else {
            trail
        };
        trails.push(trail);
    }
    let (loss, _, trail) = last.finish(entry, target, pass.clone(), keep, overlap).expect("a loss");
    let mut gradients = Gradients::new(&Meter::new());
    let needs = |index: usize| index > 0 && keep == Keep::Inputs && stages[index - 1].needs_streams();
    let mut descent = last.backward(trail, None, needs(below.len()), &mut gradients);
    for (index, trail) in trails.into_iter().enumerate().rev() {
        descent = stages[index].backward(trail, descent, needs(index), &mut gradients);
    }
    assert!(descent.is_none(), "nothing goes below the stem");
    let gradients: GradientsParams = gradients.into_params();
    (loss.to_bits(), bits(network, &gradients))
}

#[test]
fn stages_cut_anywhere_give_the_gradients_of_the_whole_network() {
    for depths in [[1, 2, 0], [2, 0, 1]] {
        assert_stages_agree(&depths);
    }
}

fn assert_stages_agree(depths: &[usize]) {
    let network = user_network(depths, &[8, 4, 6], mixed(0.2));
    let places = network.places();
    let pass = training(5).step(3);
    let data = || user_data(3);
    let whole = stepped(&network, &data(), pass.clone(), Strategy::Stored);
    let mut cuts: Vec<Vec<Range<usize>>> = (1..places).map(|cut| vec![0..cut, cut..places]).collect();
    cuts.push(std::iter::once(0..places).collect());
    cuts.push((0..places).map(|place| place..place + 1).collect());
    for cut in cuts {
        for (keep, overlap) in [(Keep::Everything, false), (Keep::Inputs, false), (Keep::Inputs, true)] {
            let found = staged(&network, &cut, data(), &pass, keep, overlap);
            assert_same(&whole, &found, &format!("{cut:?}, {keep:?}, overlap {overlap}"));
        }
    }
}

#[test]
fn a_stage_of_blocks_keeps_nothing_and_a_transition_keeps_its_input() {
    let network = user_network(&[1, 2], &[8, 4], mixed(0.0));
    let pass = training(5);
    let (input, _) = user_data(3);
    let stem = Stage::new(&network, 0..1).expect("the stem");
    let streams = stem.forward(Entry::Input(input), &pass).expect("streams");
    let bytes = reprop::Saved::bytes(&streams);
    let blocks = Stage::new(&network, 1..2).expect("a block");
    let (streams, trail) =
        blocks.record(Entry::Streams(streams), pass.clone(), Keep::Inputs, false).expect("a forward");
    assert_eq!((trail.stream_bytes(), blocks.transitions(), blocks.needs_streams()), (0, 0, true));
    let transition = Stage::new(&network, 2..3).expect("a transition");
    let (_, trail) =
        transition.record(Entry::Streams(streams), pass, Keep::Inputs, false).expect("a forward");
    assert_eq!(
        (trail.stream_bytes(), transition.transitions(), transition.needs_streams()),
        (bytes, 1, false)
    );
}

#[test]
fn places_that_are_not_there_are_refused_with_their_numbers() {
    let network = user_network(&[1], &[8], mixed(0.0));
    for (start, end) in [(0, 4), (2, 2), (3, 3)] {
        let refused = Stage::new(&network, start..end).err();
        assert_eq!(refused, Some(Error::Places { start, end, places: 3 }));
    }
}
