//! Frozen parameters get no gradient, and change no other one.

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::Tensor;
use reprop::{Network, Strategy, named_parameters};

use crate::common::{
    Bits, assert_same, mixed, stepped, strategies, training, transformer, user_data, user_network,
};

/// The module with every parameter frozen whose number `chosen` says.
fn frozen<M: Module>(module: M, chosen: fn(usize) -> bool) -> M {
    struct Freeze(usize, fn(usize) -> bool);
    impl ModuleMapper for Freeze {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            self.0 += 1;
            let frozen = (self.1)(self.0 - 1);
            param.map(|value| if frozen { value.set_require_grad(false) } else { value })
        }
    }
    module.map(&mut Freeze(0, chosen))
}

/// Those of `all` that are among `some`.
fn among(all: &(u32, Bits), some: &(u32, Bits)) -> (u32, Bits) {
    let names: Vec<&String> = some.1.iter().map(|(name, ..)| name).collect();
    (all.0, all.1.iter().filter(|(name, ..)| names.contains(&name)).cloned().collect())
}

fn check<N: Network<3, Stem = S, Head = H>, S, H>(network: impl Fn() -> N, what: &str)
where
    S: reprop::Stem<3, Input = Tensor<3>>,
    H: reprop::Head<3, Target = Tensor<2>>,
{
    let data = user_data(3);
    let pass = || training(2);
    let free = stepped(&network(), &data, pass(), Strategy::Stored);
    let choices: [fn(usize) -> bool; 4] = [|n| n % 2 == 0, |n| n % 3 != 0, |n| n < 4, |n| n > 4];
    for (number, chosen) in choices.into_iter().enumerate() {
        let network = frozen(network(), chosen);
        let kept = (0..named_parameters(&network).len()).filter(|&n| !chosen(n)).count();
        for strategy in strategies(&network, 3, &pass()).into_iter().chain([Strategy::Stored]) {
            let found = stepped(&network, &data, pass(), strategy);
            let what = format!("{what}, choice {number}, {strategy:?}");
            assert_eq!(found.1.len(), kept, "{what}");
            assert_same(&among(&free, &found), &found, &what);
        }
    }
}

#[test]
fn frozen_parameters_get_no_gradient_and_change_no_other_one() {
    check(|| user_network(&[2], &[8], transformer(0.2)), "hand-written");
    check(|| user_network(&[1, 1], &[8, 6], mixed(0.2)), "with autodiff and a transition");
}
