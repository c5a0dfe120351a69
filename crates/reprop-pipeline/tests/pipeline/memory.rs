//! What stages keep, by their own count and by formula.

use burn::tensor::{Device, Tensor};
use reprop::{Entry, Network, Pass, Saved, Stage};
use reprop_models::RevResNetConfig;
use reprop_pipeline::{Method, Queue, Settings, stage_sizes};

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
fn every_stage_keeps_what_was_told_before_under_every_method() {
    let network = resnet();
    for method in Method::ALL {
        for (stages, accumulate) in [(8, 1), (3, 2)] {
            let settings = Settings { accumulate, ..settings(method, network.places(), stages, 40) };
            let sizes = stage_sizes(&network, &settings, 3, data(0).0.bytes(), &Pass::training(7)).unwrap();
            let told = settings.kept(&sizes);
            let found = run(&network, &settings, &Noise::default()).stages;
            for (kept, summary) in told.iter().zip(&found) {
                let versions = kept.versions * summary.parameter_bytes;
                let what = format!("{method}, {stages} stages: {kept:?} {summary:?}");
                assert_eq!((kept.inputs, versions), (summary.input_bytes, summary.version_bytes), "{what}");
            }
        }
    }
}

#[test]
fn queues_of_fewer_bits_are_smaller_by_the_meter_as_told_before() {
    let network = resnet();
    let mut peaks = Vec::new();
    for queue in Queue::ALL {
        let settings = Settings { queue, ..settings(Method::Petra, network.places(), 4, 20) };
        let sizes = stage_sizes(&network, &settings, 3, data(0).0.bytes(), &Pass::training(7)).unwrap();
        let stages = run(&network, &settings, &Noise::default()).stages;
        for (kept, summary) in settings.kept(&sizes).iter().zip(&stages) {
            assert_eq!(kept.inputs, summary.input_bytes, "{queue}: {summary:?}");
        }
        peaks.push(stages.iter().map(|stage| stage.activation_peak).sum::<u64>());
    }
    assert!(peaks.is_sorted_by(|a, b| a > b), "{peaks:?}");
}

/// Eight stages on however few cores there are.
#[test]
fn a_long_run_holds_no_more_than_a_short_one() {
    let network = vit(12);
    let held = |batches| {
        let stages =
            run(&network, &settings(Method::Petra, network.places(), 8, batches), &Noise::default()).stages;
        stages.iter().map(|stage| (stage.input_bytes, stage.activation_peak)).collect::<Vec<_>>()
    };
    assert_eq!(held(30), held(150));
}

/// RevResNet-50 on ImageNet at batch 64, one place a stage: in the paper's count, with `2 (J - j)` batches kept, the
/// queues of the four stages that shrink images hold 18.3 GB, and older parameters add 0.9 GB to inputs.
#[test]
fn the_formula_gives_the_published_sizes_of_queues_and_versions() {
    let config = RevResNetConfig::resnet50().with_image(224).with_classes(1000);
    let network = config.init(0, &Device::flex());
    let settings = settings(Method::Petra, network.places(), 18, 1000);
    let images = 64 * 3 * 224 * 224 * 4;
    let sizes = stage_sizes(&network, &settings, 64, images, &Pass::training(0)).unwrap();
    let queues: u64 = (1..18).map(|stage| settings.warm_up(stage) * sizes[stage].rerun).sum();
    assert!((queues as f64 / 1e9 - 18.3).abs() < 0.05, "{queues}");

    let mut parameters = vec![reprop::parameter_count(&network.stem)];
    for stage in &network.stages {
        parameters.extend(stage.down.iter().map(reprop::parameter_count));
        parameters.extend(stage.blocks.iter().map(reprop::parameter_count));
    }
    let versions: u64 = (0..17).map(|stage| settings.warm_up(stage) * 4 * parameters[stage] as u64).sum();
    assert!((versions as f64 / 1e9 - (44.5 - 43.6)).abs() < 0.1, "{versions}");
    // What a worker holds at its peak is one batch more, which has just gone forward.
    let kept: u64 = settings.kept(&sizes).iter().skip(1).map(|kept| kept.inputs).sum();
    assert_eq!(kept, queues + sizes[1..].iter().map(|size| size.rerun).sum::<u64>());
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
