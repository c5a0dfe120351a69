//! Layers on fused kernels and on Burn's operations: seen in a trace, close to each other, and always on the
//! weights of the moment.

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Tensor, TensorData};
use reprop::layers::{AttentionConfig, Initial, MlpConfig};
use reprop::{
    Arithmetic, Direction, Gradients, HiddenKeys, Kernels, Meter, Mode, Network, Residual, Side, Strategy,
    Trace, gradient_digest,
};
use reprop_models::{RevVit, RevVitConfig};

use crate::KERNELS;
use crate::common::{
    evaluation, labels, largest_difference, noise, scattered, trainable, training, transformer, user_data,
    user_network,
};

fn network() -> RevVit {
    scattered(RevVitConfig { depth: 2, ..RevVitConfig::digits() }.init(1, &trainable()))
}

/// Both round each of some hundred sums in another order; outputs are of magnitude 1.
const ROUNDING: f32 = 1e-4;

#[test]
fn both_kinds_of_kernels_give_the_same_up_to_rounding() {
    let float = |kernels| evaluation().arithmetic(Arithmetic::Float).kernels(kernels);
    let predict = |kernels| network().predict(noise(1, [3, 1, 8, 8]), &float(kernels)).expect("an output");
    let (auto, burn) = (predict(Kernels::Auto), predict(Kernels::Burn));
    assert_ne!(auto.to_data(), burn.to_data(), "two ways to compute were compared");
    let difference = largest_difference(&auto, &burn);
    assert!(difference < ROUNDING, "{difference}");
}

#[test]
fn a_trace_tells_which_kernels_ran() {
    let trace = Trace::new();
    let pass = training(1).trace(&trace);
    let all = Mode { overlap: true, ..Mode::default() };
    network().step(noise(1, [2, 1, 8, 8]), labels(2, 10), pass, Strategy::Planned(all)).expect("a step");
    let blocks: Vec<bool> =
        trace.spans().iter().filter(|span| [1, 2].contains(&span.place)).map(|span| span.fused).collect();
    assert_eq!(blocks, [KERNELS == Kernels::Auto; 6], "a forward, a recovery and gradients of two blocks");
}

/// The module with every parameter scaled, in new memory but under its old number.
fn scaled(network: RevVit) -> RevVit {
    struct Scale;
    impl ModuleMapper for Scale {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            param.map(|value| value.inner().mul_scalar(1.25).autodiff().require_grad())
        }
    }
    network.map(&mut Scale)
}

#[test]
fn a_pass_that_is_used_again_sees_new_weights() {
    let images = || noise(1, [2, 1, 8, 8]);
    let reused = evaluation();
    let mut network = network();
    for version in 0..3 {
        let found = network.predict(images(), &reused).expect("an output").into_data();
        let expected = network.predict(images(), &evaluation()).expect("an output").into_data();
        assert_eq!(found, expected, "version {version}");
        network = scaled(network);
    }
}

fn added_at_once<F: Module + Residual<3>>(sub_block: &F, what: &str) {
    let [x, base, dy] = [1, 2, 3].map(|seed| noise(seed, [3, 7, 12]));
    let arithmetics = [Arithmetic::default(), Arithmetic::Exact { fraction_bits: 25 }, Arithmetic::Float];
    for arithmetic in arithmetics {
        let pass = training(1).arithmetic(arithmetic);
        let context = pass.context(1);
        let base = arithmetic.enter(base.clone());
        let gradients = || Gradients::new(&Meter::new());
        for direction in [Direction::Add, Direction::Subtract] {
            let apart =
                arithmetic.apply(base.clone(), sub_block.forward(x.clone(), &context), direction).into_data();
            // Once where the base is somebody else's too, and once where it may be written in place.
            let shared = sub_block.forward_onto(x.clone(), base.clone(), direction, &context);
            let own = base.clone().mul_scalar(1.0);
            let (own, saved) = sub_block.forward_saving_onto(x.clone(), own, direction, &context);
            assert_eq!(shared.into_data(), apart, "{what}, {arithmetic:?}, {direction:?}, shared");
            assert_eq!(own.into_data(), apart, "{what}, {arithmetic:?}, {direction:?}, own");

            let again = sub_block.forward_saving(x.clone(), &context).1;
            let apart = base.clone() + sub_block.vjp(again, dy.clone(), &context, &mut gradients());
            let onto = sub_block.vjp_onto(saved, dy.clone(), base.clone(), &context, &mut gradients());
            assert_eq!(onto.into_data(), apart.into_data(), "{what}, {arithmetic:?}, gradient");
        }
        let reversed = |in_one: bool| {
            let meter = Meter::new();
            let mut gradients = Gradients::new(&meter);
            let (x, dy) = (x.clone(), dy.clone());
            let [y, dx] = [base.clone(), base.clone().mul_scalar(0.5)];
            let (stream, dx) = if in_one {
                sub_block.reverse_onto(x, y, dy, dx, &context, &mut gradients)
            } else {
                let (stream, saved) = sub_block.forward_saving_onto(x, y, Direction::Subtract, &context);
                (stream, sub_block.vjp_onto(saved, dy, dx, &context, &mut gradients))
            };
            (stream.into_data(), dx.into_data(), gradient_digest(sub_block, &gradients.into_params()))
        };
        assert_eq!(reversed(true), reversed(false), "{what}, {arithmetic:?}, reversed");
    }
}

#[test]
fn adding_at_once_gives_the_bits_of_adding_afterwards() {
    for rate in [0.0, 0.2] {
        let mut initial = Initial::new(3, &trainable());
        let attention =
            AttentionConfig::new(12, 3).with_dropout(rate).with_drop_path(rate).init(&mut initial);
        let mlp = MlpConfig::new(12, 20).with_dropout(rate).with_drop_path(rate).init(&mut initial);
        added_at_once(&scattered(attention), "attention");
        added_at_once(&scattered(mlp), "perceptron");
    }
}

/// Such a sample has no keys to look at and gets the mean, whatever the layers compute with.
#[test]
fn a_sample_whose_keys_are_all_hidden_gets_the_mean() {
    let network = user_network(&[2], &[8], transformer(0.0));
    let hidden: Vec<bool> = (0..3 * 7).map(|key| key < 7 || key % 3 == 0).collect();
    let hidden = Tensor::from_data(TensorData::new(hidden, [3, 7]), &crate::device());
    let streams = |kernels| {
        let pass = training(6).kernels(kernels).side(Side::new().with(HiddenKeys(hidden.clone())));
        network.streams(user_data(3).0, &pass).expect("streams").x1
    };
    let difference = largest_difference(&streams(KERNELS), &streams(Kernels::Burn));
    assert!(difference < ROUNDING, "{difference}");
}
