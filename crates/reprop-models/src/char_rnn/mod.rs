//! Recurrent networks that read a text symbol by symbol and tell the next one: LSTM (Hochreiter & Schmidhuber, *Long
//! short-term memory*, 1997) and GRU (Cho et al., 2014).
//!
//! ```text
//! x = embedding[symbol],  state' = cells(x, state),  logits = h' W + b,  loss = mean of cross-entropies
//! ```
//! The chain's state is what the cells hold; its steps are the symbols, and a pass goes back through all of them.

mod burn_steps;
mod fused;
mod sequences;

use burn::module::{Module, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, TensorData};
use reprop::Kernels;
use reprop::chain::{Chain, ChainReport, Checkpointed, Result};
use reprop::layers::Initial;

pub use sequences::{Sequences, TextTooShort};

use fused::FusedSteps;

/// Which cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellKind {
    /// Long short-term memory: two vectors of state.
    Lstm,
    /// Gated recurrent unit: one.
    Gru,
}

impl CellKind {
    /// Gates of a cell.
    pub fn gates(self) -> usize {
        match self {
            Self::Lstm => 4,
            Self::Gru => 3,
        }
    }

    /// Vectors of state that a cell holds.
    pub fn vectors(self) -> usize {
        match self {
            Self::Lstm => 2,
            Self::Gru => 1,
        }
    }
}

/// Settings of a [`CharRnn`].
///
/// ```
/// use burn::module::Module;
/// use burn::tensor::Device;
/// use reprop_models::CharRnnConfig;
///
/// let network = CharRnnConfig::lstm(80).init(42, &Device::flex().autodiff());
/// assert_eq!(network.num_params(), 80 * 64 + (64 + 128 + 1) * 512 + (128 + 1) * 80);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CharRnnConfig {
    /// The cell.
    pub cell: CellKind,
    /// Symbols of the text.
    pub symbols: usize,
    /// Width of a symbol's embedding.
    pub embedding: usize,
    /// Width of each cell's state.
    pub width: usize,
    /// Cells on top of each other.
    pub depth: usize,
}

impl CharRnnConfig {
    /// One LSTM cell of 128 for a text of `symbols` symbols.
    pub fn lstm(symbols: usize) -> Self {
        Self { cell: CellKind::Lstm, symbols, embedding: 64, width: 128, depth: 1 }
    }

    /// One GRU cell of 128 for a text of `symbols` symbols.
    pub fn gru(symbols: usize) -> Self {
        Self { cell: CellKind::Gru, ..Self::lstm(symbols) }
    }

    /// The names of these networks.
    pub const NAMES: [&'static str; 2] = ["lstm-char", "gru-char"];

    /// The network of that name.
    pub fn by_name(name: &str, symbols: usize) -> Option<Self> {
        match name {
            "lstm-char" => Some(Self::lstm(symbols)),
            "gru-char" => Some(Self::gru(symbols)),
            _ => None,
        }
    }

    /// A sentence with the numbers in it, if these settings do not make a network.
    ///
    /// # Errors
    ///
    /// The sentence.
    pub fn check(&self) -> Result<(), String> {
        let Self { symbols, embedding, width, depth, .. } = *self;
        let sizes = [("symbols", symbols), ("embedding", embedding), ("width", width), ("depth", depth)];
        match sizes.into_iter().find(|(_, size)| *size == 0) {
            Some((name, _)) => Err(format!("the {name} must be at least 1, found 0")),
            None => Ok(()),
        }
    }

    /// A network with initial parameters from `seed`.
    pub fn init(&self, seed: u64, device: &Device) -> CharRnn {
        let Self { cell, symbols, embedding, width, depth } = *self;
        let deviation = (width as f64).sqrt().recip();
        let mut initial = Initial::new(seed, device).with_deviation(deviation);
        let table = initial.truncated_normal([symbols, embedding]);
        let cells = (0..depth)
            .map(|place| {
                let inputs = if place == 0 { embedding } else { width };
                let columns = cell.gates() * width;
                RecurrentCell {
                    input: initial.truncated_normal([inputs, columns]),
                    hidden: initial.truncated_normal([width, columns]),
                    bias: bias(cell, width, device),
                    hidden_bias: (cell == CellKind::Gru).then(|| initial.zeros([columns])),
                }
            })
            .collect();
        CharRnn {
            embedding: table,
            cells,
            head_weight: initial.truncated_normal([width, symbols]),
            head_bias: initial.zeros([symbols]),
            lstm: cell == CellKind::Lstm,
        }
    }

    /// Multiplications of one symbol's forward.
    pub fn multiplications(&self) -> u64 {
        let Self { cell, symbols, embedding, width, depth } = *self;
        let columns = cell.gates() * width;
        let cells = embedding * columns + (depth - 1) * width * columns + depth * width * columns;
        (cells + width * symbols) as u64
    }

    /// Bytes that one step of one sequence saves for its reverse.
    pub fn tape_bytes(&self) -> u64 {
        let Self { cell, symbols, embedding, width, depth } = *self;
        let inputs = embedding + (depth - 1) * width;
        let cells = depth * (cell.vectors() + cell.gates() + 1) * width;
        ((inputs + cells + width + symbols) * size_of::<f32>()) as u64
    }

    /// Bytes of one sequence's state.
    pub fn state_bytes(&self) -> u64 {
        (self.depth * self.cell.vectors() * self.width * size_of::<f32>()) as u64
    }
}

/// A forget gate that begins open lets gradients through from the start.
fn bias(cell: CellKind, width: usize, device: &Device) -> Param<Tensor<1>> {
    let forgets = |index: usize| cell == CellKind::Lstm && index / width == 1;
    let values = (0..cell.gates() * width).map(|index| if forgets(index) { 1.0f32 } else { 0.0 });
    let values = TensorData::new(values.collect::<Vec<_>>(), [cell.gates() * width]);
    Param::from_tensor(Tensor::from_data(values, device))
}

/// One cell's parameters, gates side by side: `i, f, g, o` of an LSTM, `r, z, n` of a GRU.
#[derive(Module, Debug)]
pub struct RecurrentCell {
    /// From the input, `[inputs, gates x width]`.
    pub input: Param<Tensor<2>>,
    /// From the state, `[width, gates x width]`.
    pub hidden: Param<Tensor<2>>,
    /// `[gates x width]`.
    pub bias: Param<Tensor<1>>,
    /// A GRU has one more, inside its reset gate.
    pub hidden_bias: Option<Param<Tensor<1>>>,
}

/// A network that tells the next symbol of a text.
#[derive(Module, Debug)]
pub struct CharRnn {
    /// `[symbols, embedding]`.
    pub embedding: Param<Tensor<2>>,
    /// From bottom to top.
    pub cells: Vec<RecurrentCell>,
    /// `[width, symbols]`.
    pub head_weight: Param<Tensor<2>>,
    /// `[symbols]`.
    pub head_bias: Param<Tensor<1>>,
    lstm: bool,
}

/// What one pass over sequences gave.
pub struct CharStep {
    /// The mean loss of a symbol, in nats.
    pub loss: f64,
    /// The part of the symbols that were told rightly.
    pub accuracy: f64,
    /// Gradients of all parameters.
    pub gradients: GradientsParams,
    /// What the chain took.
    pub report: ChainReport,
}

impl CharRnn {
    /// The settings it was made with.
    pub fn config(&self) -> CharRnnConfig {
        let [symbols, embedding] = self.embedding.dims();
        let [width, _] = self.head_weight.dims();
        let cell = if self.lstm { CellKind::Lstm } else { CellKind::Gru };
        CharRnnConfig { cell, symbols, embedding, width, depth: self.cells.len() }
    }

    /// Loss and gradients of whole sequences: fused kernels on the CPU, Burn's operations where they are asked for or
    /// elsewhere.
    ///
    /// # Errors
    ///
    /// What the chain says.
    pub fn step(&self, sequences: &Sequences, kernels: Kernels, how: Checkpointed<'_>) -> Result<CharStep> {
        let symbols = (sequences.steps() * sequences.batch()) as f64;
        if kernels == Kernels::Auto && self.embedding.val().inner().device() == Device::flex() {
            let steps = FusedSteps::new(self, sequences);
            let (start, sum) = (steps.start(), steps.sum());
            let mut chain = Chain::new(steps);
            let done = chain.run(start, sum, how)?;
            let gradients = chain.into_inner().gradients(self, &done.sum.2);
            let (loss, hits, _) = done.sum;
            return Ok(CharStep { loss, accuracy: hits as f64 / symbols, gradients, report: done.report });
        }
        let done = self.burn_run(sequences, how)?;
        let (loss, hits) = (done.sum.0.loss, done.sum.1);
        let gradients = done.sum.0.into_gradients(self);
        Ok(CharStep { loss, accuracy: hits as f64 / symbols, gradients, report: done.report })
    }

    /// The mean loss of a symbol and the part told rightly, with nothing kept.
    pub fn evaluate(&self, sequences: &Sequences) -> (f64, f64) {
        FusedSteps::new(self, sequences).evaluate()
    }
}
