//! The optimizers beside Burn's own, and their records.

use burn::module::{Module, Param};
use burn::optim::{self, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Tensor, TensorData};
use reprop::optim::{AdamWConfig, SgdConfig};

/// Two orders of rounding, over [`STEPS`] steps of size [`RATE`].
const TOLERANCE: f32 = 2e-6;
const STEPS: usize = 7;
const RATE: f64 = 0.01;

#[derive(Module, Debug)]
struct Weights {
    matrix: Param<Tensor<2>>,
    vector: Param<Tensor<1>>,
}

fn wave(len: usize, phase: f32) -> Vec<f32> {
    (0..len).map(|i| (i as f32 * 0.37 + phase).sin()).collect()
}

fn tensor<const D: usize>(shape: [usize; D], phase: f32, device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(wave(shape.iter().product(), phase), shape), device)
}

fn weights() -> Weights {
    let device = Device::flex().autodiff();
    Weights {
        matrix: Param::from_tensor(tensor([37, 501], 0.0, &device)),
        vector: Param::from_tensor(tensor([13], 1.0, &device)),
    }
}

fn step(optimizer: &mut ModuleOptimizer, weights: Weights, step: usize) -> Weights {
    let device = Device::flex();
    let mut gradients = GradientsParams::new();
    gradients.register(weights.matrix.id, tensor([37, 501], 2.0 + step as f32, &device));
    gradients.register(weights.vector.id, tensor([13], 3.0 + step as f32, &device));
    optimizer.step(RATE, weights, gradients)
}

fn values(weights: &Weights) -> Vec<f32> {
    let matrix = weights.matrix.val().inner().into_data().try_to_vec::<f32>().expect("floats");
    let vector = weights.vector.val().inner().into_data().try_to_vec::<f32>().expect("floats");
    [matrix, vector].concat()
}

fn trained(mut optimizer: ModuleOptimizer) -> Vec<f32> {
    values(&(0..STEPS).fold(weights(), |weights, index| step(&mut optimizer, weights, index)))
}

fn assert_close(ours: &[f32], theirs: &[f32]) {
    let worst = ours.iter().zip(theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst <= TOLERANCE, "{worst} apart");
    let moved = ours
        .iter()
        .zip(values(&weights()))
        .filter(|(after, before)| after.to_bits() != before.to_bits())
        .count();
    assert!(100 * moved > 99 * ours.len(), "{moved} of {} moved", ours.len());
}

#[test]
fn adamw_takes_the_steps_of_burns() {
    let burn = optim::AdamWConfig::new().with_epsilon(1e-8).with_weight_decay(0.1).init();
    assert_close(&trained(AdamWConfig::new().with_weight_decay(0.1).init()), &trained(burn));
}

#[test]
fn sgd_takes_the_steps_of_its_equations() {
    let theirs = {
        let (mut p, mut b) = (values(&weights()), vec![0.0; 37 * 501 + 13]);
        for index in 0..STEPS {
            let gradient = [wave(37 * 501, 2.0 + index as f32), wave(13, 3.0 + index as f32)].concat();
            for ((p, b), g) in p.iter_mut().zip(&mut b).zip(gradient) {
                let g = g + 0.1 * *p;
                *b = 0.9 * *b + g;
                *p -= RATE as f32 * (g + 0.9 * *b);
            }
        }
        p
    };
    assert_close(&trained(SgdConfig::new().with_weight_decay(0.1).init()), &theirs);
}

#[test]
fn a_record_goes_on_with_the_same_bits() {
    for optimizer in [AdamWConfig::new().init(), SgdConfig::new().init()] {
        let mut whole = optimizer.clone();
        let mut first = step(&mut whole, weights(), 0);
        let record = whole.to_record();
        let mut resumed = optimizer.load_record(record);
        let mut second = first.clone();
        for index in 1..4 {
            first = step(&mut whole, first, index);
            second = step(&mut resumed, second, index);
        }
        assert_eq!(values(&first), values(&second));
    }
}
