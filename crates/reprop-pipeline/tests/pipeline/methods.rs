//! Where methods must give what ordinary training gives.

use burn::tensor::{Int, Tensor};
use reprop::{Gradients, Head, Meter, Network, Pass, Stem, Strategy};
use reprop_pipeline::{Job, Method, Piped, Settings};

use crate::common::{Noise, assert_same, bits, data, resnet, run, settings, vit};

/// Ordinary training: one network, one optimizer, `accumulate` batches an update.
pub fn ordinary<const D: usize, N>(mut network: N, job: &Noise, batches: u64, accumulate: u64) -> N
where
    N: Network<D, Stem: Stem<D, Input = Tensor<4>>, Head: Head<D, Target = Tensor<1, Int>>>,
{
    let mut optimizer = job.make_optimizer();
    let mut gradients = Gradients::new(&Meter::new());
    for batch in 0..batches {
        let (input, target) = data(batch);
        let pass = Pass::training(7).step(batch).loss_weight(1.0 / accumulate as f64);
        network
            .record(input, target, pass, Strategy::Stored)
            .and_then(|tape| tape.backward(&mut gradients))
            .expect("a step");
        network = gradients.take_statistics().apply(network);
        if (batch + 1) % accumulate == 0 {
            let all = std::mem::replace(&mut gradients, Gradients::new(&Meter::new()));
            network = optimizer.step((job.rate)(batch), network, all.into_params());
        }
    }
    network
}

fn assert_ordinary<const D: usize, N>(network: &N, methods: &[Method], stages: usize)
where
    N: Piped<D, Stem: Stem<D, Input = Tensor<4>>, Head: Head<D, Target = Tensor<1, Int>>>,
    Noise: Job<D, N>,
{
    for (accumulate, adam) in [(1, true), (4, false)] {
        let job = Noise { adam, ..Noise::default() };
        let expected = bits(&ordinary(network.clone(), &job, 8, accumulate));
        assert_ne!(expected, bits(network), "training changes parameters");
        for &method in methods {
            let settings = Settings { accumulate, ..settings(method, network.places(), stages, 8) };
            let found = run(network, &settings, &job);
            assert_same(
                &expected,
                &bits(&found.network),
                &format!("{method}, {stages} stages, k {accumulate}"),
            );
        }
    }
}

#[test]
fn one_stage_is_ordinary_training_under_every_method() {
    assert_ordinary(&resnet(), &Method::ALL, 1);
    assert_ordinary(&vit(2), &Method::ALL, 1);
}

#[test]
fn synchronous_methods_are_ordinary_training_on_any_number_of_stages() {
    for stages in [2, 3, 8] {
        assert_ordinary(&resnet(), &[Method::Backprop, Method::Reversible], stages);
    }
    assert_ordinary(&vit(3), &[Method::Backprop, Method::Reversible], 3);
}

/// The rate is zero but for the last update, so that the last batch's gradients are what parameters moved by.
#[test]
fn with_a_learning_rate_of_zero_every_method_has_the_gradients_of_backpropagation() {
    let job = Noise { rate: |batch| if batch == 9 { 1.0 } else { 0.0 }, ..Noise::default() };
    let (resnet, vit) = (resnet(), vit(4));
    let of = |method| {
        let resnet = run(&resnet, &settings(method, resnet.places(), 4, 10), &job).network;
        let vit = run(&vit, &settings(method, vit.places(), 4, 10), &job).network;
        [bits(&resnet), bits(&vit)].concat()
    };
    let expected = of(Method::Backprop);
    let before = [bits(&resnet), bits(&vit)].concat();
    // A bias before a batch norm changes nothing, and has no gradient.
    let still = expected.iter().zip(&before).filter(|(a, b)| a == b && !a.0.ends_with("conv.bias"));
    assert_eq!(still.map(|(a, _)| &a.0).collect::<Vec<_>>(), Vec::<&String>::new(), "no gradient");
    for method in Method::ALL {
        assert_same(&expected, &of(method), &method.to_string());
    }
}

#[test]
fn many_stages_on_few_cores_come_to_an_end_and_differ_from_ordinary_training() {
    let network = vit(12);
    let job = Noise::default();
    let expected = bits(&ordinary(network.clone(), &job, 30, 1));
    for depth in [1.0, 1.5, 2.0, 3.0] {
        for method in [Method::Petra, Method::Delayed, Method::Dsp] {
            let settings = Settings { depth, ..settings(method, network.places(), 8, 30) };
            let found = run(&network, &settings, &job);
            assert_ne!(bits(&found.network), expected, "delayed gradients are not today's: {method}");
            let again = run(&network, &settings, &job);
            assert_same(&bits(&found.network), &bits(&again.network), "two runs");
            assert_eq!((found.batches, found.stages.len()), (30, 8));
        }
    }
}
