//! The branch of a reversible residual block: convolutions, each with batch norm and `ReLU`, no residual inside.
//!
//! ```text
//! basic:       relu(BN(conv3x3(relu(BN(conv3x3(x))))))
//! bottleneck:  relu(BN(conv1x1(relu(BN(conv3x3(relu(BN(conv1x1(x)))))))))
//! ```
//! Saved: the input and each norm's normalised output; what the next convolution saw is one pass away from it.

mod fused;

use burn::config::Config;
use burn::module::Module;
use burn::tensor::Tensor;

use crate::layers::ways::{BurnWay, Rates};
use crate::{Context, Footprint, Gradients, Saved, Storing};

use super::super::Initial;
use super::unit::{Above, Seen, UnitSaved, bytes, run_row, saved_bytes};
use super::{ConvNorm, ConvolutionConfig};

/// Settings of a [`ConvBranch`].
#[derive(Config, Debug)]
pub struct ConvBranchConfig {
    /// The convolutions, from the first to the last.
    pub convolutions: Vec<ConvolutionConfig>,
}

impl ConvBranchConfig {
    /// Two 3x3 convolutions of `width` channels.
    pub fn basic(width: usize) -> Self {
        Self::new(vec![ConvolutionConfig::new(width, width, 3), ConvolutionConfig::new(width, width, 3)])
    }

    /// From `width` channels to `inner` ones, a 3x3 convolution there, and back.
    pub fn bottleneck(width: usize, inner: usize) -> Self {
        Self::new(vec![
            ConvolutionConfig::new(width, inner, 1),
            ConvolutionConfig::new(inner, inner, 3),
            ConvolutionConfig::new(inner, width, 1),
        ])
    }

    /// A branch with initial parameters.
    pub fn init(&self, initial: &mut Initial) -> ConvBranch {
        ConvBranch { layers: self.convolutions.iter().map(|config| ConvNorm::new(config, initial)).collect() }
    }
}

/// Convolutions in a row, each with batch norm and `ReLU`.
///
/// # Shapes
///
/// `[batch, height, width, channels] -> [batch, height, width, channels]`
#[derive(Module, Debug)]
pub struct ConvBranch {
    /// From the first to the last.
    pub layers: Vec<ConvNorm>,
}

/// What the derivative needs.
pub struct BranchSaved {
    x: Tensor<4>,
    units: Vec<UnitSaved>,
}

impl Saved for BranchSaved {
    fn bytes(&self) -> u64 {
        self.x.bytes() + self.units.bytes()
    }

    fn store(&mut self, storing: &Storing<'_>) {
        self.x.store(storing);
        self.units.store(storing);
    }
}

impl BranchSaved {
    pub(super) fn new(x: Tensor<4>, units: Vec<UnitSaved>) -> Self {
        Self { x, units }
    }

    pub(super) fn input(&self) -> Tensor<4> {
        self.x.clone()
    }
}

impl ConvBranch {
    /// The gradient of the input, with `beside` added to that of the first layer's output before its `ReLU`.
    pub(super) fn row_vjp(
        &self,
        BranchSaved { x, mut units }: BranchSaved,
        dy: Tensor<4>,
        beside: Option<&Tensor<4>>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Tensor<4> {
        let mut layers = self.layers.iter().rev();
        let mut dy = dy;
        while let (Some(layer), Some(saved)) = (layers.next(), units.pop()) {
            let beside = beside.filter(|_| units.is_empty()).cloned();
            let above = Above { beside, ..Above::relu(dy) };
            // What the layer saw: the output of the one below, or the input.
            let below = units.last().zip(layers.clone().next());
            let input = || below.map_or_else(|| x.clone(), |(saved, below)| below.activation(saved));
            let dims = below.map_or_else(|| x.dims(), |(saved, _)| saved.dims());
            dy = layer.input_vjp(Seen { x: input, dims }, saved, above, context, gradients);
        }
        dy
    }

    /// Shapes of what each layer sees, and of the output.
    fn shapes(&self, dims: [usize; 4]) -> Vec<[usize; 4]> {
        let mut shapes = vec![dims];
        for layer in &self.layers {
            shapes.push(layer.conv.output(shapes[shapes.len() - 1]));
        }
        shapes
    }
}

/// Convolution by convolution; where the whole branch runs on a kernel of its own is written beside.
impl BurnWay<4> for ConvBranch {
    type BurnSaved = BranchSaved;

    fn rates(&self) -> Rates {
        Rates::NONE
    }

    fn burn_forward(&self, x: Tensor<4>, context: &Context<'_>) -> (Tensor<4>, BranchSaved) {
        let (y, units) = run_row(&self.layers, x.clone(), context);
        (y, BranchSaved { x, units })
    }

    fn burn_vjp(
        &self,
        saved: BranchSaved,
        dy: Tensor<4>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Tensor<4> {
        self.row_vjp(saved, dy, None, context, gradients)
    }

    fn burn_footprint(&self, dims: [usize; 4], context: &Context<'_>) -> Footprint {
        let shapes = self.shapes(dims);
        let units = self.layers.iter().zip(shapes.iter().copied());
        let [saved, spared] = saved_bytes(bytes(dims), units, context);
        let widest = shapes.iter().map(|&shape| bytes(shape)).max().unwrap_or(0);
        Footprint { saved, forward: 2 * widest, vjp: 4 * widest, spared }
    }
}
