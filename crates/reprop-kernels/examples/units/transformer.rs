//! Unit A: four pre-norm ViT-S blocks on 197 tokens, forward and backward with all gradients, activations stored.

mod block;

use reprop_kernels::attention::{AttentionShape, Keep};
use reprop_kernels::grid::Direction;
use reprop_kernels::heap::Values;
use reprop_kernels::output::{Base, Output};
use reprop_kernels::{Buffer, Workspace};

use super::random::Random;

pub use block::{Block, Gradients, Sizes};

const DEPTH: usize = 4;

/// Of ViT-S at 224 x 224 pixels.
pub fn sizes(batch: usize) -> Sizes {
    Sizes { shape: AttentionShape { batch, tokens: 197, heads: 6 }, width: 384 }
}

/// The blocks' parameters and gradients, and one batch.
pub struct Unit {
    sizes: Sizes,
    blocks: Vec<Block>,
    gradients: Vec<Gradients>,
    x: Values,
    dy: Values,
}

impl Unit {
    pub fn new(batch: usize, ws: &Workspace) -> Self {
        let (sizes, mut random) = (sizes(batch), Random::new());
        let blocks = (0..DEPTH).map(|_| Block::new(sizes, &mut random, ws)).collect();
        let gradients = (0..DEPTH).map(|_| Gradients::new(sizes)).collect();
        let (x, dy) = (random.values(sizes.len(), 1.0), random.values(sizes.len(), 1.0));
        Self { sizes, blocks, gradients, x, dy }
    }

    /// Multiply-adds of all products count two; nothing else counts.
    pub fn flops(&self) -> f64 {
        (3 * DEPTH * (self.sizes.attention_flops() + self.sizes.mlp_flops())) as f64
    }

    /// One forward and backward; the weights are packed anew, as after an optimizer's step.
    pub fn step(&mut self, ws: &Workspace) {
        self.blocks.iter_mut().for_each(Block::repack);
        let mut x = Buffer::copy_of(ws, &self.x);
        let mut kept = Vec::new();
        for block in &self.blocks {
            let (mut y, mut z) = (ws.take(x.len()), ws.take(x.len()));
            let mut output = Output::Float { base: Some(&x), y: &mut y, direction: Direction::Add };
            let f = block
                .attention()
                .forward_saving(&x, &mut output, Keep::Probabilities, ws)
                .expect("floats do not overflow");
            let mut output = Output::Float { base: Some(&y), y: &mut z, direction: Direction::Add };
            let g = block.mlp().forward_saving(&y, &mut output, ws).expect("floats do not overflow");
            kept.push((x, f, y, g));
            x = z;
        }
        let mut dx = Buffer::copy_of(ws, &self.dy);
        let blocks = self.blocks.iter().zip(&mut self.gradients);
        for ((block, gradients), (x, f, y, g)) in blocks.zip(kept).rev() {
            let mut dy = ws.take(x.len());
            block.mlp().vjp(&y, g, &dx, &mut dy, Base::Other(&dx), gradients.mlp(), ws);
            block.attention().vjp(&x, f, &dy, &mut dx, Base::Other(&dy), gradients.attention(), ws);
        }
    }
}
