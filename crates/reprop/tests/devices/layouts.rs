//! Layers that permute inside: what is computed without being kept has the bits of what is kept.

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::{Tensor, activation};
use reprop::layers::Initial;
use reprop::{Autodiff, Context, Coupling, Layer};

use crate::common::{TOKENS, assert_alive, assert_equal_gradients, training, user_data, user_network};

/// Wide enough that there are several kernels of a product to choose from.
const WIDTH: usize = 64;

/// Tokens mixed with one another, then features. Between the two stand operations that may overwrite their argument, which
/// is permuted then, where nobody keeps it.
#[derive(Module, Debug)]
struct Crossed {
    across: Linear,
    along: Linear,
}

impl Crossed {
    fn new(width: usize, initial: &mut Initial) -> Autodiff<Self> {
        Autodiff::new(Self { across: initial.linear(TOKENS, TOKENS), along: initial.linear(width, width) })
    }
}

impl Layer<3> for Crossed {
    fn forward(&self, x: Tensor<3>, _: &Context<'_>) -> Tensor<3> {
        let mixed = self.across.forward(x.swap_dims(1, 2)).swap_dims(1, 2);
        let mixed = activation::gelu(mixed.mul_scalar(1.5));
        let heads = mixed.reshape([0, 0, 4, -1]).swap_dims(1, 2);
        let weights = activation::softmax(heads.clone().matmul(heads.clone().swap_dims(2, 3)), 3);
        let [batch, _, tokens, _] = heads.dims();
        let joined = activation::tanh(weights.matmul(heads).swap_dims(1, 2)).reshape([batch, tokens, WIDTH]);
        self.along.forward(joined)
    }
}

#[test]
fn a_users_layers_may_permute_inside() {
    let block = |width, initial: &mut Initial| {
        Coupling::new(Crossed::new(width, initial), Crossed::new(width, initial))
    };
    for (depth, batch) in [(3, 1), (2, 5)] {
        let network = user_network(&[depth], &[WIDTH], block);
        let what = format!("depth {depth}, batch {batch}");
        let stored = assert_equal_gradients(&network, &user_data(batch), batch, || training(7), &what);
        assert_alive(&stored);
    }
}
