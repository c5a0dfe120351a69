//! Unit A through the public interface: four pre-norm ViT-S blocks, each `x + f(x)` with attention and perceptron.

use burn::tensor::{Device, Distribution, Tensor};
use reprop::layers::{Attention, AttentionConfig, Initial, Mlp, MlpConfig};
use reprop::{Arithmetic, Direction, Gradients, Meter, Pass, Residual as _};

const DEPTH: usize = 4;
const TOKENS: usize = 197;
const WIDTH: usize = 384;
const HEADS: usize = 6;

pub struct Blocks {
    pairs: Vec<(Attention, Mlp)>,
    x: Tensor<3>,
    dy: Tensor<3>,
}

impl Blocks {
    pub fn new(batch: usize, device: &Device) -> Self {
        let initial = &mut Initial::new(1, device);
        let block = |_| {
            let attention = AttentionConfig::new(WIDTH, HEADS).init(initial);
            (attention, MlpConfig::new(WIDTH, 4 * WIDTH).init(initial))
        };
        let noise = || {
            Tensor::random([batch, TOKENS, WIDTH], Distribution::Uniform(-1.0, 1.0), &device.clone().inner())
        };
        Self { pairs: (0..DEPTH).map(block).collect(), x: noise(), dy: noise() }
    }

    /// Forward and backward with all gradients, activations stored.
    pub fn step(&self) {
        let pass = Pass::training(1).arithmetic(Arithmetic::Float).keep_probabilities();
        let context = pass.context(1);
        let mut gradients = Gradients::new(&Meter::new());
        let (mut x, mut kept) = (self.x.clone(), Vec::new());
        for (f, g) in &self.pairs {
            let (y, of_f) = f.forward_saving_onto(x.clone(), x, Direction::Add, &context);
            let (z, of_g) = g.forward_saving_onto(y.clone(), y, Direction::Add, &context);
            kept.push((of_f, of_g));
            x = z;
        }
        let mut dx = self.dy.clone();
        for ((f, g), (of_f, of_g)) in self.pairs.iter().zip(kept).rev() {
            dx = g.vjp_onto(of_g, dx.clone(), dx, &context, &mut gradients);
            dx = f.vjp_onto(of_f, dx.clone(), dx, &context, &mut gradients);
        }
    }
}
