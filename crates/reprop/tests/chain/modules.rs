//! Chains of Burn modules.

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::activation::tanh;
use burn::tensor::{Device, Tensor, TensorData};
use reprop::chain::{Async, Chain, Checkpointed, ModuleSteps, State};
use reprop::layers::Initial;
use reprop::{gradient_digest, named_gradients};
use reprop_schedule::{Mixed, Revolve};
use reprop_store::MemoryStore;

const STEPS: usize = 30;

/// Two states, one of which forgets.
#[derive(Module, Debug)]
struct Cell {
    inner: Linear,
    outer: Linear,
}

type Pair = (Tensor<2>, Tensor<2>);

fn cell(device: &Device) -> Cell {
    let mut initial = Initial::new(3, device).with_deviation(0.5);
    Cell { inner: initial.linear(4, 4), outer: initial.linear(4, 4) }.materialize()
}

fn step(cell: &Cell, number: usize, (h, c): Pair) -> (Pair, Option<Tensor<1>>) {
    let h = tanh(cell.inner.forward(h) + c.clone());
    let c = c.mul_scalar(0.9) + cell.outer.forward(h.clone()).mul_scalar(0.1);
    let loss = (h.clone() - c.clone()).square().mean().mul_scalar(1.0 + number as f64);
    ((h, c), (number % 3 == 2).then_some(loss))
}

fn start(device: &Device) -> Pair {
    let values =
        |from: usize| TensorData::new((from..from + 8).map(|i| (i as f32).sin()).collect::<Vec<_>>(), [2, 4]);
    (Tensor::from_data(values(0), device), Tensor::from_data(values(8), device))
}

fn run(how: Checkpointed<'_>) -> (String, f64, Vec<u8>) {
    let device = crate::device();
    let cell = cell(&device.clone().autodiff());
    let steps = ModuleSteps::new(&cell, step);
    let sum = steps.sum();
    let done = Chain::new(steps).run(start(&device), sum, how).unwrap();
    let mut adjoint = vec![];
    done.adjoint.write(&mut adjoint);
    (gradient_digest(&cell, &done.sum.clone().into_gradients(&cell)), done.sum.loss, adjoint)
}

#[test]
fn a_burn_user_gets_the_same_bits_under_every_plan() {
    let stored = run(Checkpointed::stored(STEPS).unwrap());
    for slots in [1, 2, 5] {
        assert_eq!(run(Checkpointed::schedule(Revolve::new(STEPS, slots).unwrap())), stored);
        assert_eq!(run(Checkpointed::schedule(Mixed::new(STEPS, slots).unwrap())), stored);
        let store = MemoryStore::unbounded();
        assert_eq!(run(Checkpointed::planner(Async::new(slots).steps(STEPS)).store(&store)), stored);
    }
}

/// One graph over the whole chain, by Burn alone, adds the gradients in another order: equal up to rounding of some
/// hundred operations in `f32`.
#[test]
fn gradients_are_those_of_one_graph_over_the_whole_chain() {
    const TOLERANCE: f64 = 1e-4;
    let device = crate::device();
    let cell = cell(&device.clone().autodiff());
    let (mut state, mut loss) = (start(&device.clone().autodiff()), None);
    for number in 0..STEPS {
        let (next, own) = step(&cell, number, state);
        state = next;
        loss = match (loss, own) {
            (Some(sum), Some(own)) => Some(sum + own),
            (sum, own) => sum.or(own),
        };
    }
    let loss: Tensor<1> = loss.unwrap();
    let whole = burn::optim::GradientsParams::from_grads(loss.clone().backward(), &cell);
    let steps = ModuleSteps::new(&cell, step);
    let sum = steps.sum();
    let how = Checkpointed::schedule(Revolve::new(STEPS, 3).unwrap());
    let done = Chain::new(steps).run(start(&device), sum, how).unwrap();
    let (wanted_loss, found_loss) = (loss.into_scalar::<f64>(), done.sum.loss);
    assert!((wanted_loss - found_loss).abs() < TOLERANCE * wanted_loss, "{wanted_loss} {found_loss}");
    let found = done.sum.into_gradients(&cell);
    let (found, wanted) = (named_gradients(&cell, &found), named_gradients(&cell, &whole));
    assert_eq!((found.len(), wanted.len()), (4, 4));
    for ((name, found), (_, wanted)) in found.iter().zip(&wanted) {
        let most = wanted.iter::<f64>().fold(0.0, |most: f64, value| most.max(value.abs()));
        for (found, wanted) in found.iter::<f64>().zip(wanted.iter::<f64>()) {
            assert!((found - wanted).abs() < TOLERANCE * most, "{name}: {found} against {wanted}");
        }
    }
}
