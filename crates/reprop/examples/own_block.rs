//! Expect: one digest three times, and a loss that falls from 3.021 to 0.009.
//!
//! A reversible network whose every part is a plain Burn module, trained to add two numbers and subtract two
//! others, under each strategy: `cargo run --release -p reprop --example own_block`.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::AdamWConfig;
use burn::tensor::{Device, Tensor, TensorData, activation::tanh};
use reprop::{
    Autodiff, AutodiffHead, AutodiffStem, Context, Coupling, Layer, LossLayer, Network, Pass, Piece, Result,
    StemLayer, Strategy, Streams, parameter_digest,
};

const WIDTH: usize = 16;

/// F and G: a perceptron with dropout that is replayed when the block is recomputed.
#[derive(Module, Debug)]
struct Half {
    inner: Linear,
    outer: Linear,
}

impl Layer<2> for Half {
    fn forward(&self, x: Tensor<2>, context: &Context<'_>) -> Tensor<2> {
        self.outer.forward(context.dropout(tanh(self.inner.forward(x)), 0.05, 0))
    }
}

/// Each stream begins as its own view of the input.
#[derive(Module, Debug)]
struct Begin {
    first: Linear,
    second: Linear,
}

impl StemLayer<2> for Begin {
    type Input = Tensor<2>;

    fn forward(&self, x: Tensor<2>, _: &Context<'_>) -> Streams<2> {
        Streams::new(self.first.forward(x.clone()), self.second.forward(x))
    }
}

/// Mean squared error of one number a sample.
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
struct MyNetwork {
    stem: AutodiffStem<Begin>,
    blocks: Vec<Coupling<Autodiff<Half>, Autodiff<Half>>>,
    head: AutodiffHead<End>,
}

impl MyNetwork {
    fn new(device: &Device) -> Self {
        // Burn draws initial values from a generator of the device.
        device.seed(1);
        let linear = |inputs, outputs| LinearConfig::new(inputs, outputs).init(device);
        let half =
            || Autodiff::new(Half { inner: linear(WIDTH, 2 * WIDTH), outer: linear(2 * WIDTH, WIDTH) });
        Self {
            stem: AutodiffStem::new(Begin { first: linear(4, WIDTH), second: linear(4, WIDTH) }),
            blocks: (0..7).map(|_| Coupling::new(half(), half())).collect(),
            head: AutodiffHead::new(End { linear: linear(WIDTH, 1) }),
        }
        // Values are drawn when a parameter is first used; here, before two threads could be first.
        .materialize()
    }
}

impl Network<2> for MyNetwork {
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

fn main() -> Result<()> {
    let device = Device::flex();
    let samples: Vec<[f32; 4]> =
        (0..64).map(|i| [1, 3, 5, 7].map(|k| ((i * k) as f32 * 0.37).sin())).collect();
    let targets: Vec<f32> = samples.iter().map(|[a, b, c, d]| a + b - c - d).collect();
    let inputs = Tensor::<2>::from_data(TensorData::new(samples.concat(), [64, 4]), &device);
    let targets = Tensor::<2>::from_data(TensorData::new(targets, [64, 1]), &device);

    for strategy in [Strategy::Stored, Strategy::Reprop, Strategy::PaReprop] {
        let mut network = MyNetwork::new(&device.clone().autodiff());
        let mut optimizer = AdamWConfig::new().init();
        let mut losses = Vec::new();
        for step in 0..200 {
            let step =
                network.step(inputs.clone(), targets.clone(), Pass::training(7).step(step), strategy)?;
            network = optimizer.step(3e-3, network, step.gradients);
            losses.push(step.loss);
        }
        let digest = parameter_digest(&network);
        println!("{strategy:<9} loss {:.3} -> {:.3}, parameters {digest}", losses[0], losses[199]);
    }
    Ok(())
}
