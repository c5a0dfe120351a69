//! Equal gradients, for any sub-blocks, depth, batch and masks.

use reprop_models::RevVitConfig;

use crate::common::{
    assert_alive, assert_equal_gradients, labels, mixed, noise, scattered, trainable, training, transformer,
    user_data, user_network,
};

const DEPTHS: [usize; 5] = [1, 2, 3, 6, 13];

#[test]
fn every_strategy_gives_stored_gradients_with_hand_written_derivatives() {
    for depth in DEPTHS {
        for (batch, rate) in [(1, 0.0), (3, 0.0), (3, 0.25)] {
            let network = user_network(&[depth], &[8], transformer(rate));
            let what = format!("depth {depth}, batch {batch}, rate {rate}");
            let pass = || training(7).step(5);
            let stored = assert_equal_gradients(&network, &user_data(batch), batch, pass, &what);
            if rate == 0.0 {
                assert_alive(&stored);
            }
        }
    }
}

#[test]
fn every_strategy_gives_stored_gradients_with_a_burn_module_beside_a_hand_written_one() {
    for depth in DEPTHS {
        for (batch, rate) in [(1, 0.0), (3, 0.25)] {
            let network = user_network(&[depth], &[8], mixed(rate));
            let what = format!("depth {depth}, batch {batch}, rate {rate}");
            assert_equal_gradients(&network, &user_data(batch), batch, || training(7), &what);
        }
    }
}

#[test]
fn every_strategy_gives_stored_gradients_for_rev_vit() {
    for depth in DEPTHS {
        for (batch, rate) in [(1, 0.0), (5, 0.2)] {
            let config =
                RevVitConfig { depth, ..RevVitConfig::digits() }.with_dropout(rate).with_drop_path(rate);
            let network = scattered(config.init(3, &trainable()));
            let data = (noise(4, [batch, 1, 8, 8]), labels(batch, 10));
            let what = format!("depth {depth}, batch {batch}, rate {rate}");
            let stored = assert_equal_gradients(&network, &data, batch, || training(1), &what);
            if rate == 0.0 {
                assert_alive(&stored);
            }
        }
    }
}

#[test]
fn a_network_without_blocks_has_gradients_too() {
    let network = user_network(&[0], &[8], transformer(0.0));
    let stored = assert_equal_gradients(&network, &user_data(2), 2, || training(7), "no blocks");
    assert_alive(&stored);
}
