//! `RevRoBERTa`: values of `oracle/rev_roberta.py`. Its streams begin equal, as there is one table of tokens; from the first
//! block on they are not.

use burn::tensor::{Device, Int, Tensor};
use reprop::Side;
use reprop_models::RevRobertaConfig;
use safetensors::Dtype;

use crate::common::{Tolerance, Values, equals_pytorch};

/// PyTorch's own `f32` differs from its `f64` by up to `1.9e-6` on these networks (the script prints it). Four times that
/// leaves room for another order of sums, and none for a mistake.
const TOLERANCE: Tolerance = Tolerance { rounding: 8e-6, grid: 4e-4 };

/// Tokens, targets and hidden keys.
fn text(values: &mut Values) -> (Tensor<2, Int>, Tensor<2, Int>, Side) {
    let mut numbers = |name| {
        Tensor::<2, Int>::from_data(values.data(name, Dtype::I64, i64::from_le_bytes), &Device::flex())
    };
    let (tokens, targets) = (numbers("tokens"), numbers("targets"));
    (tokens, targets, values.side())
}

#[test]
fn three_blocks_with_padding_and_a_tied_table_equal_pytorch() {
    let config = RevRobertaConfig::new(29, 11, 12, 3, 3, 20);
    let values = Values::read(include_bytes!("../../../../oracle/values/rev_roberta.safetensors"));
    equals_pytorch(config.init(0, &Device::flex().autodiff()), values, &TOLERANCE, text);
}

#[test]
fn sequences_shorter_than_the_networks_equal_pytorch() {
    let config = RevRobertaConfig::new(17, 9, 8, 2, 2, 24);
    let values = Values::read(include_bytes!("../../../../oracle/values/rev_roberta_short.safetensors"));
    equals_pytorch(config.init(0, &Device::flex().autodiff()), values, &TOLERANCE, text);
}
