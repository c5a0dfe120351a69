//! Networks of convolutions keep the laws, and batch norms see each batch once, whatever the strategy.

use burn::tensor::{Int, Tensor};
use reprop::{Gradients, Meter, Network, Pass, Precision, Strategy, named_parameters};
use reprop_models::{ResNet, RevResNet, RevResNetConfig, RevVitConfig, Vit};

use crate::common::{
    assert_alive, assert_equal_gradients, bits, evaluation, is_running, labels, noise, scattered, stepped,
    strategies, trainable, training, with_threads,
};

/// Blocks of each stage, and whether they are bottlenecks. Some stages have nothing but their first block, which is not
/// reversible.
const SHAPES: [(&[usize], bool); 6] = [
    (&[1, 1, 1, 1], false),
    (&[2, 1, 3, 2], false),
    (&[3, 2, 1, 4], false),
    (&[1, 1, 1, 1], true),
    (&[2, 3, 1, 2], true),
    (&[4], true),
];
const CLASSES: usize = 7;

fn network(blocks: &[usize], bottleneck: bool, image: usize) -> RevResNet {
    let config = RevResNetConfig::new(blocks.to_vec(), bottleneck)
        .with_width(4)
        .with_image(image)
        .with_classes(CLASSES)
        .with_label_smoothing(0.1);
    assert_eq!(config.check(), Ok(()));
    scattered(config.init(3, &trainable()))
}

fn data(batch: usize, image: usize) -> (Tensor<4>, Tensor<1, Int>) {
    (noise(4, [batch, 3, image, image]), labels(batch, CLASSES))
}

#[test]
fn every_strategy_gives_stored_gradients_for_rev_resnet() {
    for (blocks, bottleneck) in SHAPES {
        // An odd side: strides leave a rest.
        for (batch, image) in [(1, 8), (3, 9)] {
            let network = network(blocks, bottleneck, image);
            let what = format!("{blocks:?}, bottleneck {bottleneck}, batch {batch}, image {image}");
            let (loss, mut found) =
                assert_equal_gradients(&network, &data(batch, image), batch, || training(1), &what);
            // The norm after a convolution takes out its bias.
            found.retain(|(name, ..)| !name.ends_with("conv.bias"));
            if batch > 1 && image > 8 {
                assert_alive(&(loss, found));
            }
        }
    }
}

#[test]
fn every_strategy_gives_stored_gradients_with_running_statistics() {
    let network = network(&[2, 1, 3, 2], false, 8);
    let stored = assert_equal_gradients(&network, &data(3, 8), 3, evaluation, "evaluation");
    assert_alive(&stored);
}

#[test]
fn every_strategy_gives_stored_gradients_of_large_images_and_in_half_precision() {
    let network = network(&[2, 2, 1, 1], false, 66);
    assert_equal_gradients(&network, &data(2, 66), 2, || training(1), "66 pixels");
    let half = || training(1).precision(Precision::Bf16);
    assert_equal_gradients(&network, &data(2, 66), 2, half, "half precision");
}

/// Names and bits of the running statistics after a step.
fn statistics(network: &RevResNet, pass: Pass, strategy: Strategy) -> Vec<(String, Vec<u8>)> {
    let (images, labels) = data(3, 8);
    let step = network.step(images, labels, pass, strategy).expect("a step");
    let moved = step.statistics.apply(network.clone());
    let running = named_parameters(&moved).into_iter().filter(|(name, _)| is_running(name));
    running.map(|(name, data)| (name, data.as_bytes().to_vec())).collect()
}

#[test]
fn running_statistics_are_the_same_bits_under_every_strategy_and_number_of_threads() {
    for (blocks, bottleneck) in SHAPES {
        let network = network(blocks, bottleneck, 8);
        let before = named_parameters(&network).into_iter().filter(|(name, _)| is_running(name));
        let before: Vec<_> = before.map(|(name, data)| (name, data.as_bytes().to_vec())).collect();
        let expected = statistics(&network, training(1), Strategy::Stored);
        assert_eq!(expected.len(), before.len());
        for (found, before) in expected.iter().zip(&before) {
            assert_ne!(found, before, "every statistic moves");
        }
        for threads in [1, 2, 3, 4] {
            for strategy in strategies(&network, 3, &training(1)) {
                let found = with_threads(threads, || statistics(&network, training(1), strategy));
                assert_eq!(found, expected, "{strategy:?}, {threads} threads");
            }
        }
    }
}

#[test]
fn evaluation_moves_no_statistic_and_does_not_look_at_the_rest_of_the_batch() {
    let network = network(&[2, 1, 3, 2], false, 8);
    let (images, labels) = data(3, 8);
    let step = network.step(images.clone(), labels, evaluation(), Strategy::Reprop).expect("a step");
    assert!(step.statistics.is_empty());
    let all = network.predict(images.clone(), &evaluation()).expect("an output");
    let one = network.predict(images.narrow(0, 1, 1), &evaluation()).expect("an output");
    assert_eq!(all.narrow(0, 1, 1).into_data(), one.into_data());
}

#[test]
fn passes_that_are_accumulated_move_statistics_one_after_the_other() {
    let network = network(&[2, 1, 1, 1], false, 8);
    let (images, labels) = data(3, 8);
    let mut gradients = Gradients::new(&Meter::new());
    for _ in 0..2 {
        let tape = network.record(images.clone(), labels.clone(), training(1), Strategy::PaReprop);
        tape.and_then(|tape| tape.backward(&mut gradients)).expect("a pass");
    }
    let both = gradients.take_statistics().apply(network.clone());
    let step = |network: RevResNet| {
        let step = network.step(images.clone(), labels.clone(), training(1), Strategy::Stored);
        step.expect("a step").statistics.apply(network)
    };
    assert_eq!(named_parameters(&both), named_parameters(&step(step(network))));
}

#[test]
fn prediction_is_what_the_meter_counts_for_rev_resnet() {
    for (blocks, bottleneck) in SHAPES {
        for image in [8, 66] {
            let network = network(blocks, bottleneck, image);
            let pass = || training(1);
            for strategy in strategies(&network, 3, &pass()).into_iter().chain([Strategy::Stored]) {
                let predicted = network.predicted(3, &pass(), strategy).expect("a plan").expect("told");
                let (images, labels) = data(3, image);
                let step = network.step(images, labels, pass(), strategy).expect("a step");
                let ratio = predicted.activation_peak as f64 / step.memory.activation_peak as f64;
                assert!(
                    (ratio - 1.0).abs() < 0.05,
                    "{blocks:?}, {strategy:?}, {image}: {} predicted, {} found",
                    predicted.activation_peak,
                    step.memory.activation_peak
                );
            }
        }
    }
}

#[test]
fn peak_of_rev_resnet_does_not_grow_with_depth_unless_all_is_stored() {
    let peak = |depth, strategy| {
        let network = network(&[2, 2, depth, 2], false, 16);
        let (images, labels) = data(2, 16);
        network.step(images, labels, training(1), strategy).expect("a step").memory.activation_peak
    };
    for strategy in [Strategy::Reprop, Strategy::PaReprop] {
        assert_eq!(peak(12, strategy), peak(3, strategy), "{strategy}");
    }
    assert!(peak(12, Strategy::Stored) > peak(3, Strategy::Stored));
}

/// Wide enough that convolutions are cut into tasks.
#[test]
fn rev_resnet_of_published_width_has_the_same_bits_at_any_number_of_threads() {
    let config = RevResNetConfig::new(vec![2, 1], false).with_classes(CLASSES);
    let network = config.init(3, &trainable());
    let data = (noise(4, [4, 3, 32, 32]), labels(4, CLASSES));
    let expected = with_threads(1, || stepped(&network, &data, training(3), Strategy::Stored));
    for threads in [2, 3, 8] {
        for strategy in [Strategy::Stored, Strategy::Reprop, Strategy::PaReprop] {
            let found = with_threads(threads, || stepped(&network, &data, training(3), strategy));
            assert!(found == expected, "{strategy} on {threads} threads");
        }
    }
}

#[test]
fn gradients_of_biases_before_a_norm_are_zero_in_training_alone() {
    let network = network(&[2, 1, 1, 1], false, 9);
    let biases = |pass: Pass| {
        let (images, labels) = data(3, 9);
        let step = network.step(images, labels, pass, Strategy::Stored).expect("a step");
        let all = bits(&network, &step.gradients);
        let biases = all.into_iter().filter(|(name, ..)| name.ends_with("conv.bias"));
        biases.map(|(_, _, bytes)| bytes.iter().all(|&byte| byte == 0)).collect::<Vec<_>>()
    };
    assert!(biases(training(1)).into_iter().all(|zero| zero));
    assert!(biases(evaluation()).into_iter().all(|zero| !zero));
}

/// They have nothing to reverse: every strategy stores.
#[test]
fn plain_twins_have_equal_gradients_and_their_bytes_are_told() {
    for bottleneck in [false, true] {
        let config = RevResNetConfig::new(vec![2, 2, 1], bottleneck).with_width(4).with_image(8);
        let twin = scattered(ResNet::new(&config.with_classes(CLASSES), 3, &trainable()));
        let what = format!("bottleneck {bottleneck}");
        assert_equal_gradients(&twin, &data(3, 8), 3, || training(1), &what);
        let (images, labels) = data(3, 8);
        let found = twin.step(images, labels, training(1), Strategy::Stored).expect("a step").memory;
        let told = twin.predicted(3, &training(1), Strategy::Stored).expect("a plan").expect("told");
        let ratio = told.activation_peak as f64 / found.activation_peak as f64;
        assert!((ratio - 1.0).abs() < 0.05, "{what}: {ratio}");
    }
    let config = RevVitConfig { depth: 3, ..RevVitConfig::digits() }.with_dropout(0.1).with_drop_path(0.1);
    let twin = scattered(Vit::new(&config, 3, &trainable()));
    let data = (noise(4, [3, 1, 8, 8]), labels(3, 10));
    assert_equal_gradients(&twin, &data, 3, || training(1), "transformer");
}
