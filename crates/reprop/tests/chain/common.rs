//! A small nonlinear recurrence in `f32`, with parameters, inputs and a loss at every step.

use reprop::chain::{Async, Chain, Checkpointed, Done, Measured, Move, Planner, Recurrence, Result, View};

pub const WIDTH: usize = 5;

/// `x' = tanh(W x + u_i)`, loss `Σ_i c_i · x_{i+1}`; gradients of the shared `W` are summed over the steps.
pub struct Network {
    weight: Vec<f32>,
    /// Steps that were run, however.
    pub evaluations: u64,
    /// Where the chain ends, if a plan asks.
    pub steps: usize,
    pub asked: Vec<usize>,
}

/// Loss and the gradient of the weight.
pub type Sum = (f32, Vec<f32>);
/// Everything that a pass gives, as bits.
pub type Bits = (Vec<u32>, Vec<u32>, u32, Vec<u32>);

fn noise(index: usize) -> f32 {
    let hash = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    hash as f32 / (1 << 23) as f32 - 1.0
}

impl Network {
    pub fn new(steps: usize) -> Self {
        let weight = (0..WIDTH * WIDTH).map(|index| 0.7 * noise(index)).collect();
        Self { weight, evaluations: 0, steps, asked: vec![] }
    }

    pub fn start() -> Vec<f32> {
        (0..WIDTH).map(|index| noise(1000 + index)).collect()
    }

    fn next(&self, step: usize, x: &[f32]) -> Vec<f32> {
        let row = |i: usize| {
            let product: f32 = (0..WIDTH).map(|j| self.weight[i * WIDTH + j] * x[j]).sum();
            (product + noise(10_000 + step * WIDTH + i)).tanh()
        };
        (0..WIDTH).map(row).collect()
    }
}

fn coefficient(step: usize, i: usize) -> f32 {
    noise(500_000 + step * WIDTH + i)
}

impl Recurrence for Network {
    type State = Vec<f32>;
    type Adjoint = Vec<f32>;
    type Tape = (Vec<f32>, Vec<f32>);
    type Sum = Sum;

    fn advance(&mut self, step: usize, x: Vec<f32>) -> Vec<f32> {
        self.evaluations += 1;
        self.next(step, &x)
    }

    fn record(&mut self, step: usize, x: Vec<f32>) -> (Vec<f32>, Self::Tape) {
        self.evaluations += 1;
        let y = self.next(step, &x);
        (y.clone(), (x, y))
    }

    fn seed(&mut self, last: &Vec<f32>, sum: &mut Sum) -> Vec<f32> {
        sum.0 += last[0];
        (0..WIDTH).map(|i| if i == 0 { 1.0 } else { 0.0 }).collect()
    }

    fn reverse(&mut self, step: usize, (x, y): Self::Tape, adjoint: Vec<f32>, sum: &mut Sum) -> Vec<f32> {
        let mut back = vec![0.0; WIDTH];
        for i in 0..WIDTH {
            sum.0 += coefficient(step, i) * y[i];
            let d = (adjoint[i] + coefficient(step, i)) * (1.0 - y[i] * y[i]);
            for j in 0..WIDTH {
                sum.1[i * WIDTH + j] += d * x[j];
                back[j] += d * self.weight[i * WIDTH + j];
            }
        }
        back
    }

    fn has_step(&mut self, step: usize) -> bool {
        self.asked.push(step);
        step < self.steps
    }
}

pub fn run(network: &mut Network, how: Checkpointed<'_>) -> Result<Done<Network>> {
    let Done { last, adjoint, sum, report } =
        Chain::new(network).run(Network::start(), (0.0, vec![0.0; WIDTH * WIDTH]), how)?;
    Ok(Done { last, adjoint, sum, report })
}

pub fn bits(done: &Done<Network>) -> Bits {
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect();
    (bits(&done.last), bits(&done.adjoint), done.sum.0.to_bits(), bits(&done.sum.1))
}

/// What storing everything gives.
pub fn stored(steps: usize) -> Bits {
    bits(&run(&mut Network::new(steps), Checkpointed::stored(steps).unwrap()).unwrap())
}

/// The loss as a naive loop in `f64`, with one weight and one start value changed by so much.
pub fn loss_in_f64(steps: usize, weight: (usize, f64), start: (usize, f64)) -> f64 {
    let mut w: Vec<f64> = Network::new(0).weight.iter().map(|&w| f64::from(w)).collect();
    let mut x: Vec<f64> = Network::start().iter().map(|&x| f64::from(x)).collect();
    w[weight.0] += weight.1;
    x[start.0] += start.1;
    let mut loss = 0.0;
    for step in 0..steps {
        let row = |i: usize| {
            let product: f64 = (0..WIDTH).map(|j| w[i * WIDTH + j] * x[j]).sum();
            (product + f64::from(noise(10_000 + step * WIDTH + i))).tanh()
        };
        x = (0..WIDTH).map(row).collect();
        loss += (0..WIDTH).map(|i| f64::from(coefficient(step, i)) * x[i]).sum::<f64>();
    }
    loss + x[0]
}

/// A plan that sees times of the test's own, so that nothing depends on the machine.
pub struct Timed {
    pub plan: Async,
    pub measured: Measured,
}

impl Planner for Timed {
    fn begin(&mut self) {
        self.plan.begin();
    }

    fn next(&mut self, view: &mut View<'_>) -> Result<Option<Move>> {
        let View { written, failed, .. } = *view;
        self.plan.next(&mut View { measured: self.measured, written, failed, more: view.more })
    }

    fn survives_full(&self) -> bool {
        true
    }

    fn resume(&mut self, front: Option<usize>, plan: &[u8], snapshots: &[usize]) -> bool {
        self.plan.resume(front, plan, snapshots)
    }
}

/// Times of a forward step and of a write or read.
pub fn times(forward: f64, write: f64) -> Measured {
    Measured {
        forward: Some(forward),
        backward: Some(2.0 * forward),
        write: Some(write),
        read: Some(write),
        ..Measured::default()
    }
}
