//! What cannot be honoured is an error with the numbers in it.

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::Tensor;
use reprop::{Arithmetic, Costs, Error, Mode, Network, Pass, Strategy};
use reprop_models::{RevVit, RevVitConfig};

use crate::common::{
    evaluation, labels, mixed, noise, scattered, trainable, training, user_data, user_network,
};

const STRATEGIES: [Strategy; 4] =
    [Strategy::Stored, Strategy::Reprop, Strategy::PaReprop, Strategy::Auto { budget: u64::MAX }];

fn network() -> RevVit {
    scattered(RevVitConfig { depth: 3, ..RevVitConfig::digits() }.init(3, &trainable()))
}

/// The error of a step under every strategy, which must be the same.
fn refused(network: &RevVit, images: &Tensor<4>, classes: usize, pass: impl Fn() -> Pass) -> Error {
    let errors: Vec<Error> = STRATEGIES
        .iter()
        .map(|&strategy| {
            let step = network.step(images.clone(), labels(classes, 10), pass(), strategy);
            step.err().expect("the step is refused")
        })
        .collect();
    // Values that are not numbers are not equal to themselves, so the words are compared.
    assert!(errors.iter().all(|error| error.to_string() == errors[0].to_string()), "{errors:?}");
    errors[0].clone()
}

/// The network with one value written into a weight of its second perceptron.
fn spoiled(value: f32) -> RevVit {
    let mut network = network();
    let weight = &mut network.blocks[1].mlp.contract.weight;
    *weight = weight.clone().map(|weight| {
        let spoil = Tensor::full([1, 1], value, &crate::device());
        weight.inner().slice_assign([3..4, 5..6], spoil).autodiff().require_grad()
    });
    network
}

#[test]
fn range_overflow_is_an_error_with_the_magnitude_reached() {
    let images = noise(1, [2, 1, 8, 8]);
    for value in [1e6, -1e6] {
        let Error::RangeOverflow { reached, limit, fraction_bits } =
            refused(&spoiled(value), &images, 2, || training(1))
        else {
            panic!("a range overflow");
        };
        assert!(reached >= limit && reached.is_finite(), "{reached}");
        assert_eq!((limit, fraction_bits), (1024.0, 14));
    }
}

#[test]
fn infinities_and_values_that_are_not_numbers_in_the_streams_are_errors() {
    let images = noise(1, [2, 1, 8, 8]);
    for value in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
        let error = refused(&spoiled(value), &images, 2, || training(1));
        let Error::RangeOverflow { reached, .. } = error else { panic!("{error}") };
        assert!(!reached.is_finite(), "{reached}");
        let predicted = spoiled(value).predict(images.clone(), &evaluation());
        assert!(matches!(predicted, Err(Error::RangeOverflow { .. })));
    }
}

/// A stream that leaves its range in one block and comes back in the next was still not exact.
#[test]
fn an_overflow_that_comes_back_is_still_reported() {
    let images = noise(1, [2, 1, 8, 8]);
    let arithmetic = Arithmetic::Exact { fraction_bits: 14 };
    let [out, back] = [3000.0, -3000.0].map(|value| Tensor::<1>::full([64], value, &crate::device()));
    let mut network = network();
    for (block, value) in [(0, out), (1, back)] {
        let bias = network.blocks[block].mlp.contract.bias.take().expect("a bias");
        network.blocks[block].mlp.contract.bias = Some(bias.map(|_| value.autodiff().require_grad()));
    }
    let streams =
        network.streams(images.clone(), &evaluation().arithmetic(Arithmetic::Float)).expect("floats");
    let largest: f32 = streams.x2.abs().max().into_scalar();
    assert!(largest < 1024.0, "the streams end in range: {largest}");
    let error = refused(&network, &images, 2, || training(1).arithmetic(arithmetic));
    assert!(matches!(error, Error::RangeOverflow { reached, .. } if reached > 1024.0), "{error}");
}

#[test]
fn a_loss_that_is_not_finite_is_an_error_with_its_step() {
    struct Fill;
    impl ModuleMapper for Fill {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            param.map(|value| value.inner().mul_scalar(f32::NAN).autodiff().require_grad())
        }
    }
    let mut network = network();
    network.head = network.head.clone().map(&mut Fill);
    let error = refused(&network, &noise(1, [2, 1, 8, 8]), 2, || training(1).step(17));
    assert!(matches!(error, Error::LossNotFinite { step: 17, loss } if loss.is_nan()), "{error}");
    assert!(error.to_string().contains("17"));
}

#[test]
fn wrong_shapes_and_empty_batches_are_errors_with_both_shapes() {
    let network = network();
    let pass = || training(1);
    for shape in [[2, 1, 8, 7], [2, 3, 8, 8], [2, 1, 9, 9], [0, 1, 8, 8]] {
        let images = Tensor::zeros(shape, &crate::device());
        let error = refused(&network, &images, shape[0], pass);
        assert!(matches!(error, Error::Shape { what: "images", .. }), "{error}");
        assert!(error.to_string().contains(&format!("{shape:?}")), "{error}");
        assert!(network.predict(images, &evaluation()).is_err(), "{shape:?}");
    }
    let error = refused(&network, &noise(1, [2, 1, 8, 8]), 3, pass);
    assert_eq!(error.to_string(), "labels: expected [2], found [3]");
}

#[test]
fn a_label_that_is_no_class_is_an_error() {
    let network = network();
    for label in [10, -1] {
        let labels = Tensor::from_ints([1, label], &crate::device());
        let step = network.step(noise(1, [2, 1, 8, 8]), labels, training(1), Strategy::PaReprop);
        let error = step.err().expect("the label is refused");
        assert!(error.to_string().contains(&label.to_string()), "{error}");
    }
}

#[test]
fn nothing_to_train_is_an_error() {
    let valid = network().valid();
    let error = refused(&valid, &noise(1, [2, 1, 8, 8]), 2, || training(1));
    assert_eq!(error, Error::NothingToTrain);
}

#[test]
fn a_part_that_does_not_tell_its_bytes_is_named_by_its_place() {
    let network = user_network(&[2], &[8], mixed(0.0));
    let pass = training(1);
    let unknown = Error::BytesUnknown { place: 0 };
    assert_eq!(Costs::predicted(&network, 2, &pass), Err(unknown.clone()));
    assert_eq!(network.largest_batch(&pass, 1 << 30), Err(unknown.clone()));
    let (input, target) = user_data(2);
    assert_eq!(network.measure(input.clone(), target.clone(), &pass, 1 << 30), Err(unknown));
    // Without bytes there is no plan, and auto takes the leanest way.
    let step = network.step(input, target, pass, Strategy::Auto { budget: 1 });
    assert!(step.is_ok());
}

#[test]
fn a_budget_below_the_leanest_mode_is_an_error_with_both_numbers() {
    let network = network();
    let pass = training(1);
    let strategy = Strategy::Auto { budget: 1000 };
    let error = network.predicted(2, &pass, strategy).expect_err("1000 bytes are too few");
    let leanest = Strategy::Planned(Mode::default());
    let least = network.predicted(2, &pass, leanest).expect("no budget").expect("told").activation_peak;
    assert_eq!(error, Error::BudgetTooSmall { budget: 1000, least });
    let step = network.step(noise(1, [2, 1, 8, 8]), labels(2, 10), pass, strategy);
    assert_eq!(step.err(), Some(error));
}
