//! Stacks of ordinary blocks, each with its own size, time and parameters, under a byte budget.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::gelu;
use burn::tensor::{Device, Tensor};
use reprop::chain::{Chain, Checkpointed, ModuleSteps, Recurrence, State};
use reprop::gradient_digest;
use reprop_schedule::{Budgeted, Channels, Offloaded, Step, Stored, Transfer};
use reprop_store::MemoryStore;

/// Dense layers `y = tanh(W x)` of these widths, one weight each.
struct Layers {
    widths: Vec<usize>,
}

impl Layers {
    fn new() -> Self {
        Self { widths: vec![6, 40, 12, 80, 24, 24, 64, 8, 90, 16, 30, 4] }
    }

    fn steps(&self) -> usize {
        self.widths.len() - 1
    }

    fn weight(&self, step: usize, i: usize, j: usize) -> f32 {
        ((step * 31 + i * 7 + j * 3) as f32).sin() / (self.widths[step] as f32).sqrt()
    }

    /// As a planner sees it: wide layers take longer and save more.
    fn chain(&self) -> reprop_schedule::Chain {
        let step = |step: usize| {
            let (inputs, outputs) = (self.widths[step], self.widths[step + 1]);
            let work = (inputs * outputs) as f64;
            Step {
                forward: work,
                backward: 3.0 * work,
                state_bytes: vec![0f32; inputs].bytes() as u64,
                tape_bytes: (vec![0f32; inputs].bytes() + vec![0f32; outputs].bytes()) as u64,
                transfer: Transfer { write: 20.0 * inputs as f64, read: 20.0 * inputs as f64 },
            }
        };
        reprop_schedule::Chain::new((0..self.steps()).map(step).collect()).unwrap()
    }
}

impl Recurrence for Layers {
    type State = Vec<f32>;
    type Adjoint = Vec<f32>;
    type Tape = (Vec<f32>, Vec<f32>);
    /// One gradient a weight.
    type Sum = Vec<f32>;

    fn record(&mut self, step: usize, x: Vec<f32>) -> (Vec<f32>, Self::Tape) {
        let row = |i: usize| (0..x.len()).map(|j| self.weight(step, i, j) * x[j]).sum::<f32>().tanh();
        let y: Vec<f32> = (0..self.widths[step + 1]).map(row).collect();
        (y.clone(), (x, y))
    }

    fn seed(&mut self, last: &Vec<f32>, _: &mut Vec<f32>) -> Vec<f32> {
        vec![1.0; last.len()]
    }

    fn reverse(&mut self, step: usize, (x, y): Self::Tape, dy: Vec<f32>, sum: &mut Vec<f32>) -> Vec<f32> {
        let mut dx = vec![0.0; x.len()];
        for i in 0..y.len() {
            let d = dy[i] * (1.0 - y[i] * y[i]);
            for j in 0..x.len() {
                sum.push(d * x[j]);
                dx[j] += d * self.weight(step, i, j);
            }
        }
        dx
    }

    fn tape_bytes(&self, (x, y): &Self::Tape) -> usize {
        x.bytes() + y.bytes()
    }
}

fn run(how: Checkpointed<'_>) -> (Vec<u32>, u64) {
    let done = Chain::new(Layers::new()).run(vec![0.3; 6], vec![], how).unwrap();
    let bits = done.sum.iter().chain(&done.adjoint).map(|value| value.to_bits()).collect();
    (bits, done.report.peak_bytes)
}

#[test]
fn a_stack_of_unequal_layers_keeps_to_its_budget_and_to_the_bits() {
    let layers = Layers::new();
    let (chain, steps) = (layers.chain(), layers.steps());
    let (expected, most) = run(Checkpointed::schedule(Stored::tapes(steps).unwrap()));
    let least = chain.least_bytes();
    assert!(most > 3 * least, "{most} {least}");
    let mut evaluated = 0;
    for part in 0..8 {
        let budget = least + (most - least) * part / 7;
        // Sizes are rounded up to parts of the budget, so the very least may be refused, with the number in the message.
        if let Ok(plan) = Budgeted::new(&chain, budget) {
            let (bits, peak) = run(Checkpointed::schedule(plan));
            assert_eq!(bits, expected, "{budget} bytes");
            assert!(peak <= budget, "{peak} of {budget} bytes");
            evaluated += 1;
        }
        if let Ok(plan) = Offloaded::new(&chain, budget, Channels::Shared) {
            let store = MemoryStore::unbounded();
            let (bits, peak) = run(Checkpointed::schedule(plan).store(&store));
            assert_eq!(bits, expected, "{budget} bytes, with a disk");
            assert!(peak <= budget, "{peak} of {budget} bytes, with a disk");
            evaluated += 1;
        }
    }
    assert!(evaluated >= 12, "{evaluated}");
}

/// Ordinary residual blocks, not reversible: each with parameters of its own.
#[derive(Module, Debug)]
struct Blocks {
    blocks: Vec<Linear>,
}

#[test]
fn a_stack_of_burn_blocks_has_the_same_bits_under_a_budget() {
    let device = Device::flex();
    device.seed(9);
    let on = device.clone().autodiff();
    let depth = 9;
    let blocks =
        Blocks { blocks: (0..depth).map(|_| LinearConfig::new(8, 8).init(&on)).collect() }.materialize();
    let run = |how: Checkpointed<'_>| {
        let steps = ModuleSteps::new(&blocks, |stack: &Blocks, step, x: Tensor<2>| {
            let y = x.clone() + gelu(stack.blocks[step].forward(x));
            let loss = (step + 1 == depth).then(|| y.clone().square().mean());
            (y, loss)
        });
        let sum = steps.sum();
        let done = Chain::new(steps).run(Tensor::ones([3, 8], &device), sum, how).unwrap();
        gradient_digest(&blocks, &done.sum.into_gradients(&blocks))
    };
    let stored = run(Checkpointed::stored(depth).unwrap());
    let step =
        Step { forward: 1.0, backward: 3.0, state_bytes: 10, tape_bytes: 30, transfer: Transfer::default() };
    let chain = reprop_schedule::Chain::new(vec![step; depth]).unwrap();
    for budget in [50, 90, 150] {
        assert_eq!(run(Checkpointed::schedule(Budgeted::new(&chain, budget).unwrap())), stored, "{budget}");
    }
}
