//! Exact streams come back at any depth; float streams drift, by a bounded amount.

use reprop::{Arithmetic, Network, Pass, Precision, Strategy, Streams};
use reprop_models::RevVitConfig;

use crate::common::{
    assert_equal_gradients, labels, largest_difference, mixed, noise, scattered, trainable, training,
    transformer, user_data, user_network,
};

const DEEP: usize = 48;

/// After the stem, and again after `DEEP` blocks and their inverses.
fn there_and_back(pass: &Pass) -> (Streams<3>, Streams<3>) {
    let config = RevVitConfig { depth: DEEP, ..RevVitConfig::digits() }.with_dropout(0.1).with_drop_path(0.1);
    let network = scattered(config.init(5, &trainable()));
    let images = noise(6, [3, 1, 8, 8]);
    let stem = Network::<3>::stem(&network);
    let begin = reprop::Stem::forward(stem, images.clone(), &pass.context(0));
    let begin = Streams::new(pass_enter(pass, begin.x1), pass_enter(pass, begin.x2));
    let end = network.streams(images, pass).expect("streams");
    assert!(largest_difference(&begin.x1, &end.x1) > 1.0, "the blocks do something");
    (begin, network.inverse(end, pass))
}

fn pass_enter(pass: &Pass, x: burn::tensor::Tensor<3>) -> burn::tensor::Tensor<3> {
    pass.context(0).arithmetic().enter(x)
}

#[test]
fn the_inverse_of_48_blocks_is_exact() {
    for precision in [Precision::F32, Precision::Bf16, Precision::F16] {
        let (begin, back) = there_and_back(&training(4).precision(precision));
        assert_eq!(begin.x1.into_data(), back.x1.into_data(), "{precision:?}");
        assert_eq!(begin.x2.into_data(), back.x2.into_data(), "{precision:?}");
    }
}

#[test]
fn the_inverse_of_unequal_streams_and_a_users_blocks_is_exact() {
    let network = user_network(&[13], &[8], mixed(0.2));
    let pass = training(4);
    let input = user_data(3).0;
    let stem = reprop::Stem::forward(&network.stem, input.clone(), &pass.context(0));
    let begin = Streams::new(pass_enter(&pass, stem.x1), pass_enter(&pass, stem.x2));
    assert!(largest_difference(&begin.x1, &begin.x2) > 0.1, "the streams are unequal");
    let back = network.inverse(network.streams(input, &pass).expect("streams"), &pass);
    assert_eq!(begin.x1.into_data(), back.x1.into_data());
    assert_eq!(begin.x2.into_data(), back.x2.into_data());
}

/// One rounding of a stream of magnitude 8 is at most `8 * 2^-25 = 2.4e-7`. Each of 48 blocks rounds both streams on the
/// way there and on the way back: 192 roundings are at most `4.6e-5`, and what is wrong goes through F and G, for which
/// as much again is allowed. Most roundings cancel: measured is `1.3e-6`.
const FLOAT_DRIFT: f32 = 1e-4;

#[test]
fn float_streams_drift_but_not_far() {
    let (begin, back) = there_and_back(&training(4).arithmetic(Arithmetic::Float));
    let drift = largest_difference(&begin.x1, &back.x1).max(largest_difference(&begin.x2, &back.x2));
    println!("drift of float streams over {DEEP} blocks and back: {drift:e}");
    assert!(drift > 0.0, "a float addition is not undone by a subtraction");
    assert!(drift < FLOAT_DRIFT, "{drift}");
}

#[test]
fn the_grid_may_be_coarse_or_fine() {
    let network = user_network(&[3], &[8], transformer(0.2));
    for fraction_bits in [6, 10, 18] {
        let pass = || training(4).arithmetic(Arithmetic::Exact { fraction_bits });
        assert_equal_gradients(&network, &user_data(3), 3, pass, &format!("{fraction_bits} fraction bits"));
    }
}

/// The drift is seen by the gradients too. Measured: `1.3e-6` of a gradient's largest value; what goes for the streams
/// goes for them.
const FLOAT_GRADIENT_DRIFT: f32 = 1e-4;

#[test]
fn float_gradients_of_recomputed_streams_are_close_but_not_equal() {
    let config = RevVitConfig { depth: DEEP, ..RevVitConfig::digits() };
    let network = scattered(config.init(5, &trainable()));
    let gradients = |strategy| {
        let pass = training(4).arithmetic(Arithmetic::Float);
        let step = network.step(noise(6, [3, 1, 8, 8]), labels(3, 10), pass, strategy).expect("a step");
        reprop::named_gradients(&network, &step.gradients)
    };
    let mut largest: f32 = 0.0;
    for ((name, stored), (_, found)) in gradients(Strategy::Stored).iter().zip(&gradients(Strategy::Reprop)) {
        let scale = stored.iter::<f32>().fold(0.0, |scale: f32, value| scale.max(value.abs()));
        let difference = stored.iter::<f32>().zip(found.iter::<f32>()).map(|(a, b)| (a - b).abs());
        let drift = difference.fold(0.0, f32::max) / scale;
        assert!(drift < FLOAT_GRADIENT_DRIFT, "{name}: {drift}");
        largest = largest.max(drift);
    }
    println!("drift of float gradients over {DEEP} blocks: {largest:e} of a gradient's largest value");
    assert!(largest > 0.0, "float streams are not had back exactly");
}
