//! Networks, data and comparisons that the laws share.

use burn::module::{Module, ModuleDisplay, ModuleMapper, Param};
use burn::nn::Linear;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Int, Tensor, TensorData, activation};
use reprop::layers::{Attention, AttentionConfig, Initial, Mlp, MlpConfig};
use reprop::{
    Autodiff, AutodiffHead, AutodiffStem, AutodiffTransition, Block, Context, Coupling, Head, Input, Layer,
    LossLayer, Network, Pass, Piece, Stem, StemLayer, Strategy, Streams, StreamsLayer, Target, Transition,
    named_gradients,
};

/// Where parameters live.
pub fn trainable() -> Device {
    Device::flex().autodiff()
}

/// A training pass on the kernels that the suite is run for.
pub fn training(seed: u64) -> Pass {
    Pass::training(seed).kernels(crate::KERNELS)
}

/// An evaluation pass on the kernels that the suite is run for.
pub fn evaluation() -> Pass {
    Pass::evaluation().kernels(crate::KERNELS)
}

/// Values in `[-1, 1)` that depend on the seed and the shape alone.
pub fn noise<const D: usize>(seed: u64, shape: [usize; D]) -> Tensor<D> {
    let elements: usize = shape.iter().product();
    let values: Vec<f32> = (0..elements as u64)
        .map(|index| {
            let word = (seed << 32 ^ index).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let word = (word ^ word >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (word >> 40) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect();
    Tensor::from_data(TensorData::new(values, shape), &Device::flex())
}

/// Labels that go through all classes.
pub fn labels(batch: usize, classes: usize) -> Tensor<1, Int> {
    let values: Vec<i64> = (0..batch).map(|sample| ((3 * sample + 1) % classes) as i64).collect();
    Tensor::from_data(TensorData::new(values, [batch]), &Device::flex())
}

/// The module with noise added to every parameter, so that no bias is zero and no scale is one. Noise of weights goes
/// down with their inputs, so that values stay of one magnitude at any width.
pub fn scattered<M: Module>(module: M) -> M {
    struct Scatter(u64);
    impl ModuleMapper for Scatter {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            self.0 += 1;
            param.map(|value| {
                let inputs = if D == 1 { 9 } else { value.dims()[0] };
                let noise = noise(self.0, value.dims()).mul_scalar(0.6 / (inputs as f64).sqrt());
                (value.inner() + noise).autodiff().require_grad()
            })
        }
    }
    module.map(&mut Scatter(100))
}

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

/// Names and bits of all gradients.
pub type Bits = Vec<(String, Vec<usize>, Vec<u8>)>;

/// Names and bits of `gradients`.
pub fn bits<M: Module>(module: &M, gradients: &GradientsParams) -> Bits {
    named_gradients(module, gradients)
        .into_iter()
        .map(|(name, data)| (name, data.shape().to_vec(), data.as_bytes().to_vec()))
        .collect()
}

/// Loss and gradients of one step.
pub fn stepped<N: Network<3>>(
    network: &N,
    data: &(Input<3, N>, Target<3, N>),
    pass: Pass,
    strategy: Strategy,
) -> (u32, Bits) {
    let step = network.step(data.0.clone(), data.1.clone(), pass, strategy).expect("the step goes through");
    (step.loss.to_bits(), bits(network, &step.gradients))
}

/// Panics, naming the first difference, unless both are equal.
pub fn assert_same(left: &(u32, Bits), right: &(u32, Bits), what: &str) {
    assert_eq!(f32::from_bits(left.0), f32::from_bits(right.0), "{what}: loss");
    assert_eq!(left.1.len(), right.1.len(), "{what}: number of gradients");
    for (a, b) in left.1.iter().zip(&right.1) {
        assert!(a == b, "{what}: gradient of {} differs from that of {}", a.0, b.0);
    }
}

/// Every strategy, with budgets from the least that can be met to more than enough where the network can tell.
pub fn strategies<N: Network<3>>(network: &N, batch: usize, pass: &Pass) -> Vec<Strategy> {
    let peak = |strategy| {
        network.predicted(batch, pass, strategy).expect("no budget is asked for").map(|p| p.activation_peak)
    };
    let mut all = vec![Strategy::Reprop, Strategy::PaReprop, Strategy::Auto { budget: u64::MAX }];
    if let (Some(least), Some(most)) = (peak(Strategy::Reprop), peak(Strategy::Stored)) {
        all.extend(
            (0..=3).map(|part| Strategy::Auto { budget: least + (most.max(least) - least) * part / 3 }),
        );
    }
    all
}

/// Asserts that every strategy gives the gradients of `Stored`, that each parameter has one and none is all zero.
pub fn assert_equal_gradients<N: Network<3>>(
    network: &N,
    data: &(Input<3, N>, Target<3, N>),
    batch: usize,
    pass: impl Fn() -> Pass,
    what: &str,
) -> (u32, Bits) {
    let stored = stepped(network, data, pass(), Strategy::Stored);
    assert_eq!(
        stored.1.len(),
        reprop::named_parameters(network).len(),
        "{what}: every parameter has a gradient"
    );
    for strategy in strategies(network, batch, &pass()) {
        let found = stepped(network, data, pass(), strategy);
        assert_same(&stored, &found, &format!("{what}: {strategy:?}"));
    }
    stored
}

/// Panics if all values of a gradient are zero: equality would then say nothing.
pub fn assert_alive((_, gradients): &(u32, Bits)) {
    for (name, _, bytes) in gradients {
        assert!(bytes.iter().any(|&byte| byte != 0 && byte != 0x80), "the gradient of {name} is zero");
    }
}

/// What `run` gives in a pool of `threads` threads.
pub fn with_threads<T: Send>(threads: usize, run: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool").install(run)
}

/// The largest difference of two tensors.
pub fn largest_difference<const D: usize>(a: &Tensor<D>, b: &Tensor<D>) -> f32 {
    (a.clone() - b.clone()).abs().max().into_scalar()
}
