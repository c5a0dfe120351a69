//! Half precision of F and G: replayed identically where the device has it, as the CPU does, and refused where it has not.

use burn::tensor::{DType, Device};
use reprop::{Error, LossScale, Network, Precision, Strategy, gradient_digest};
use reprop_models::RevVitConfig;

use crate::common::{
    assert_equal_gradients, labels, mixed, noise, scattered, stepped, trainable, training, transformer,
    user_data, user_network,
};

#[test]
fn half_precision_is_replayed_identically_or_refused() {
    let hand_written = user_network(&[3], &[8], transformer(0.2));
    let user = user_network(&[2, 1], &[8, 6], mixed(0.2));
    let data = user_data(3);
    let exact = stepped(&hand_written, &data, training(4), Strategy::Stored);
    for (precision, dtype) in [(Precision::Bf16, DType::BF16), (Precision::F16, DType::F16)] {
        let pass = || training(4).precision(precision);
        let what = format!("{precision:?}");
        if crate::device().supports_dtype(dtype) {
            println!("{what} is computed");
            let found = assert_equal_gradients(&hand_written, &data, 3, pass, &what);
            assert_ne!(found, exact, "{what} must matter");
            assert_equal_gradients(&user, &data, 3, pass, &what);
        } else {
            assert_ne!(crate::device(), Device::flex(), "the CPU computes in {what}");
            println!("{what} is refused");
            let refused = user.step(data.0.clone(), data.1.clone(), pass(), Strategy::PaReprop).err();
            assert!(
                matches!(refused, Some(Error::Precision { precision: p, .. }) if p == precision),
                "{refused:?}"
            );
        }
    }
}

/// Half floats have 11 bits, `2^-11 = 4.9e-4` a rounding; a loss is made of many, of both signs.
const OF_HALF_FLOATS: f32 = 1e-2;

#[test]
fn scaled_half_floats_come_close_to_whole_ones_with_the_same_bits_under_each_strategy() {
    if crate::device() != Device::flex() && !crate::device().supports_dtype(DType::F16) {
        println!("f16 is refused on this device, which another test asserts");
        return;
    }
    let config = RevVitConfig { depth: 3, ..RevVitConfig::digits() }.with_dropout(0.1);
    let network = scattered(config.init(3, &trainable()));
    // The factor is halved until nothing overflows, as in training.
    let step = |strategy, precision| {
        let mut scale = LossScale::default();
        loop {
            let pass = training(1).precision(precision).loss_weight(scale.factor());
            let step = network.step(noise(4, [4, 1, 8, 8]), labels(4, 10), pass, strategy).expect("a step");
            if let Some(gradients) = scale.unscale(&network, step.gradients) {
                return (step.loss, gradient_digest(&network, &gradients), scale);
            }
            assert!(scale.factor() > 1.0, "gradients overflow without any factor");
        }
    };
    let stored = step(Strategy::Stored, Precision::F16);
    for strategy in [Strategy::Reprop, Strategy::PaReprop] {
        assert_eq!(step(strategy, Precision::F16), stored, "{strategy}");
    }
    let whole = step(Strategy::Stored, Precision::F32).0;
    assert!((stored.0 - whole).abs() < OF_HALF_FLOATS * whole, "{} against {whole}", stored.0);
}
