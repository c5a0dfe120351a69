//! One module in several places of a network: its gradient is the sum over the places, with the same bits always.

use burn::module::{Module, ModuleDisplay};
use burn::tensor::Tensor;
use reprop::{AutodiffHead, AutodiffStem, Block, Network, Piece, Strategy};

use crate::common::{
    Distance, TwoLinear, User, assert_alive, assert_equal_gradients, mixed, stepped, training, transformer,
    user_data, user_network,
};

/// A network that goes `turns` times through its blocks.
#[derive(Module, Debug)]
struct Looped<B: Module> {
    network: User<B>,
    turns: usize,
}

impl<B: Module + ModuleDisplay + Block<3>> Network<3> for Looped<B> {
    type Stem = AutodiffStem<TwoLinear>;
    type Head = AutodiffHead<Distance>;

    fn stem(&self) -> &Self::Stem {
        &self.network.stem
    }

    fn pieces(&self) -> Vec<Piece<'_, 3>> {
        (0..self.turns).flat_map(|_| self.network.pieces()).collect()
    }

    fn head(&self) -> &Self::Head {
        &self.network.head
    }
}

fn looped<B: Module + ModuleDisplay + Block<3>>(network: User<B>) -> Looped<B> {
    Looped { network, turns: 3 }
}

#[test]
fn blocks_used_several_times_have_equal_gradients() {
    let data: (Tensor<3>, Tensor<2>) = user_data(3);
    let hand_written = looped(user_network(&[2], &[8], transformer(0.2)));
    let stored = assert_equal_gradients(&hand_written, &data, 3, || training(8), "hand-written");
    assert_alive(&stored);
    let user = looped(user_network(&[1], &[8], mixed(0.2)));
    assert_equal_gradients(&user, &data, 3, || training(8), "autodiff");
    let once = stepped(&hand_written.network, &data, training(8), Strategy::Stored);
    assert_ne!(once, stored, "each turn adds to the gradient");
}
