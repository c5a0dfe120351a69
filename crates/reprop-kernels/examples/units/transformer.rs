//! Unit A: four pre-norm ViT-S blocks on 197 tokens, forward and backward with all gradients, activations stored.

use reprop_kernels::attention::{Attention, AttentionGrads, AttentionShape, Keep, Masks};
use reprop_kernels::gemm::{Mat, PackedWeight, Weight};
use reprop_kernels::grid::Direction;
use reprop_kernels::heap::{self, Values};
use reprop_kernels::layer_norm::{LayerNorm, NormGrads};
use reprop_kernels::linear::FEW_ROWS;
use reprop_kernels::mlp::{Mlp, MlpGrads};
use reprop_kernels::output::{Base, Output};
use reprop_kernels::{Buffer, Workspace};

use super::random::Random;

const DEPTH: usize = 4;
const TOKENS: usize = 197;
const WIDTH: usize = 384;
const HEADS: usize = 6;
const HIDDEN: usize = 4 * WIDTH;
/// Norm scale and bias, qkv, its bias, out, its bias; norm scale and bias, fc1, its bias, fc2, its bias.
const SIZES: [usize; 12] = [
    WIDTH,
    WIDTH,
    3 * WIDTH * WIDTH,
    3 * WIDTH,
    WIDTH * WIDTH,
    WIDTH,
    WIDTH,
    WIDTH,
    WIDTH * HIDDEN,
    HIDDEN,
    HIDDEN * WIDTH,
    WIDTH,
];

/// The blocks' parameters and gradients, and one batch.
pub struct Unit {
    batch: usize,
    blocks: Vec<Block>,
    x: Values,
    dy: Values,
}

struct Block {
    parameters: Vec<Values>,
    gradients: Vec<Values>,
    /// None for few rows.
    packed: Option<[PackedWeight; 4]>,
}

/// Where weights are among the parameters, with their inputs and outputs.
const WEIGHTS: [(usize, usize, usize); 4] =
    [(2, WIDTH, 3 * WIDTH), (4, WIDTH, WIDTH), (8, WIDTH, HIDDEN), (10, HIDDEN, WIDTH)];

impl Unit {
    pub fn new(batch: usize, ws: &Workspace) -> Self {
        let mut random = Random::new();
        let blocks = (0..DEPTH)
            .map(|_| {
                let mut parameters: Vec<Values> = SIZES.iter().map(|&len| random.values(len, 0.04)).collect();
                parameters[0].fill(1.0);
                parameters[6].fill(1.0);
                let gradients = SIZES.iter().map(|&len| heap::zeros(len)).collect();
                let packed = (batch * TOKENS > FEW_ROWS)
                    .then(|| WEIGHTS.map(|(i, k, n)| PackedWeight::new(ws.isa(), &parameters[i], k, n)));
                Block { parameters, gradients, packed }
            })
            .collect();
        let len = batch * TOKENS * WIDTH;
        Self { batch, blocks, x: random.values(len, 1.0), dy: random.values(len, 1.0) }
    }

    /// Multiply-adds of all products count two; nothing else counts.
    pub fn flops(&self) -> f64 {
        let rows = (self.batch * TOKENS) as f64;
        let (width, tokens) = (WIDTH as f64, TOKENS as f64);
        3.0 * 2.0 * DEPTH as f64 * rows * (12.0 * width * width + 2.0 * tokens * width)
    }

    /// One forward and backward; the weights are packed anew, as after an optimizer's step.
    pub fn step(&mut self, ws: &Workspace) {
        let batch = self.batch;
        for block in &mut self.blocks {
            for (packed, (i, ..)) in block.packed.iter_mut().flatten().zip(WEIGHTS) {
                packed.repack(&block.parameters[i]);
            }
        }
        let mut x = Buffer::copy_of(ws, &self.x);
        let mut kept = Vec::new();
        for block in &self.blocks {
            let (attention, mlp) = block.sub_blocks(batch);
            let (mut y, mut z) = (ws.take(x.len()), ws.take(x.len()));
            let mut output = Output::Float { base: Some(&x), y: &mut y, direction: Direction::Add };
            let f = attention
                .forward_saving(&x, &mut output, Keep::Probabilities, ws)
                .expect("floats do not overflow");
            let mut output = Output::Float { base: Some(&y), y: &mut z, direction: Direction::Add };
            let g = mlp.forward_saving(&y, &mut output, ws).expect("floats do not overflow");
            kept.push((x, f, y, g));
            x = z;
        }
        let mut dx = Buffer::copy_of(ws, &self.dy);
        for (block, (x, f, y, g)) in self.blocks.iter_mut().zip(kept).rev() {
            let mut gradients = std::mem::take(&mut block.gradients);
            let (attention, mlp) = block.sub_blocks(batch);
            let [scale, bias, qkv, qkv_bias, out, out_bias, scale2, bias2, fc1, fc1_bias, fc2, fc2_bias] =
                gradients.get_disjoint_mut(std::array::from_fn(|i| i)).expect("distinct");
            let mut dy = ws.take(x.len());
            let grads =
                MlpGrads { norm: NormGrads { scale: scale2, bias: bias2 }, fc1, fc1_bias, fc2, fc2_bias };
            mlp.vjp(&y, g, &dx, &mut dy, Base::Other(&dx), grads, ws);
            let grads =
                AttentionGrads { norm: NormGrads { scale, bias }, qkv, qkv_bias, out, out_bias, bias: None };
            attention.vjp(&x, f, &dy, &mut dx, Base::Other(&dy), grads, ws);
            block.gradients = gradients;
        }
    }
}

impl Block {
    fn sub_blocks(&self, batch: usize) -> (Attention<'_>, Mlp<'_>) {
        let p = &self.parameters;
        let norm = |i: usize| LayerNorm { scale: &p[i], bias: &p[i + 1], eps: 1e-6 };
        let [qkv, out, fc1, fc2] = match &self.packed {
            Some(packed) => packed.each_ref().map(Weight::from),
            None => WEIGHTS.map(|(i, k, n)| Weight::Fresh(Mat::new(&p[i], k, n))),
        };
        let shape = AttentionShape { batch, tokens: TOKENS, heads: HEADS };
        let masks = Masks::default();
        (
            Attention { shape, masks, norm: norm(0), qkv, qkv_bias: &p[3], out, out_bias: &p[5] },
            Mlp { norm: norm(6), fc1, fc1_bias: &p[9], fc2, fc2_bias: &p[11] },
        )
    }
}
