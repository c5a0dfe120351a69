//! Networks as users write them: plain Burn modules at the ends, between stages, and beside hand-written sub-blocks.

use burn::module::{Module, ModuleDisplay};
use burn::nn::Linear;
use burn::tensor::{Tensor, activation};
use reprop::layers::{Attention, AttentionConfig, Initial, Mlp, MlpConfig};
use reprop::{
    Autodiff, AutodiffHead, AutodiffStem, AutodiffTransition, Block, Context, Coupling, Head, Layer,
    LossLayer, Network, Piece, Stem, StemLayer, Streams, StreamsLayer, Transition,
};

use crate::common::{noise, scattered, trainable};

/// Two unequal streams from one input.
#[derive(Module, Debug)]
pub struct TwoLinear {
    first: Linear,
    second: Linear,
}

impl StemLayer<3> for TwoLinear {
    type Input = Tensor<3>;

    fn forward(&self, input: Tensor<3>, context: &Context<'_>) -> Streams<3> {
        let second = activation::tanh(self.second.forward(input.clone()));
        Streams::new(self.first.forward(input), context.dropout(second, 0.1, 0))
    }
}

/// Both streams mapped and averaged; the loss is the mean square of the difference from the target.
#[derive(Module, Debug)]
pub struct Distance {
    linear: Linear,
}

impl Distance {
    fn output(&self, Streams { x1, x2 }: Streams<3>) -> Tensor<2> {
        self.linear.forward(x1 * 2.0 - x2).mean_dim(1).squeeze_dim(1)
    }
}

impl LossLayer<3> for Distance {
    type Target = Tensor<2>;
    type Output = Tensor<2>;

    fn predict(&self, x: Streams<3>, _: &Context<'_>) -> Tensor<2> {
        self.output(x)
    }

    fn loss(&self, x: Streams<3>, target: Tensor<2>, _: &Context<'_>) -> (Tensor<1>, Tensor<2>) {
        let output = self.output(x);
        ((output.clone() - Tensor::from_inner(target)).square().mean(), output.inner())
    }
}

/// A side input of the user's own.
pub struct Shift(pub Tensor<1>);

/// A perceptron as a user writes it: plain Burn, dropout from the context, and a side input where there is one.
#[derive(Module, Debug)]
pub struct Perceptron {
    inner: Linear,
    outer: Linear,
    dropout: f64,
}

impl Perceptron {
    pub fn new(width: usize, hidden: usize, dropout: f64, initial: &mut Initial) -> Autodiff<Self> {
        Autodiff::new(Self {
            inner: initial.linear(width, hidden),
            outer: initial.linear(hidden, width),
            dropout,
        })
    }
}

impl Layer<3> for Perceptron {
    fn forward(&self, x: Tensor<3>, context: &Context<'_>) -> Tensor<3> {
        let x = match context.side::<Shift>() {
            Some(Shift(shift)) => {
                let shift = shift.clone().cast(x.dtype()).unsqueeze();
                x.clone() + if x.is_tracked() { Tensor::from_inner(shift) } else { shift }
            }
            None => x,
        };
        let hidden = activation::gelu(self.inner.forward(x));
        // An operation that Burn rounds otherwise on a graph than off it.
        let hidden = hidden.clone() * activation::softmax(hidden, 2);
        let hidden = context.dropout(hidden, self.dropout, 0);
        context.drop_path(self.outer.forward(hidden), self.dropout, 1)
    }
}

/// From one width to another, through both streams.
#[derive(Module, Debug)]
pub struct Mix {
    first: Linear,
    second: Linear,
}

impl Mix {
    pub fn new(from: usize, to: usize, initial: &mut Initial) -> AutodiffTransition<Self> {
        AutodiffTransition::new(Self {
            first: initial.linear(2 * from, to),
            second: initial.linear(from, to),
        })
    }
}

impl StreamsLayer<3> for Mix {
    fn forward(&self, Streams { x1, x2 }: Streams<3>, context: &Context<'_>) -> Streams<3> {
        let both = Tensor::cat(vec![x1, x2.clone()], 2);
        let second = context.dropout(self.second.forward(x2), 0.2, 0);
        Streams::new(activation::tanh(self.first.forward(both)), second)
    }
}

/// Stages of blocks with a transition between each two; a stage may be empty.
#[derive(Module, Debug)]
pub struct Staged<S: Module, B: Module, T: Module, H: Module> {
    pub stem: S,
    pub stages: Vec<Vec<B>>,
    pub transitions: Vec<T>,
    pub head: H,
}

impl<S, B, T, H> Network<3> for Staged<S, B, T, H>
where
    S: Module + ModuleDisplay + Stem<3>,
    B: Module + ModuleDisplay + Block<3>,
    T: Module + ModuleDisplay + Transition<3>,
    H: Module + ModuleDisplay + Head<3>,
{
    type Stem = S;
    type Head = H;

    fn stem(&self) -> &S {
        &self.stem
    }

    fn pieces(&self) -> Vec<Piece<'_, 3>> {
        let mut pieces = Vec::new();
        for (index, stage) in self.stages.iter().enumerate() {
            pieces.extend(stage.iter().map(|block| Piece::Block(block)));
            pieces.extend(self.transitions.get(index).map(|transition| Piece::Transition(transition)));
        }
        pieces
    }

    fn head(&self) -> &H {
        &self.head
    }
}

pub type User<B> = Staged<AutodiffStem<TwoLinear>, B, AutodiffTransition<Mix>, AutodiffHead<Distance>>;
/// A user's perceptron beside attention with a hand-written derivative.
pub type Mixed = Coupling<Autodiff<Perceptron>, Attention>;
/// Both with hand-written derivatives.
pub type Transformer = Coupling<Attention, Mlp>;

/// Features of the input of [`user_network`].
pub const FEATURES: usize = 5;
/// Tokens of the input of [`user_network`].
pub const TOKENS: usize = 7;
/// Outputs of [`user_network`].
pub const OUTPUTS: usize = 3;

/// A network whose stem, transitions and head are plain Burn modules. `widths[i]` is the width of stage `i`, which has
/// `depths[i]` blocks.
pub fn user_network<B: Module + ModuleDisplay + Block<3>>(
    depths: &[usize],
    widths: &[usize],
    mut block: impl FnMut(usize, &mut Initial) -> B,
) -> User<B> {
    let mut initial = Initial::new(9, &trainable());
    let last = widths[widths.len() - 1];
    let stem =
        TwoLinear { first: initial.linear(FEATURES, widths[0]), second: initial.linear(FEATURES, widths[0]) };
    let stages = depths
        .iter()
        .zip(widths)
        .map(|(&depth, &width)| (0..depth).map(|_| block(width, &mut initial)).collect())
        .collect();
    let transitions = widths.windows(2).map(|pair| Mix::new(pair[0], pair[1], &mut initial)).collect();
    let head = Distance { linear: initial.linear(last, OUTPUTS) };
    scattered(Staged { stem: AutodiffStem::new(stem), stages, transitions, head: AutodiffHead::new(head) })
}

/// A block of a user's perceptron and attention, with masks at `rate`.
pub fn mixed(rate: f64) -> impl FnMut(usize, &mut Initial) -> Mixed {
    move |width, initial| {
        let attention = AttentionConfig::new(width, 2).with_dropout(rate).with_drop_path(rate).init(initial);
        Coupling::new(Perceptron::new(width, 2 * width, rate, initial), attention)
    }
}

/// A block of attention and perceptron with hand-written derivatives, with masks at `rate`.
pub fn transformer(rate: f64) -> impl FnMut(usize, &mut Initial) -> Transformer {
    move |width, initial| {
        Coupling::new(
            AttentionConfig::new(width, 2).with_dropout(rate).with_drop_path(rate).init(initial),
            MlpConfig::new(width, 3 * width).with_dropout(rate).with_drop_path(rate).init(initial),
        )
    }
}

/// Input and target of [`user_network`].
pub fn user_data(batch: usize) -> (Tensor<3>, Tensor<2>) {
    (noise(1, [batch, TOKENS, FEATURES]), noise(2, [batch, OUTPUTS]))
}
