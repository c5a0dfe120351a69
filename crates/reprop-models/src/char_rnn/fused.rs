//! The steps on fused CPU kernels, with hand-written derivatives. Weights are packed once a pass.

use std::ops::Range;

use burn::module::Param;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, TensorData};
use reprop::chain::Recurrence;
use reprop_kernels::cross_entropy::cross_entropy;
use reprop_kernels::gemm::{Mat, PackedWeight, Product, gemm};
use reprop_kernels::recurrent::{GruCell, GruGrads, GruSaved, LstmCell, LstmGrads, LstmSaved};
use reprop_kernels::{Buffer, Workspace, embedding, linear};

use super::{CellKind, CharRnn, CharRnnConfig, Sequences};

/// Loss, symbols told rightly, and all gradients in the order of [`Places`].
pub(super) type CharSum = (f64, u64, Vec<f32>);

struct PackedCell {
    input: PackedWeight,
    hidden: PackedWeight,
    bias: Vec<f32>,
    hidden_bias: Vec<f32>,
}

/// Where the gradients of a cell are.
#[derive(Clone, Debug)]
struct CellPlaces {
    input: Range<usize>,
    hidden: Range<usize>,
    bias: Range<usize>,
    hidden_bias: Range<usize>,
}

/// Where the gradients of all parameters are: embedding, cells, head.
#[derive(Clone, Debug)]
struct Places {
    embedding: Range<usize>,
    cells: Vec<CellPlaces>,
    head_weight: Range<usize>,
    head_bias: Range<usize>,
}

enum CellSaved {
    Lstm(LstmSaved),
    Gru(GruSaved),
}

/// What reversing a step needs.
pub struct CharTape {
    state: Vec<f32>,
    /// The input of each cell, and what it saved.
    cells: Vec<(Buffer, CellSaved)>,
    /// The output of the top cell.
    top: Buffer,
    dlogits: Buffer,
    loss: f32,
    hits: u64,
}

/// The chain of a text's symbols.
pub(super) struct FusedSteps<'s> {
    config: CharRnnConfig,
    sequences: &'s Sequences,
    workspace: Workspace,
    table: Vec<f32>,
    cells: Vec<PackedCell>,
    head: PackedWeight,
    head_bias: Vec<f32>,
    places: Places,
}

fn values<const D: usize>(param: &Param<Tensor<D>>) -> Vec<f32> {
    param.val().inner().into_data().try_into_vec().expect("parameters are of f32")
}

impl<'s> FusedSteps<'s> {
    pub fn new(network: &CharRnn, sequences: &'s Sequences) -> Self {
        let config = network.config();
        let workspace = Workspace::default();
        let pack = |param: &Param<Tensor<2>>| {
            let [inputs, outputs] = param.dims();
            PackedWeight::new(workspace.isa(), &values(param), inputs, outputs)
        };
        let cells = network.cells.iter().map(|cell| PackedCell {
            input: pack(&cell.input),
            hidden: pack(&cell.hidden),
            bias: values(&cell.bias),
            hidden_bias: cell.hidden_bias.as_ref().map(values).unwrap_or_default(),
        });
        Self {
            config,
            sequences,
            table: values(&network.embedding),
            cells: cells.collect(),
            head: pack(&network.head_weight),
            head_bias: values(&network.head_bias),
            places: Places::new(&config),
            workspace,
        }
    }

    /// Floats of one vector of state.
    fn vector(&self) -> usize {
        self.sequences.batch() * self.config.width
    }

    pub fn start(&self) -> Vec<f32> {
        vec![0.0; self.config.depth * self.config.cell.vectors() * self.vector()]
    }

    pub fn sum(&self) -> CharSum {
        (0.0, 0, vec![0.0; self.places.head_bias.end])
    }

    /// One step through the cells: the next state, and each cell's input and what it saved.
    fn through_cells(&self, step: usize, state: &[f32]) -> (Vec<f32>, Vec<(Buffer, CellSaved)>) {
        let (ws, vector) = (&self.workspace, self.vector());
        let tokens = self.sequences.inputs(step);
        let mut x = ws.take(tokens.len() * self.config.embedding);
        embedding::forward(&self.table, self.config.embedding, tokens, &mut x);
        let mut next = vec![0.0; state.len()];
        let own = self.config.cell.vectors() * vector;
        let mut saved = Vec::with_capacity(self.cells.len());
        for ((cell, state), next) in
            self.cells.iter().zip(state.chunks_exact(own)).zip(next.chunks_exact_mut(own))
        {
            let kept = match self.config.cell {
                CellKind::Lstm => {
                    let (h, c) = next.split_at_mut(vector);
                    CellSaved::Lstm(cell.lstm().forward(&x, state.split_at(vector), (h, c), ws))
                }
                CellKind::Gru => CellSaved::Gru(cell.gru().forward(&x, state, next, ws)),
            };
            let above = Buffer::copy_of(ws, &next[..vector]);
            saved.push((std::mem::replace(&mut x, above), kept));
        }
        (next, saved)
    }

    /// Logits of the top cell's output; their loss, gradient and hits.
    fn tell(&self, step: usize, top: &[f32]) -> (Buffer, f32, u64) {
        let (ws, batch, symbols) = (&self.workspace, self.sequences.batch(), self.config.symbols);
        let targets = self.sequences.targets(step);
        let (mut logits, mut dlogits) = (ws.take(batch * symbols), ws.take(batch * symbols));
        linear::forward(ws, &self.head.forward, Some(&self.head_bias), top, &mut logits, batch);
        let loss = cross_entropy(&logits, targets, symbols, 0.0, &mut dlogits, ws);
        let right = |(row, &target): (&[f32], &u32)| row.iter().all(|&logit| logit <= row[target as usize]);
        let hits = logits.chunks_exact(symbols).zip(targets).filter(|&pair| right(pair)).count();
        (dlogits, loss, hits as u64)
    }

    /// Where the top cell's output is in a state.
    fn top<'v>(&self, state: &'v [f32]) -> &'v [f32] {
        let from = (self.config.depth - 1) * self.config.cell.vectors() * self.vector();
        &state[from..from + self.vector()]
    }

    pub fn evaluate(&self) -> (f64, f64) {
        let (mut state, mut sum, mut hits) = (self.start(), 0.0, 0);
        for step in 0..self.sequences.steps() {
            state = self.through_cells(step, &state).0;
            let (_, loss, right) = self.tell(step, self.top(&state));
            sum += f64::from(loss);
            hits += right;
        }
        let steps = self.sequences.steps() as f64;
        (sum / steps, hits as f64 / (steps * self.sequences.batch() as f64))
    }

    /// The gradients as Burn's optimizers take them.
    pub fn gradients(self, network: &CharRnn, sums: &[f32]) -> GradientsParams {
        let mut gradients = GradientsParams::new();
        let Places { embedding, cells, head_weight, head_bias } = self.places;
        register(&mut gradients, &network.embedding, &sums[embedding]);
        for (cell, places) in network.cells.iter().zip(cells) {
            register(&mut gradients, &cell.input, &sums[places.input]);
            register(&mut gradients, &cell.hidden, &sums[places.hidden]);
            register(&mut gradients, &cell.bias, &sums[places.bias]);
            if let Some(bias) = &cell.hidden_bias {
                register(&mut gradients, bias, &sums[places.hidden_bias]);
            }
        }
        register(&mut gradients, &network.head_weight, &sums[head_weight]);
        register(&mut gradients, &network.head_bias, &sums[head_bias]);
        gradients
    }
}

fn register<const D: usize>(gradients: &mut GradientsParams, param: &Param<Tensor<D>>, values: &[f32]) {
    if param.is_require_grad() {
        let data = TensorData::new(values.to_vec(), param.dims());
        gradients.register(param.id, Tensor::<D>::from_data(data, &Device::flex()));
    }
}

impl PackedCell {
    fn lstm(&self) -> LstmCell<'_> {
        LstmCell { input: &self.input, hidden: &self.hidden, bias: &self.bias }
    }

    fn gru(&self) -> GruCell<'_> {
        GruCell {
            input: &self.input,
            hidden: &self.hidden,
            input_bias: &self.bias,
            hidden_bias: &self.hidden_bias,
        }
    }
}

impl Places {
    fn new(config: &CharRnnConfig) -> Self {
        let mut end = 0;
        let mut next = |length: usize| {
            end += length;
            end - length..end
        };
        let CharRnnConfig { cell, symbols, embedding, width, depth } = *config;
        let columns = cell.gates() * width;
        let hidden_bias = if cell == CellKind::Gru { columns } else { 0 };
        Self {
            embedding: next(symbols * embedding),
            cells: (0..depth)
                .map(|place| CellPlaces {
                    input: next(columns * if place == 0 { embedding } else { width }),
                    hidden: next(width * columns),
                    bias: next(columns),
                    hidden_bias: next(hidden_bias),
                })
                .collect(),
            head_weight: next(width * symbols),
            head_bias: next(symbols),
        }
    }
}

impl Recurrence for FusedSteps<'_> {
    type State = Vec<f32>;
    type Adjoint = Vec<f32>;
    type Tape = CharTape;
    type Sum = CharSum;

    fn advance(&mut self, step: usize, state: Vec<f32>) -> Vec<f32> {
        self.through_cells(step, &state).0
    }

    fn record(&mut self, step: usize, state: Vec<f32>) -> (Vec<f32>, CharTape) {
        let (next, cells) = self.through_cells(step, &state);
        let top = Buffer::copy_of(&self.workspace, self.top(&next));
        let (dlogits, loss, hits) = self.tell(step, &top);
        (next, CharTape { state, cells, top, dlogits, loss, hits })
    }

    fn seed(&mut self, last: &Vec<f32>, _: &mut CharSum) -> Vec<f32> {
        vec![0.0; last.len()]
    }

    fn reverse(&mut self, step: usize, tape: CharTape, mut adjoint: Vec<f32>, sum: &mut CharSum) -> Vec<f32> {
        let CharTape { state, cells, top, mut dlogits, loss, hits } = tape;
        let (ws, vector, batch) = (&self.workspace, self.vector(), self.sequences.batch());
        let weight = 1.0 / self.sequences.steps() as f32;
        sum.0 += f64::from(loss) / self.sequences.steps() as f64;
        sum.1 += hits;
        let sums = &mut sum.2[..];

        for d in dlogits.iter_mut() {
            *d *= weight;
        }
        let mut above = ws.take(vector);
        linear::forward(ws, &self.head.backward, None, &dlogits, &mut above, batch);
        let Places { head_weight, head_bias, .. } = &self.places;
        let [d_weight, d_bias] = disjoint(sums, [head_weight, head_bias]);
        let (a, b) =
            (Mat::new(&top, batch, self.config.width).t(), Mat::new(&dlogits, batch, self.config.symbols));
        gemm(ws, Product { a, b, c: d_weight, accumulate: true, column_sums: Some(d_bias) });

        let own = self.config.cell.vectors() * vector;
        let mut back = vec![0.0; state.len()];
        for (place, (x, saved)) in cells.into_iter().enumerate().rev() {
            let at = place * own..(place + 1) * own;
            let (state, d, out) = (&state[at.clone()], &mut adjoint[at.clone()], &mut back[at]);
            d[..vector].iter_mut().zip(&above[..]).for_each(|(d, above)| *d += above);
            let mut below = ws.take(x.len());
            let CellPlaces { input, hidden, bias, hidden_bias } = &self.places.cells[place];
            match saved {
                CellSaved::Lstm(saved) => {
                    let (h, c) = out.split_at_mut(vector);
                    let [input, hidden, bias] = disjoint(sums, [input, hidden, bias]);
                    let grads = LstmGrads { x: &mut below, h, c, input, hidden, bias, accumulate: true };
                    let cell = self.cells[place].lstm();
                    cell.vjp(&x, state.split_at(vector), saved, d.split_at(vector), grads, ws);
                }
                CellSaved::Gru(saved) => {
                    let [input, hidden, input_bias, hidden_bias] =
                        disjoint(sums, [input, hidden, bias, hidden_bias]);
                    let grads = GruGrads {
                        x: &mut below,
                        h: out,
                        input,
                        hidden,
                        input_bias,
                        hidden_bias,
                        accumulate: true,
                    };
                    self.cells[place].gru().vjp(&x, state, saved, d, grads, ws);
                }
            }
            above = below;
        }
        let table = &mut sums[self.places.embedding.clone()];
        embedding::vjp(self.config.embedding, self.sequences.inputs(step), &above, table);
        back
    }

    fn tape_bytes(&self, tape: &CharTape) -> usize {
        let saved = self.config.cell.gates() + 1;
        let inputs: usize = tape.cells.iter().map(|(x, _)| x.len()).sum();
        let cells = self.config.depth * saved * self.vector();
        (tape.state.len() + inputs + cells + tape.top.len() + tape.dlogits.len()) * size_of::<f32>()
    }
}

/// Parts of the sums, which do not overlap.
fn disjoint<'v, const N: usize>(sums: &'v mut [f32], places: [&Range<usize>; N]) -> [&'v mut [f32]; N] {
    sums.get_disjoint_mut(places.map(Clone::clone)).expect("each parameter has a place of its own")
}
