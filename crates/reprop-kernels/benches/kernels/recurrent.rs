//! One step of a recurrent cell for 64 sequences: of a character model, and of a wider one.

use divan::{Bencher, black_box};
use reprop_kernels::Workspace;
use reprop_kernels::gemm::PackedWeight;
use reprop_kernels::heap::{self, Values};
use reprop_kernels::recurrent::{GruCell, GruGrads, LstmCell, LstmGrads};

use crate::support::{blank, data, flops, weight};

const ROWS: usize = 64;
/// Inputs and width of the state.
const SIZES: [(usize, usize); 2] = [(64, 128), (256, 256)];

/// Both weights of a cell, and what goes through it.
struct Cell {
    input: PackedWeight,
    hidden: PackedWeight,
    bias: Values,
    x: Values,
    state: Values,
}

impl Cell {
    fn new(gates: usize, (inputs, width): (usize, usize), ws: &Workspace) -> Self {
        let pack = |k, n| PackedWeight::new(ws.isa(), &weight(k * n), k, n);
        Self {
            input: pack(inputs, gates * width),
            hidden: pack(width, gates * width),
            bias: weight(gates * width),
            x: data(ROWS * inputs),
            state: data(ROWS * width),
        }
    }

    fn lstm(&self) -> LstmCell<'_> {
        LstmCell { input: &self.input, hidden: &self.hidden, bias: &self.bias }
    }

    fn gru(&self) -> GruCell<'_> {
        let Self { input, hidden, bias, .. } = self;
        GruCell { input, hidden, input_bias: bias, hidden_bias: bias }
    }

    /// Operations of both products.
    fn flops(&self) -> usize {
        2 * ROWS * (self.input.inputs() + self.hidden.inputs()) * self.hidden.outputs()
    }

    /// Memory for the gradients of both weights and of two biases, which a chain adds up.
    fn sums(&self) -> [Values; 4] {
        let (columns, zeros) = (self.hidden.outputs(), heap::zeros);
        [self.input.inputs() * columns, self.hidden.inputs() * columns, columns, columns].map(zeros)
    }
}

#[divan::bench(args = SIZES)]
fn lstm_forward(bencher: Bencher, sizes: (usize, usize)) {
    let ws = Workspace::default();
    let cell = Cell::new(4, sizes, &ws);
    let [mut h, mut c] = blank([cell.state.len(); 2]);
    bencher.counter(flops(cell.flops())).bench_local(|| {
        cell.lstm().forward(black_box(&cell.x), (&cell.state, &cell.state), (&mut h, &mut c), &ws)
    });
}

#[divan::bench(args = SIZES)]
fn lstm_vjp(bencher: Bencher, sizes: (usize, usize)) {
    let ws = Workspace::default();
    let cell = Cell::new(4, sizes, &ws);
    let Cell { x, state, .. } = &cell;
    let [mut h, mut c, mut dh, mut dc] = blank([state.len(); 4]);
    let ([mut dx], [mut input, mut hidden, mut bias, _]) = (blank([x.len()]), cell.sums());
    bencher
        .counter(flops(2 * cell.flops()))
        .with_inputs(|| cell.lstm().forward(x, (state, state), (&mut h, &mut c), &ws))
        .bench_local_values(|saved| {
            let grads = LstmGrads {
                x: &mut dx,
                h: &mut dh,
                c: &mut dc,
                input: &mut input,
                hidden: &mut hidden,
                bias: &mut bias,
                accumulate: true,
            };
            cell.lstm().vjp(x, (state, state), saved, (state, state), grads, &ws);
        });
}

#[divan::bench(args = SIZES)]
fn gru_forward(bencher: Bencher, sizes: (usize, usize)) {
    let ws = Workspace::default();
    let cell = Cell::new(3, sizes, &ws);
    let [mut h] = blank([cell.state.len()]);
    bencher
        .counter(flops(cell.flops()))
        .bench_local(|| cell.gru().forward(black_box(&cell.x), &cell.state, &mut h, &ws));
}

#[divan::bench(args = SIZES)]
fn gru_vjp(bencher: Bencher, sizes: (usize, usize)) {
    let ws = Workspace::default();
    let cell = Cell::new(3, sizes, &ws);
    let Cell { x, state, .. } = &cell;
    let [mut h, mut dh] = blank([state.len(); 2]);
    let ([mut dx], [mut input, mut hidden, mut input_bias, mut hidden_bias]) =
        (blank([x.len()]), cell.sums());
    bencher
        .counter(flops(2 * cell.flops()))
        .with_inputs(|| cell.gru().forward(x, state, &mut h, &ws))
        .bench_local_values(|saved| {
            let grads = GruGrads {
                x: &mut dx,
                h: &mut dh,
                input: &mut input,
                hidden: &mut hidden,
                input_bias: &mut input_bias,
                hidden_bias: &mut hidden_bias,
                accumulate: true,
            };
            cell.gru().vjp(x, state, saved, state, grads, &ws);
        });
}
