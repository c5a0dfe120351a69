//! Gradients of several passes add up, each with its weight.

use burn::tensor::Tensor;
use reprop::{Gradients, Meter, Network, Strategy};

use crate::common::{Bits, assert_same, bits, mixed, training, transformer, user_data, user_network};

const STRATEGIES: [Strategy; 3] = [Strategy::Stored, Strategy::Reprop, Strategy::PaReprop];

fn accumulated<N: Network<3, Stem = S, Head = H>, S, H>(network: &N, strategy: Strategy) -> (u32, Bits)
where
    S: reprop::Stem<3, Input = Tensor<3>>,
    H: reprop::Head<3, Target = Tensor<2>>,
{
    let mut gradients = Gradients::new(&Meter::new());
    let mut total = 0.0;
    for call in 0..3 {
        let (input, target) = user_data(2 + call);
        let pass = training(3).call(call as u64).loss_weight(1.0 / 3.0);
        let (loss, _) = network
            .record(input, target, pass, strategy)
            .and_then(|tape| tape.backward(&mut gradients))
            .expect("a step");
        total += loss;
    }
    (total.to_bits(), bits(network, &gradients.into_params()))
}

#[test]
fn accumulated_gradients_are_equal_under_all_strategies() {
    let hand_written = user_network(&[3], &[8], transformer(0.2));
    let user = user_network(&[1, 2], &[8, 6], mixed(0.2));
    let expected = (accumulated(&hand_written, Strategy::Stored), accumulated(&user, Strategy::Stored));
    for strategy in STRATEGIES {
        assert_same(&expected.0, &accumulated(&hand_written, strategy), &format!("hand-written, {strategy}"));
        assert_same(&expected.1, &accumulated(&user, strategy), &format!("autodiff, {strategy}"));
    }
}

/// A power of two only moves exponents, so a weight of one half gives exactly half of every gradient.
#[test]
fn a_loss_weight_scales_every_gradient() {
    let network = user_network(&[2], &[8], mixed(0.2));
    let (input, target) = user_data(3);
    let gradients = |weight| {
        let pass = training(3).loss_weight(weight);
        let step = network.step(input.clone(), target.clone(), pass, Strategy::PaReprop).expect("a step");
        reprop::named_gradients(&network, &step.gradients)
    };
    for ((name, whole), (_, half)) in gradients(1.0).into_iter().zip(gradients(0.5)) {
        let whole = whole.try_to_vec::<f32>().expect("floats");
        let half = half.try_to_vec::<f32>().expect("floats");
        assert!(whole.iter().zip(&half).all(|(w, h)| (w * 0.5).to_bits() == h.to_bits()), "{name}");
    }
}
