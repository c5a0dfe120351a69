//! Gradients are derivatives: against central differences of the loss, along directions in each parameter's space.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Tensor, TensorData};
use reprop::{Arithmetic, Network, Pass, Strategy, named_gradients};
use reprop_models::{RevVit, RevVitConfig};

use crate::common::{evaluation, labels, noise, scattered, trainable, training};

const BATCH: usize = 3;
/// Length of a step. The loss is near 3 and exact to about `5e-7`, so that a difference of two losses over two steps is
/// exact to `5e-7 / STEP = 1e-5`; what is left of the series after extrapolation is of the order of `STEP^4 = 6e-6`.
const STEP: f64 = 0.05;
/// Ten times the sum of both, since derivatives along a direction of length one are of magnitude one here.
const TOLERANCE: f64 = 2e-4;
/// Of the derivative itself, for directions in which the loss bends more than that.
const RELATIVE: f64 = 1e-3;

/// The network with `delta` added to its parameter number `chosen`.
fn moved(network: &RevVit, chosen: usize, delta: &[f32]) -> RevVit {
    struct Move<'d>(usize, usize, &'d [f32]);
    impl ModuleMapper for Move<'_> {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            self.0 += 1;
            if self.0 != self.1 + 1 {
                return param;
            }
            param.map(|value| {
                let delta = TensorData::new(self.2.to_vec(), value.dims());
                (value.inner() + Tensor::from_data(delta, &crate::device())).autodiff().require_grad()
            })
        }
    }
    network.clone().map(&mut Move(0, chosen, delta))
}

fn check(pass: impl Fn() -> Pass) {
    let config = RevVitConfig::new(4, 2, 8, 2, 2, 12)
        .with_channels(2)
        .with_classes(5)
        .with_dropout(0.2)
        .with_drop_path(0.2)
        .with_label_smoothing(0.1);
    let network = scattered(config.init(3, &trainable()));
    let loss = |network: &RevVit| {
        let data = (noise(4, [BATCH, 2, 4, 4]), labels(BATCH, 5));
        let pass = pass().arithmetic(Arithmetic::Float);
        network.step(data.0, data.1, pass, Strategy::Stored).expect("a step")
    };
    let gradients = gradients_in_order(&network, &loss(&network).gradients);
    assert_eq!(gradients.len(), reprop::named_parameters(&network).len());
    let mut worst: f64 = 0.0;
    for (number, (name, gradient)) in gradients.iter().enumerate() {
        for direction in directions(gradient, number as u64) {
            let expected: f64 = gradient.iter().zip(&direction).map(|(g, u)| f64::from(g * u)).sum();
            let central = |step: f64| {
                let at = |sign: f64| {
                    let delta: Vec<f32> =
                        direction.iter().map(|&u| (f64::from(u) * step * sign) as f32).collect();
                    f64::from(loss(&moved(&network, number, &delta)).loss)
                };
                (at(1.0) - at(-1.0)) / (2.0 * step)
            };
            // Richardson's extrapolation takes out the error of second order.
            let found = (4.0 * central(STEP) - central(2.0 * STEP)) / 3.0;
            let error = (found - expected).abs();
            worst = worst.max(error);
            assert!(
                error <= TOLERANCE + RELATIVE * expected.abs(),
                "{name}: {expected} computed, {found} by differences"
            );
        }
    }
    println!("largest error of a derivative along a direction: {worst:e}");
}

/// Of length one: along the gradient itself, where an error of length or sign shows, and two at random, where one of
/// direction does.
fn directions(gradient: &[f32], seed: u64) -> Vec<Vec<f32>> {
    let random = |seed| noise(seed, [gradient.len()]).into_data().try_to_vec::<f32>().expect("floats");
    [gradient.to_vec(), random(1000 + seed), random(2000 + seed)]
        .into_iter()
        .map(|direction| {
            let length = direction.iter().map(|u| u * u).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
            direction.into_iter().map(|u| u / length).collect()
        })
        .collect()
}

/// Names and values of all gradients, in the order in which a mapper meets the parameters.
fn gradients_in_order(network: &RevVit, gradients: &GradientsParams) -> Vec<(String, Vec<f32>)> {
    struct Collect<'g>(&'g GradientsParams, Vec<Vec<f32>>);
    impl ModuleVisitor for Collect<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let gradient = self.0.get::<D>(param.id).expect("every parameter has a gradient");
            self.1.push(gradient.into_data().try_to_vec::<f32>().expect("floats"));
        }
    }
    let mut collect = Collect(gradients, Vec::new());
    network.visit(&mut collect);
    // Names come sorted: found again by their values, for messages only.
    let named = named_gradients(network, gradients);
    let name = |values: &[f32]| {
        let same = named.iter().find(|(_, data)| data.iter::<f32>().eq(values.iter().copied()));
        same.map_or_else(String::new, |(name, _)| name.clone())
    };
    collect.1.into_iter().map(|values| (name(&values), values)).collect()
}

#[test]
fn gradients_equal_central_differences_in_evaluation() {
    check(evaluation);
}

#[test]
fn gradients_equal_central_differences_with_masks() {
    check(|| training(12).step(3));
}
