//! A reversible network of a user's own Burn modules, differentiated by Burn's autodiff.

use burn::module::Module;
use burn::nn::{LayerNorm, LayerNormConfig, Linear, LinearConfig};
use burn::tensor::activation::gelu;
use burn::tensor::{Device, Distribution, Tensor};
use reprop::{
    Autodiff, AutodiffHead, AutodiffStem, Context, Coupling, Layer, LossLayer, Network, Pass, Piece,
    StemLayer, Strategy, Streams,
};

const DEPTH: usize = 6;
const WIDTH: usize = 192;
const ROWS: usize = 1024;

/// F and G.
#[derive(Module, Debug)]
struct Half {
    norm: LayerNorm,
    inner: Linear,
    outer: Linear,
}

impl Layer<2> for Half {
    fn forward(&self, x: Tensor<2>, _: &Context<'_>) -> Tensor<2> {
        self.outer.forward(gelu(self.inner.forward(self.norm.forward(x))))
    }
}

#[derive(Module, Debug)]
struct Begin {
    linear: Linear,
}

impl StemLayer<2> for Begin {
    type Input = Tensor<2>;

    fn forward(&self, x: Tensor<2>, _: &Context<'_>) -> Streams<2> {
        let y = self.linear.forward(x);
        Streams::new(y.clone(), y)
    }
}

/// Mean of squares.
#[derive(Module, Debug)]
struct End {
    linear: Linear,
}

impl LossLayer<2> for End {
    type Target = Tensor<2>;
    type Output = Tensor<2>;

    fn predict(&self, x: Streams<2>, _: &Context<'_>) -> Tensor<2> {
        self.linear.forward(x.x1 + x.x2)
    }

    fn loss(&self, x: Streams<2>, target: Tensor<2>, context: &Context<'_>) -> (Tensor<1>, Tensor<2>) {
        let output = self.predict(x, context);
        ((output.clone() - target).square().mean(), output.inner())
    }
}

#[derive(Module, Debug)]
struct OwnNetwork {
    stem: AutodiffStem<Begin>,
    blocks: Vec<Coupling<Autodiff<Half>, Autodiff<Half>>>,
    head: AutodiffHead<End>,
}

impl Network<2> for OwnNetwork {
    type Stem = AutodiffStem<Begin>;
    type Head = AutodiffHead<End>;

    fn stem(&self) -> &Self::Stem {
        &self.stem
    }

    fn pieces(&self) -> Vec<Piece<'_, 2>> {
        self.blocks.iter().map(|block| Piece::Block(block)).collect()
    }

    fn head(&self) -> &Self::Head {
        &self.head
    }
}

/// The network and one batch.
pub struct Own {
    network: OwnNetwork,
    x: Tensor<2>,
    target: Tensor<2>,
}

impl Own {
    pub fn new(device: &Device) -> Self {
        device.seed(1);
        let linear = |inputs, outputs| LinearConfig::new(inputs, outputs).init(device);
        let half = || {
            let norm = LayerNormConfig::new(WIDTH).init(device);
            Autodiff::new(Half { norm, inner: linear(WIDTH, 4 * WIDTH), outer: linear(4 * WIDTH, WIDTH) })
        };
        let network = OwnNetwork {
            stem: AutodiffStem::new(Begin { linear: linear(WIDTH, WIDTH) }),
            blocks: (0..DEPTH).map(|_| Coupling::new(half(), half())).collect(),
            head: AutodiffHead::new(End { linear: linear(WIDTH, 1) }),
        };
        let noise = |columns| {
            Tensor::random([ROWS, columns], Distribution::Normal(0.0, 1.0), &device.clone().inner())
        };
        Self { network: network.materialize(), x: noise(WIDTH), target: noise(1) }
    }

    pub fn step(&self, strategy: Strategy) {
        self.network
            .step(self.x.clone(), self.target.clone(), Pass::training(1), strategy)
            .expect("noise is in range");
    }
}
