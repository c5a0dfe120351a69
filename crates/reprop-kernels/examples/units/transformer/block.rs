//! A pre-norm block of attention and perceptron, and memory for its gradients.

use reprop_kernels::Workspace;
use reprop_kernels::attention::{Attention, AttentionGrads, AttentionShape, Masks};
use reprop_kernels::gemm::{Mat, PackedWeight, Weight};
use reprop_kernels::heap::{self, Values};
use reprop_kernels::layer_norm::{LayerNorm, NormGrads};
use reprop_kernels::linear::FEW_ROWS;
use reprop_kernels::mlp::{Mlp, MlpGrads};

use super::super::random::Random;

/// What a block works on; its perceptron is four times as wide as its rows.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub shape: AttentionShape,
    pub width: usize,
}

impl Sizes {
    pub fn rows(self) -> usize {
        self.shape.batch * self.shape.tokens
    }

    /// Floats of a batch.
    pub fn len(self) -> usize {
        self.rows() * self.width
    }

    /// Operations of attention's products forward; a multiply-add counts two.
    pub fn attention_flops(self) -> usize {
        2 * self.len() * (4 * self.width + 2 * self.shape.tokens)
    }

    /// Operations of the perceptron's products forward.
    pub fn mlp_flops(self) -> usize {
        2 * self.len() * 8 * self.width
    }

    /// Norm scale and bias, qkv, its bias, out, its bias; norm scale and bias, fc1, its bias, fc2, its bias.
    fn parameters(self) -> [usize; 12] {
        let (width, hidden) = (self.width, 4 * self.width);
        let attention = [width, width, 3 * width * width, 3 * width, width * width, width];
        let mlp = [width, width, width * hidden, hidden, hidden * width, width];
        std::array::from_fn(|i| if i < 6 { attention[i] } else { mlp[i - 6] })
    }

    /// Where weights are among the parameters, with their inputs and outputs.
    fn weights(self) -> [(usize, usize, usize); 4] {
        let (width, hidden) = (self.width, 4 * self.width);
        [(2, width, 3 * width), (4, width, width), (8, width, hidden), (10, hidden, width)]
    }
}

/// A block's parameters.
pub struct Block {
    sizes: Sizes,
    parameters: Vec<Values>,
    /// None for few rows.
    packed: Option<[PackedWeight; 4]>,
}

impl Block {
    pub fn new(sizes: Sizes, random: &mut Random, ws: &Workspace) -> Self {
        let mut parameters: Vec<Values> =
            sizes.parameters().iter().map(|&len| random.values(len, 0.04)).collect();
        parameters[0].fill(1.0);
        parameters[6].fill(1.0);
        let packed = (sizes.rows() > FEW_ROWS)
            .then(|| sizes.weights().map(|(i, k, n)| PackedWeight::new(ws.isa(), &parameters[i], k, n)));
        Self { sizes, parameters, packed }
    }

    /// As after an optimizer's step.
    pub fn repack(&mut self) {
        for (packed, (i, ..)) in self.packed.iter_mut().flatten().zip(self.sizes.weights()) {
            packed.repack(&self.parameters[i]);
        }
    }

    pub fn attention(&self) -> Attention<'_> {
        let (p, [qkv, out, ..]) = (&self.parameters, self.weights());
        let Sizes { shape, .. } = self.sizes;
        let masks = Masks::default();
        Attention { shape, masks, norm: self.norm(0), qkv, qkv_bias: &p[3], out, out_bias: &p[5] }
    }

    pub fn mlp(&self) -> Mlp<'_> {
        let (p, [.., fc1, fc2]) = (&self.parameters, self.weights());
        Mlp { norm: self.norm(6), fc1, fc1_bias: &p[9], fc2, fc2_bias: &p[11] }
    }

    fn norm(&self, at: usize) -> LayerNorm<'_> {
        LayerNorm { scale: &self.parameters[at], bias: &self.parameters[at + 1], eps: 1e-6 }
    }

    fn weights(&self) -> [Weight<'_>; 4] {
        match &self.packed {
            Some(packed) => packed.each_ref().map(Weight::from),
            None => self.sizes.weights().map(|(i, k, n)| Weight::Fresh(Mat::new(&self.parameters[i], k, n))),
        }
    }
}

/// Where a block's gradients go.
pub struct Gradients(Vec<Values>);

impl Gradients {
    pub fn new(sizes: Sizes) -> Self {
        Self(sizes.parameters().iter().map(|&len| heap::zeros(len)).collect())
    }

    pub fn attention(&mut self) -> AttentionGrads<'_> {
        let [scale, bias, qkv, qkv_bias, out, out_bias] =
            self.0.get_disjoint_mut([0, 1, 2, 3, 4, 5]).expect("distinct");
        AttentionGrads { norm: NormGrads { scale, bias }, qkv, qkv_bias, out, out_bias, bias: None }
    }

    pub fn mlp(&mut self) -> MlpGrads<'_> {
        let [scale, bias, fc1, fc1_bias, fc2, fc2_bias] =
            self.0.get_disjoint_mut([6, 7, 8, 9, 10, 11]).expect("distinct");
        MlpGrads { norm: NormGrads { scale, bias }, fc1, fc1_bias, fc2, fc2_bias }
    }
}
