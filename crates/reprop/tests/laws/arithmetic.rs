//! Exact streams come back at any depth; float streams drift, by a bounded amount.

use reprop::{Arithmetic, Network, Pass, Precision, Strategy, Streams};
use reprop_models::{RevVit, RevVitConfig};

use crate::common::{
    assert_equal_gradients, labels, largest_difference, mixed, noise, scattered, trainable, training,
    transformer, user_data, user_network,
};

const DEEP: usize = 48;

/// After the stem, and after `DEEP` blocks.
fn there(pass: &Pass) -> (RevVit, Streams<3>, Streams<3>) {
    let config = RevVitConfig { depth: DEEP, ..RevVitConfig::digits() }.with_dropout(0.1).with_drop_path(0.1);
    let network = scattered(config.init(5, &trainable()));
    let images = noise(6, [3, 1, 8, 8]);
    let stem = Network::<3>::stem(&network);
    let begin = reprop::Stem::forward(stem, images.clone(), &pass.context(0));
    let begin = Streams::new(pass_enter(pass, begin.x1), pass_enter(pass, begin.x2));
    let end = network.streams(images, pass).expect("streams");
    assert!(largest_difference(&begin.x1, &end.x1) > 1.0, "the blocks do something");
    (network, begin, end)
}

/// The largest difference of either stream.
fn apart(a: &Streams<3>, b: &Streams<3>) -> f32 {
    largest_difference(&a.x1, &b.x1).max(largest_difference(&a.x2, &b.x2))
}

fn pass_enter(pass: &Pass, x: burn::tensor::Tensor<3>) -> burn::tensor::Tensor<3> {
    pass.context(0).arithmetic().enter(x)
}

#[test]
fn the_inverse_of_48_blocks_is_exact() {
    for precision in [Precision::F32, Precision::Bf16, Precision::F16] {
        let pass = training(4).precision(precision);
        let (network, begin, end) = there(&pass);
        let back = network.inverse(end, &pass);
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

/// How far the ends are moved to see what becomes of it: far more than a rounding, far less than what the blocks do.
const NUDGE: f64 = 1e-3;

/// Each block rounds both streams on the way there and on the way back, each time by at most half a unit of the last place
/// of the largest number. What is wrong goes through F and G of the blocks on its way, and grows: by no more than what is
/// wrong at the end grows on its way through all of them, which is measured. Most roundings cancel, so that the drift is
/// far below that sum.
#[test]
fn float_streams_drift_but_not_far() {
    let pass = training(4).arithmetic(Arithmetic::Float);
    let (network, begin, end) = there(&pass);
    let back = network.inverse(end.clone(), &pass);
    let drift = apart(&begin, &back);

    let nudged = |x: &burn::tensor::Tensor<3>, seed| x.clone() + noise(seed, x.dims()).mul_scalar(NUDGE);
    let moved = Streams::new(nudged(&end.x1, 7), nudged(&end.x2, 8));
    let growth = apart(&back, &network.inverse(moved.clone(), &pass)) / apart(&end, &moved);
    let zeros = Streams::new(end.x1.zeros_like(), end.x2.zeros_like());
    let rounding = apart(&begin, &zeros).max(apart(&end, &zeros)) * f32::EPSILON / 2.0;
    let bound = (4 * DEEP) as f32 * rounding * growth.max(1.0);
    println!("drift of float streams over {DEEP} blocks and back: {drift:e}, of at most {bound:e}");
    assert!(drift > 0.0, "a float addition is not undone by a subtraction");
    assert!(drift < bound, "{drift:e}, and {rounding:e} a rounding that grows {growth} times");
}

#[test]
fn the_grid_may_be_coarse_or_fine() {
    let network = user_network(&[3], &[8], transformer(0.2));
    for fraction_bits in [6, 10, 18] {
        let pass = || training(4).arithmetic(Arithmetic::Exact { fraction_bits });
        assert_equal_gradients(&network, &user_data(3), 3, pass, &format!("{fraction_bits} fraction bits"));
    }
}

/// The drift is seen by the gradients too. Measured: `2e-5` to `3e-5` of a gradient's largest value; processors round
/// products in orders of their own, for which ten times as much is allowed.
const FLOAT_GRADIENT_DRIFT: f32 = 3e-4;

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
