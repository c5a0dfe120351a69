//! What stages keep, by their own count and by formula.

use burn::tensor::Tensor;
use reprop::{Entry, Network, Pass, Saved, Stage};
use reprop_pipeline::{Method, Settings};

use crate::common::{Noise, data, resnet, run, settings, vit};

#[test]
fn reversible_stages_keep_neither_activations_nor_parameters() {
    let network = vit(6);
    let settings = settings(Method::Petra, network.places(), 4, 12);
    let stages = run(&network, &settings, &Noise::default()).stages;
    // The first keeps the images that its stem is run from.
    let images = data(0).0.bytes();
    let warm_up = |stage| settings.warm_up(stage);
    assert_eq!(stages[0].input_bytes, (warm_up(0) + 1) * images);
    for summary in &stages {
        assert_eq!(summary.version_bytes, 0);
        assert!(summary.stage == 0 || summary.input_bytes == 0, "{summary:?}");
        assert!(summary.parameter_bytes > 0 && summary.activation_peak > 0);
    }
}

#[test]
fn transitions_keep_the_inputs_of_batches_in_flight() {
    let network = resnet();
    let settings = settings(Method::Petra, network.places(), 8, 20);
    let stages = run(&network, &settings, &Noise::default()).stages;
    for (index, places) in settings.stages.iter().enumerate() {
        let transitions = Stage::new(&network, places.clone()).unwrap().transitions();
        let expected = if transitions == 1 {
            (settings.warm_up(index) + 1) * input_bytes(&network, places.start)
        } else {
            0
        };
        assert!(
            index == 0 || stages[index].input_bytes == expected,
            "{:?}, expected {expected}",
            stages[index]
        );
    }
    assert!(stages.iter().filter(|stage| stage.input_bytes > 0).count() == 3);
}

/// Bytes of both streams as they enter a place.
fn input_bytes(network: &impl Network<4, Stem: reprop::Stem<4, Input = Tensor<4>>>, place: usize) -> u64 {
    let below = Stage::new(network, 0..place).unwrap();
    below.forward(Entry::Input(data(0).0), &Pass::training(7)).unwrap().bytes()
}

/// `delayed` keeps, for each of the `w + 1` batches between forward and backward, the input, and the parameters of all
/// but the newest, which are today's: one version for each `k` of them. `petra` keeps inputs of what is not reversible.
#[test]
fn what_delayed_keeps_more_than_petra_is_what_the_formula_says() {
    const TOLERANCE: f64 = 0.05;
    let network = resnet();
    for accumulate in [1, 2] {
        let of = |method| {
            let settings = Settings { accumulate, ..settings(method, network.places(), 4, 24) };
            let stages = run(&network, &settings, &Noise::default()).stages;
            let bytes: u64 = stages.iter().map(|stage| stage.input_bytes + stage.version_bytes).sum();
            (bytes, stages, settings)
        };
        let (petra, stages, settings) = of(Method::Petra);
        let (delayed, ..) = of(Method::Delayed);
        let mut expected = 0.0;
        for (index, places) in settings.stages.iter().enumerate().take(3) {
            let flights = settings.warm_up(index) + 1;
            let input = if index == 0 { data(0).0.bytes() } else { input_bytes(&network, places.start) };
            let versions = settings.warm_up(index).div_ceil(accumulate);
            expected += (flights * input + versions * stages[index].parameter_bytes) as f64;
        }
        let expected = expected - petra as f64;
        let found = delayed as f64 - petra as f64;
        assert!((found / expected - 1.0).abs() < TOLERANCE, "k {accumulate}: {found} against {expected}");
    }
}
