//! The steps in Burn's operations, differentiated by autodiff: for any device.

use burn::tensor::activation::{log_softmax, sigmoid, tanh};
use burn::tensor::{Device, Int, Tensor, TensorData};
use reprop::chain::{Chain, ChainReport, Checkpointed, ModuleSteps, ModuleSum, Result};

use super::{CharRnn, RecurrentCell, Sequences};

/// What a pass on Burn's operations gave.
pub(super) struct BurnDone {
    pub sum: (ModuleSum, u64),
    pub report: ChainReport,
}

impl RecurrentCell {
    /// One step of an LSTM: `[h, c]` and `x` give `[h', c']`.
    fn lstm(&self, x: Tensor<2>, h: Tensor<2>, c: Tensor<2>) -> (Tensor<2>, Tensor<2>) {
        let gates = x.matmul(self.input.val()) + self.bias.val().unsqueeze() + h.matmul(self.hidden.val());
        let [i, f, g, o] = parts(&gates);
        let c = sigmoid(f) * c + sigmoid(i) * tanh(g);
        (sigmoid(o) * tanh(c.clone()), c)
    }

    /// One step of a GRU.
    fn gru(&self, x: Tensor<2>, h: Tensor<2>) -> Tensor<2> {
        let [ar, az, an] = parts(&(x.matmul(self.input.val()) + self.bias.val().unsqueeze()));
        let b = h.clone().matmul(self.hidden.val());
        let b = match &self.hidden_bias {
            Some(bias) => b + bias.val().unsqueeze(),
            None => b,
        };
        let [br, bz, bn] = parts(&b);
        let z = sigmoid(az + bz);
        let n = tanh(an + sigmoid(ar + br) * bn);
        n.clone() + z * (h - n)
    }
}

/// The gates, side by side in the columns.
fn parts<const N: usize>(gates: &Tensor<2>) -> [Tensor<2>; N] {
    let [rows, columns] = gates.dims();
    let width = columns / N;
    std::array::from_fn(|part| gates.clone().slice([0..rows, part * width..(part + 1) * width]))
}

impl CharRnn {
    /// The next state, and the mean cross-entropy of the step.
    fn burn_step(
        &self,
        inputs: &[u32],
        targets: &[u32],
        state: Vec<Tensor<2>>,
        device: &Device,
    ) -> (Vec<Tensor<2>>, Tensor<1>, Tensor<2>) {
        let symbols = |tokens: &[u32]| {
            let tokens: Vec<i32> = tokens.iter().map(|&token| token as i32).collect();
            Tensor::<1, Int>::from_data(TensorData::new(tokens, [targets.len()]), device)
        };
        let mut x = self.embedding.val().select(0, symbols(inputs));
        let mut next = Vec::with_capacity(state.len());
        let mut states = state.into_iter();
        for cell in &self.cells {
            let Some(h) = states.next() else { break };
            if self.lstm {
                let Some(c) = states.next() else { break };
                let (h, c) = cell.lstm(x, h, c);
                next.extend([h.clone(), c]);
                x = h;
            } else {
                x = cell.gru(x, h);
                next.push(x.clone());
            }
        }
        let logits = x.matmul(self.head_weight.val()) + self.head_bias.val().unsqueeze();
        let told = log_softmax(logits.clone(), 1).gather(1, symbols(targets).unsqueeze_dim(1));
        let loss = told.sum().mul_scalar(-1.0 / targets.len() as f64);
        (next, loss, logits)
    }

    /// A pass over whole sequences.
    pub(super) fn burn_run(&self, sequences: &Sequences, how: Checkpointed<'_>) -> Result<BurnDone> {
        let config = self.config();
        let device = self.embedding.val().inner().device();
        let weight = 1.0 / sequences.steps() as f64;
        let steps = ModuleSteps::new(self, |network: &CharRnn, step, state: Vec<Tensor<2>>| {
            let (inputs, targets) = (sequences.inputs(step), sequences.targets(step));
            let (next, loss, _) = network.burn_step(inputs, targets, state, &device);
            (next, Some(loss.mul_scalar(weight)))
        });
        let start = vec![
            Tensor::zeros([sequences.batch(), config.width], &device);
            config.depth * config.cell.vectors()
        ];
        let sum = steps.sum();
        let done = Chain::new(steps).run(start, sum, how)?;
        let (_, accuracy) = self.evaluate(sequences);
        let hits = accuracy * (sequences.steps() * sequences.batch()) as f64;
        Ok(BurnDone { sum: (done.sum, hits.round() as u64), report: done.report })
    }
}
