//! Unit B: four basic blocks with training batch norm, forward and backward with all gradients, activations stored.

use reprop_kernels::batch_norm::{BatchNorm, BatchNormGrads};
use reprop_kernels::conv::{Branch, ConvNorm, ConvNormGrads, Images, WinogradWeight};
use reprop_kernels::heap::{self, Values};
use reprop_kernels::output::{Base, Output};
use reprop_kernels::{Buffer, Workspace};

use super::random::Random;

const DEPTH: usize = 4;
const BATCH: usize = 32;

/// The blocks' parameters and gradients, and one batch.
pub struct Unit {
    images: Images,
    channels: usize,
    blocks: Vec<Block>,
    x: Values,
    dy: Values,
}

/// Weight, norm scale, norm bias; twice.
struct Block {
    parameters: Vec<Values>,
    gradients: Vec<Values>,
    packed: [WinogradWeight; 2],
}

impl Unit {
    /// 64 channels on 32x32 pixels, 128 on 16x16, 256 on 8x8.
    pub fn new(channels: usize, ws: &Workspace) -> Self {
        let side = 2048 / channels;
        let images = Images { batch: BATCH, height: side, width: side };
        let mut random = Random::new();
        let filter = 9 * channels * channels;
        let spread = (1.0 / (9.0 * channels as f32)).sqrt();
        let blocks = (0..DEPTH)
            .map(|_| {
                let layer = |weight: Values| [weight, vec![1.0; channels].into(), heap::zeros(channels)];
                let parameters: Vec<Values> =
                    [layer(random.values(filter, spread)), layer(random.values(filter, spread))]
                        .into_iter()
                        .flatten()
                        .collect();
                let gradients = parameters.iter().map(|p| heap::zeros(p.len())).collect();
                let pack = |i: usize| WinogradWeight::new(&parameters[i], channels, channels, ws);
                let packed = [pack(0), pack(3)];
                Block { parameters, gradients, packed }
            })
            .collect();
        let len = images.len(channels);
        Self { images, channels, blocks, x: random.values(len, 1.0), dy: random.values(len, 1.0) }
    }

    /// As direct convolutions: multiply-adds count two.
    pub fn flops(&self) -> f64 {
        let per_conv = 2.0 * 9.0 * self.images.len(1) as f64 * (self.channels * self.channels) as f64;
        3.0 * 2.0 * DEPTH as f64 * per_conv
    }

    /// One forward and backward; the weights are transformed anew, as after an optimizer's step.
    pub fn step(&mut self, ws: &Workspace) {
        for block in &mut self.blocks {
            block.packed[0].repack(&block.parameters[0], ws);
            block.packed[1].repack(&block.parameters[3], ws);
        }
        // What each block read: the batch, then the output of the block before.
        let mut inputs: Vec<Buffer> = Vec::new();
        let mut kept = Vec::new();
        for block in &self.blocks {
            let x = inputs.last().map_or(&self.x[..], |x| x);
            let mut y = ws.take(x.len());
            let saved = block.branch(self.images).forward_saving(x, &mut Output::Value(&mut y), ws);
            kept.push(saved.expect("floats do not overflow"));
            inputs.push(y);
        }
        inputs.pop();
        let mut above: Option<Buffer> = None;
        for (block, saved) in self.blocks.iter_mut().zip(kept).rev() {
            let input = inputs.pop();
            let x = input.as_deref().unwrap_or(&self.x);
            let dy = above.as_deref().unwrap_or(&self.dy);
            let mut gradients = std::mem::take(&mut block.gradients);
            let [w1, s1, b1, w2, s2, b2] = gradients.get_disjoint_mut([0, 1, 2, 3, 4, 5]).expect("distinct");
            let grads = [
                ConvNormGrads { weight: w1, norm: BatchNormGrads { scale: s1, bias: b1 } },
                ConvNormGrads { weight: w2, norm: BatchNormGrads { scale: s2, bias: b2 } },
            ];
            let mut dx = ws.take(x.len());
            block.branch(self.images).vjp(x, &saved, dy, &mut dx, Base::Nothing, grads, ws);
            block.gradients = gradients;
            above = Some(dx);
        }
    }
}

impl Block {
    fn branch(&self, images: Images) -> Branch<'_> {
        let p = &self.parameters;
        let norm = |i: usize| BatchNorm { scale: &p[i], bias: &p[i + 1], eps: 1e-5 };
        let [first, second] = &self.packed;
        Branch {
            images,
            first: ConvNorm { weight: first, norm: norm(1) },
            second: ConvNorm { weight: second, norm: norm(4) },
            residual: true,
        }
    }
}
