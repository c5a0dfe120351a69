//! The streams' grid on the device: what was added is taken away again, to the bit.

use reprop::{Arithmetic, Network, Streams};

use crate::common::{
    assert_equal_gradients, largest_difference, mixed, training, transformer, user_data, user_network,
};

#[test]
fn the_inverse_of_unequal_streams_and_a_users_blocks_is_exact() {
    let network = user_network(&[13], &[8], mixed(0.2));
    let pass = training(4);
    let input = user_data(3).0;
    let stem = reprop::Stem::forward(&network.stem, input.clone(), &pass.context(0));
    let [x1, x2] = [stem.x1, stem.x2].map(|x| pass.context(0).arithmetic().enter(x));
    let begin = Streams::new(x1, x2);
    assert!(largest_difference(&begin.x1, &begin.x2) > 0.1, "the streams are unequal");
    let end = network.streams(input, &pass).expect("streams");
    assert!(largest_difference(&begin.x1, &end.x1) > 0.1, "the blocks do something");
    let back = network.inverse(end, &pass);
    assert_eq!(begin.x1.into_data(), back.x1.into_data());
    assert_eq!(begin.x2.into_data(), back.x2.into_data());
}

#[test]
fn the_grid_may_be_coarse_or_fine() {
    let network = user_network(&[3], &[8], transformer(0.2));
    for fraction_bits in [6, 18] {
        let pass = || training(4).arithmetic(Arithmetic::Exact { fraction_bits });
        assert_equal_gradients(&network, &user_data(3), 3, pass, &format!("{fraction_bits} fraction bits"));
    }
}
