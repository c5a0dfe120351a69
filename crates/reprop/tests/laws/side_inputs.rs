//! Side inputs reach every block, forward and backward, under every strategy.

use burn::tensor::{Bool, Tensor, TensorData};
use reprop::{HiddenKeys, Network, Precision, Side, Strategy};

use crate::common::{
    Shift, TOKENS, assert_equal_gradients, evaluation, mixed, noise, stepped, training, transformer,
    user_data, user_network,
};

const BATCH: usize = 3;
const WIDTH: usize = 8;

/// Sample `i` hides its last `i` tokens.
fn hidden_keys() -> HiddenKeys {
    let hidden = (0..BATCH).flat_map(|sample| (0..TOKENS).map(move |token| token + sample >= TOKENS));
    let data = TensorData::new(hidden.collect::<Vec<bool>>(), [BATCH, TOKENS]);
    HiddenKeys(Tensor::<2, Bool>::from_data(data, &crate::device()))
}

fn both() -> Side {
    Side::new().with(hidden_keys()).with(Shift(noise(8, [WIDTH])))
}

#[test]
fn hidden_keys_and_a_users_own_side_input_matter_and_change_no_law() {
    let data = user_data(BATCH);
    for (name, network) in [("mixed", user_network(&[3], &[WIDTH], mixed(0.2)))] {
        let pass = |side: Side| training(6).side(side);
        let plain = stepped(&network, &data, pass(Side::new()), Strategy::Stored);
        for (what, side) in [
            ("hidden keys", Side::new().with(hidden_keys())),
            ("shift", Side::new().with(Shift(noise(8, [WIDTH])))),
            ("both", both()),
        ] {
            let found = assert_equal_gradients(&network, &data, BATCH, || pass(side.clone()), what);
            assert_ne!(found, plain, "{name}: {what} must matter");
        }
    }
}

#[test]
fn hidden_keys_change_no_law_in_half_precision() {
    let network = user_network(&[3], &[WIDTH], transformer(0.2));
    // A device that lacks one refuses it, which another law asserts.
    let is_there = |precision: &Precision| crate::device().supports_dtype(precision.dtype());
    for precision in [Precision::Bf16, Precision::F16].into_iter().filter(is_there) {
        let pass = || training(6).side(both()).precision(precision);
        assert_equal_gradients(&network, &user_data(BATCH), BATCH, pass, "half precision");
    }
}

#[test]
fn a_hidden_key_is_not_looked_at() {
    let network = user_network(&[1], &[WIDTH], transformer(0.0));
    let (input, _) = user_data(BATCH);
    let pass = evaluation().side(both());
    let streams = network.streams(input.clone(), &pass).expect("streams");
    // The last token of sample 2 is hidden from all others: they must not notice that it changed.
    let changed =
        input.slice_assign([2..3, TOKENS - 1..TOKENS, 0..1], Tensor::ones([1, 1, 1], &crate::device()));
    let other = network.streams(changed, &pass).expect("streams");
    let visible = |x: &Tensor<3>| x.clone().slice([0..BATCH, 0..TOKENS - 2]).into_data();
    assert_eq!(visible(&streams.x1), visible(&other.x1));
    assert_eq!(visible(&streams.x2), visible(&other.x2));
    assert_ne!(streams.x1.into_data(), other.x1.into_data(), "the hidden token itself did change");
}
