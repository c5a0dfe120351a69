//! Equal gradients across ordinary blocks between stages, wherever they stand.

use crate::common::{
    assert_alive, assert_equal_gradients, mixed, training, transformer, user_data, user_network,
};

/// Depths of stages with a transition between each two; an empty stage puts a transition beside stem, head or another.
const STAGES: [&[usize]; 8] =
    [&[2, 3], &[1, 2, 1], &[0, 3], &[3, 0], &[0, 2, 0], &[2, 0, 1], &[0, 0], &[1, 0, 0, 1]];
const WIDTHS: [usize; 4] = [8, 4, 6, 8];

#[test]
fn transitions_change_no_gradient_under_any_strategy() {
    for depths in STAGES {
        for rate in [0.0, 0.25] {
            let network = user_network(depths, &WIDTHS[..depths.len()], transformer(rate));
            let what = format!("stages {depths:?}, rate {rate}");
            let stored = assert_equal_gradients(&network, &user_data(3), 3, || training(11), &what);
            if rate == 0.0 {
                assert_alive(&stored);
            }
        }
    }
}

#[test]
fn transitions_change_no_gradient_of_a_users_blocks() {
    for depths in STAGES {
        let network = user_network(depths, &WIDTHS[..depths.len()], mixed(0.25));
        let what = format!("stages {depths:?}");
        assert_equal_gradients(&network, &user_data(3), 3, || training(11), &what);
    }
}
