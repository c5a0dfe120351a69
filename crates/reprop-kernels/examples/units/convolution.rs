//! Unit B: four basic blocks with training batch norm, forward and backward with all gradients, activations stored.

use reprop_kernels::batch_norm::{BatchNorm, BatchNormGrads};
use reprop_kernels::conv::{Branch, ConvNorm, ConvNormGrads, Images, WinogradWeight};
use reprop_kernels::heap::{self, Values};
use reprop_kernels::output::{Base, Output};
use reprop_kernels::{Buffer, Workspace};

use super::random::Random;

const DEPTH: usize = 4;
const BATCH: usize = 32;

/// Of the stages of ResNet-18 on 32x32 pixels: 64 channels on 32x32, 128 on 16x16, 256 on 8x8, 512 on 4x4.
pub fn images(channels: usize) -> Images {
    let side = 2048 / channels;
    Images { batch: BATCH, height: side, width: side }
}

/// Operations of one 3x3 convolution to as many channels, as a direct one: multiply-adds count two.
pub fn flops(channels: usize) -> usize {
    2 * 9 * images(channels).len(channels) * channels
}

/// The blocks' parameters and gradients, and one batch.
pub struct Unit {
    channels: usize,
    blocks: Vec<Block>,
    gradients: Vec<Gradients>,
    x: Values,
    dy: Values,
}

/// Weight, norm scale, norm bias; twice.
fn sizes(channels: usize) -> [usize; 6] {
    let filter = 9 * channels * channels;
    [filter, channels, channels, filter, channels, channels]
}

impl Unit {
    /// A stage of so many channels.
    pub fn new(channels: usize, ws: &Workspace) -> Self {
        let mut random = Random::new();
        let blocks = (0..DEPTH).map(|_| Block::new(channels, &mut random, ws)).collect();
        let gradients = (0..DEPTH).map(|_| Gradients::new(channels)).collect();
        let len = images(channels).len(channels);
        let (x, dy) = (random.values(len, 1.0), random.values(len, 1.0));
        Self { channels, blocks, gradients, x, dy }
    }

    /// As direct convolutions: multiply-adds count two.
    pub fn flops(&self) -> f64 {
        (3 * 2 * DEPTH * flops(self.channels)) as f64
    }

    /// One forward and backward; the weights are transformed anew, as after an optimizer's step.
    pub fn step(&mut self, ws: &Workspace) {
        self.blocks.iter_mut().for_each(|block| block.repack(ws));
        // What each block read: the batch, then the output of the block before.
        let mut inputs: Vec<Buffer> = Vec::new();
        let mut kept = Vec::new();
        for block in &self.blocks {
            let x = inputs.last().map_or(&self.x[..], |x| x);
            let mut y = ws.take(x.len());
            let saved = block.branch().forward_saving(x, &mut Output::Value(&mut y), ws);
            kept.push(saved.expect("floats do not overflow"));
            inputs.push(y);
        }
        inputs.pop();
        let mut above: Option<Buffer> = None;
        let blocks = self.blocks.iter().zip(&mut self.gradients);
        for ((block, gradients), saved) in blocks.zip(kept).rev() {
            let input = inputs.pop();
            let x = input.as_deref().unwrap_or(&self.x);
            let dy = above.as_deref().unwrap_or(&self.dy);
            let mut dx = ws.take(x.len());
            block.branch().vjp(x, &saved, dy, &mut dx, Base::Nothing, gradients.branch(), ws);
            above = Some(dx);
        }
    }
}

/// A basic block's parameters.
pub struct Block {
    images: Images,
    parameters: [Values; 6],
    packed: [WinogradWeight; 2],
}

impl Block {
    pub fn new(channels: usize, random: &mut Random, ws: &Workspace) -> Self {
        let spread = (1.0 / (9.0 * channels as f32)).sqrt();
        let mut parameters = sizes(channels).map(|len| random.values(len, spread));
        for norm in [1, 4] {
            parameters[norm].fill(1.0);
            parameters[norm + 1].fill(0.0);
        }
        let packed = [0, 3].map(|i: usize| WinogradWeight::new(&parameters[i], channels, channels, ws));
        Self { images: images(channels), parameters, packed }
    }

    /// As after an optimizer's step.
    pub fn repack(&mut self, ws: &Workspace) {
        self.packed[0].repack(&self.parameters[0], ws);
        self.packed[1].repack(&self.parameters[3], ws);
    }

    pub fn branch(&self) -> Branch<'_> {
        let p = &self.parameters;
        let norm = |i: usize| BatchNorm { scale: &p[i], bias: &p[i + 1], eps: 1e-5 };
        let [first, second] = &self.packed;
        Branch {
            images: self.images,
            first: ConvNorm { weight: first, norm: norm(1) },
            second: ConvNorm { weight: second, norm: norm(4) },
            residual: true,
        }
    }
}

/// Where a block's gradients go.
pub struct Gradients([Values; 6]);

impl Gradients {
    pub fn new(channels: usize) -> Self {
        Self(sizes(channels).map(heap::zeros))
    }

    pub fn branch(&mut self) -> [ConvNormGrads<'_>; 2] {
        let [w1, s1, b1, w2, s2, b2] = self.0.each_mut().map(|values| &mut **values);
        [
            ConvNormGrads { weight: w1, norm: BatchNormGrads { scale: s1, bias: b1 } },
            ConvNormGrads { weight: w2, norm: BatchNormGrads { scale: s2, bias: b2 } },
        ]
    }
}
