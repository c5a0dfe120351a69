//! Reversible networks of a user's own Burn modules, differentiated by Burn's autodiff: RevViT-Ti's blocks as they come from
//! Burn's attention and linear layers, and blocks of perceptrons alone.

use burn::module::{Module, ModuleDisplay};
use burn::nn::attention::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig};
use burn::nn::{LayerNorm, LayerNormConfig, Linear, LinearConfig};
use burn::tensor::activation::gelu;
use burn::tensor::{Device, Distribution, Tensor};
use reprop::{
    Autodiff, AutodiffHead, AutodiffStem, Context, Coupling, Layer, LossLayer, Network, Pass, Piece,
    StemLayer, Strategy, Streams,
};

const DEPTH: usize = 12;
const WIDTH: usize = 192;
const HEADS: usize = 3;
const BATCH: usize = 4;
const TOKENS: usize = 197;

/// Heads behind a norm.
#[derive(Module, Debug)]
pub struct Attention {
    norm: LayerNorm,
    heads: MultiHeadAttention,
}

impl Attention {
    pub fn new(device: &Device) -> Self {
        let heads = MultiHeadAttentionConfig::new(WIDTH, HEADS).with_dropout(0.0).init(device);
        Self { norm: LayerNormConfig::new(WIDTH).init(device), heads }
    }
}

impl Layer<3> for Attention {
    fn forward(&self, x: Tensor<3>, _: &Context<'_>) -> Tensor<3> {
        self.heads.forward(MhaInput::self_attn(self.norm.forward(x))).context
    }
}

/// Two linear layers behind a norm.
#[derive(Module, Debug)]
pub struct Perceptron {
    norm: LayerNorm,
    inner: Linear,
    outer: Linear,
}

impl Perceptron {
    pub fn new(device: &Device) -> Self {
        let linear = |inputs, outputs| LinearConfig::new(inputs, outputs).init(device);
        let norm = LayerNormConfig::new(WIDTH).init(device);
        Self { norm, inner: linear(WIDTH, 4 * WIDTH), outer: linear(4 * WIDTH, WIDTH) }
    }
}

impl Layer<3> for Perceptron {
    fn forward(&self, x: Tensor<3>, _: &Context<'_>) -> Tensor<3> {
        self.outer.forward(gelu(self.inner.forward(self.norm.forward(x))))
    }
}

#[derive(Module, Debug)]
struct Begin {
    linear: Linear,
}

impl StemLayer<3> for Begin {
    type Input = Tensor<3>;

    fn forward(&self, x: Tensor<3>, _: &Context<'_>) -> Streams<3> {
        let y = self.linear.forward(x);
        Streams::new(y.clone(), y)
    }
}

/// Mean of squares.
#[derive(Module, Debug)]
struct End {
    linear: Linear,
}

impl LossLayer<3> for End {
    type Target = Tensor<3>;
    type Output = Tensor<3>;

    fn predict(&self, x: Streams<3>, _: &Context<'_>) -> Tensor<3> {
        self.linear.forward(x.x1 + x.x2)
    }

    fn loss(&self, x: Streams<3>, target: Tensor<3>, context: &Context<'_>) -> (Tensor<1>, Tensor<3>) {
        let output = self.predict(x, context);
        ((output.clone() - target).square().mean(), output.inner())
    }
}

#[derive(Module, Debug)]
struct OwnNetwork<F: Module + ModuleDisplay> {
    stem: AutodiffStem<Begin>,
    blocks: Vec<Coupling<Autodiff<F>, Autodiff<Perceptron>>>,
    head: AutodiffHead<End>,
}

impl<F: Layer<3> + ModuleDisplay + 'static> Network<3> for OwnNetwork<F> {
    type Stem = AutodiffStem<Begin>;
    type Head = AutodiffHead<End>;

    fn stem(&self) -> &Self::Stem {
        &self.stem
    }

    fn pieces(&self) -> Vec<Piece<'_, 3>> {
        self.blocks.iter().map(|block| Piece::Block(block)).collect()
    }

    fn head(&self) -> &Self::Head {
        &self.head
    }
}

/// A network and one batch.
pub struct Own<F: Module + ModuleDisplay> {
    network: OwnNetwork<F>,
    x: Tensor<3>,
    target: Tensor<3>,
}

impl<F: Layer<3> + ModuleDisplay + 'static> Own<F> {
    /// With F of every block as `f` makes it, and perceptrons for G.
    pub fn new(f: impl Fn(&Device) -> F, device: &Device) -> Self {
        device.seed(1);
        let linear = |inputs, outputs| LinearConfig::new(inputs, outputs).init(device);
        let block = |_| Coupling::new(Autodiff::new(f(device)), Autodiff::new(Perceptron::new(device)));
        let network = OwnNetwork {
            stem: AutodiffStem::new(Begin { linear: linear(WIDTH, WIDTH) }),
            blocks: (0..DEPTH).map(block).collect(),
            head: AutodiffHead::new(End { linear: linear(WIDTH, 1) }),
        };
        let noise = |columns| {
            let shape = [BATCH, TOKENS, columns];
            Tensor::random(shape, Distribution::Normal(0.0, 1.0), &device.clone().inner())
        };
        Self { network: network.materialize(), x: noise(WIDTH), target: noise(1) }
    }

    pub fn step(&self, strategy: Strategy) {
        self.network
            .step(self.x.clone(), self.target.clone(), Pass::training(1), strategy)
            .expect("noise is in range");
    }
}
