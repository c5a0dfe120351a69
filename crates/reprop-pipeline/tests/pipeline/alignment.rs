//! Gradients beside the true ones.

use std::collections::HashMap;

use burn::tensor::{Int, Tensor};
use reprop::{
    Entry, Gradients, Head, Keep, Meter, Network, Pass, Stage, Stem, named_gradients, named_parameters,
};
use reprop_pipeline::{Job, Method, Piped, Queue, Settings};

use crate::common::{Noise, assert_same, bits, data, resnet, run, settings, vit};

/// Gradients are read off parameters that they moved, which are rounded.
const TOLERANCE: f64 = 1e-3;

/// Exactly.
const ONE: u64 = 1.0_f64.to_bits();

#[test]
fn gradients_of_synchronous_methods_and_of_a_zero_rate_are_the_true_ones() {
    let network = resnet();
    for (method, rate, accumulate) in [
        (Method::Backprop, 0.05, 1),
        (Method::Reversible, 0.05, 4),
        (Method::Petra, 0.0, 1),
        (Method::Petra, 0.0, 4),
        (Method::Delayed, 0.0, 1),
    ] {
        let rate = if rate > 0.0 { |_| 0.05 } else { |_| 0.0 };
        let plain = Settings { accumulate, ..settings(method, network.places(), 4, 16) };
        let expected = run(&network, &plain, &Noise { rate, ..Noise::default() });
        let job = Noise { rate, ..Noise::default() };
        let found = run(&network, &Settings { alignment: 2, ..plain }, &job);
        let cosines = job.cosines.into_inner().unwrap();
        let due: Vec<u64> = (0..16).filter(|batch| (batch + 1) % (2 * accumulate) == 0).collect();
        assert_eq!(cosines.iter().map(|(batch, _)| *batch).collect::<Vec<_>>(), due, "{method}");
        assert!(
            cosines.iter().all(|(_, of)| of.len() == 4 && of.iter().all(|cosine| cosine.to_bits() == ONE)),
            "{method}: {cosines:?}"
        );
        assert_same(&bits(&expected.network), &bits(&found.network), "comparing changes nothing");
    }
}

/// The cosines of `batch` from the definition: parameters after all earlier batches, what the batch moved them by, and the
/// gradients of the whole network.
fn restated<const D: usize, N>(network: &N, settings: &Settings, batch: u64) -> Vec<f64>
where
    N: Piped<D, Stem: Stem<D, Input = Tensor<4>>, Head: Head<D, Target = Tensor<1, Int>>>,
    Noise: Job<D, N>,
{
    let after = |batches| {
        let job = Noise { plain: true, ..Noise::default() };
        run(network, &Settings { batches, alignment: 0, ..settings.clone() }, &job).network
    };
    let (before, after) = (after(batch), after(batch + 1));
    let values = |network: &N| -> HashMap<String, Vec<f64>> {
        let all = named_parameters(network).into_iter();
        all.map(|(name, data)| (name, data.iter::<f64>().collect())).collect()
    };
    let (start, end) = (values(&before), values(&after));

    let (input, target) = data(batch);
    let pass = Pass::training(7).step(batch);
    let mut entry = Entry::Input(input);
    let mut trails = Vec::new();
    let last = settings.stages.len() - 1;
    for places in &settings.stages[..last] {
        let (streams, trail) = Stage::new(&before, places.clone())
            .unwrap()
            .record(entry, pass.clone(), Keep::Everything, false)
            .unwrap();
        trails.push(trail);
        entry = Entry::Streams(streams);
    }
    let top = Stage::new(&before, settings.stages[last].clone()).unwrap();
    trails.push(top.finish(entry, target, pass, Keep::Everything, false).unwrap().2);
    let mut cosines = Vec::new();
    let mut descent = None;
    for (places, trail) in settings.stages.iter().zip(trails).rev() {
        let mut gradients = Gradients::new(&Meter::new());
        descent =
            Stage::new(&before, places.clone()).unwrap().backward(trail, descent, false, &mut gradients);
        let (mut both, mut ours, mut theirs) = (0.0, 0.0, 0.0);
        for (name, gradient) in named_gradients(&before, &gradients.into_params()) {
            for ((truth, from), to) in gradient.iter::<f64>().zip(&start[&name]).zip(&end[&name]) {
                both += (from - to) * truth;
                ours += (from - to) * (from - to);
                theirs += truth * truth;
            }
        }
        cosines.push(both / (ours * theirs).sqrt());
    }
    cosines.reverse();
    cosines
}

#[test]
fn cosines_of_petra_are_those_of_their_definition() {
    let network = vit(4);
    let settings = Settings { alignment: 3, ..settings(Method::Petra, network.places(), 3, 12) };
    let job = Noise { plain: true, ..Noise::default() };
    run(&network, &settings, &job);
    let cosines = job.cosines.into_inner().unwrap();
    assert_eq!(cosines.len(), 4);
    for (batch, found) in cosines {
        let expected = restated(&network, &settings, batch);
        for (a, b) in found.iter().zip(&expected) {
            assert!((a - b).abs() < TOLERANCE, "batch {batch}: {found:?} {expected:?}");
        }
        assert!(
            found.iter().all(|cosine| *cosine < 1.0),
            "delayed gradients are not the true ones: {found:?}"
        );
    }
}

/// What fewer bits in queues do to gradients, where nothing else disturbs them.
#[test]
fn queues_of_fewer_bits_turn_gradients_a_little() {
    let network = resnet();
    let mut lost = Vec::new();
    for queue in Queue::ALL {
        let settings = Settings { queue, alignment: 1, ..settings(Method::Petra, network.places(), 4, 8) };
        let job = Noise { rate: |_| 0.0, ..Noise::default() };
        run(&network, &settings, &job);
        let cosines = job.cosines.into_inner().unwrap();
        lost.push(cosines.iter().flat_map(|(_, of)| of).map(|cosine| 1.0 - cosine).sum::<f64>() / 32.0);
    }
    // On average over batches and stages; the batches are of three samples, and a few of their ReLUs turn.
    let [f32, f16, u8] = lost[..] else { panic!("three queues") };
    assert!(f32.to_bits() == 0 && f16 > 0.0 && u8 > f16 && u8 < 0.02, "{lost:?}");
}
