//! The first block of a stage of a residual network, where images shrink or channels grow: an ordinary block between
//! reversible stages.
//!
//! ```text
//! basic:       h = BN(conv3x3(x2)),  y1 = h,                 y2 = BN(conv1x1(x1)) + relu(BN(conv3x3(relu(h))))
//! bottleneck:                        y1 = BN(conv1x1(x2)),   y2 = BN(conv1x1(x1)) + branch(x2)
//! ```
//! (*PETRA*; `x2` is `x` there and `x1` is `x~`, and the streams have changed places as after every block.)

use burn::config::Config;
use burn::module::Module;
use burn::tensor::Tensor;

use crate::kernels::grid_of;
use crate::layers::ways::BurnWay;
use crate::{AnySaved, Context, Footprint, Gradients, Saved, Storing, Streams, Transition};

use super::super::Initial;
use super::branch::BranchSaved;
use super::unit::{Above, Seen, UnitSaved, bytes, entering, run_units, saved_bytes};
use super::{ConvBranch, ConvBranchConfig, ConvNorm, ConvolutionConfig};

/// Settings of a [`Downsample`].
#[derive(Config, Debug)]
pub struct DownsampleConfig {
    /// Channels of the streams before.
    pub from: usize,
    /// Channels of the streams after.
    pub to: usize,
    /// By how much images shrink.
    pub stride: usize,
    /// Channels inside a bottleneck; a basic block without.
    pub inner: Option<usize>,
}

impl DownsampleConfig {
    /// A block with initial parameters.
    pub fn init(&self, initial: &mut Initial) -> Downsample {
        let Self { from, to, stride, inner } = *self;
        let convolutions = match inner {
            None => vec![
                ConvolutionConfig::new(from, to, 3).with_stride(stride),
                ConvolutionConfig::new(to, to, 3),
            ],
            Some(inner) => vec![
                ConvolutionConfig::new(from, inner, 1),
                ConvolutionConfig::new(inner, inner, 3).with_stride(stride),
                ConvolutionConfig::new(inner, to, 1),
            ],
        };
        let pointwise = ConvolutionConfig::new(from, to, 1).with_stride(stride);
        Downsample {
            branch: ConvBranchConfig::new(convolutions).init(initial),
            shortcut: ConvNorm::new(&pointwise, initial),
            carry: inner.map(|_| ConvNorm::new(&pointwise, initial)),
        }
    }
}

/// The first block of a stage.
///
/// # Shapes
///
/// `[batch, height, width, from] -> [batch, height / stride, width / stride, to]`, rounded up, both streams
#[derive(Module, Debug)]
pub struct Downsample {
    /// What is added to the second output.
    pub branch: ConvBranch,
    /// What the first stream becomes.
    pub shortcut: ConvNorm,
    /// What the second stream becomes; in a basic block, the branch's first layer before its `ReLU`.
    pub carry: Option<ConvNorm>,
}

struct DownsampleSaved {
    x1: Tensor<4>,
    branch: BranchSaved,
    shortcut: UnitSaved,
    carry: Option<UnitSaved>,
}

impl Saved for DownsampleSaved {
    fn bytes(&self) -> u64 {
        self.x1.bytes() + self.branch.bytes() + self.shortcut.bytes() + self.carry.bytes()
    }

    fn store(&mut self, storing: &Storing<'_>) {
        self.x1.store(storing);
        self.branch.store(storing);
        self.shortcut.store(storing);
        self.carry.store(storing);
    }
}

impl Transition<4> for Downsample {
    fn forward_saving(
        &self,
        Streams { x1, x2 }: Streams<4>,
        context: &Context<'_>,
    ) -> (Streams<4>, AnySaved) {
        let shortcut = self.shortcut.run(x1.clone(), context);
        let units = run_units(&self.branch.layers, &x2, context);
        let carry = self.carry.as_ref().map(|carry| carry.run(x2.clone(), context));
        let carried = match (&self.carry, &carry) {
            (Some(layer), Some(saved)) => (layer, saved),
            _ => (&self.branch.layers[0], &units[0]),
        };
        let y1 = entering(carried, false, None, context);
        let last = units.len() - 1;
        let change = (&self.branch.layers[last], &units[last]);
        let y2 = entering(change, true, Some((&self.shortcut, &shortcut)), context);
        let branch = BranchSaved::new(x2, units);
        (Streams::new(y1, y2), AnySaved::new(DownsampleSaved { x1, branch, shortcut, carry }))
    }

    fn enters(&self, context: &Context<'_>) -> bool {
        self.shortcut.fuses(context) && grid_of(context).is_some()
    }

    fn vjp(
        &self,
        saved: AnySaved,
        Streams { x1: dy1, x2: dy2 }: Streams<4>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Streams<4> {
        let DownsampleSaved { x1, branch, shortcut, carry } = saved.into::<DownsampleSaved>();
        let (dims, x2) = (x1.dims(), branch.input());
        let dx1 = self.shortcut.input_vjp(
            Seen { x: || x1, dims },
            shortcut,
            Above::output(dy2.clone()),
            context,
            gradients,
        );
        let dx2 = match (&self.carry, carry) {
            (Some(layer), Some(saved)) => {
                let carried =
                    layer.input_vjp(Seen { x: || x2, dims }, saved, Above::output(dy1), context, gradients);
                carried + self.branch.row_vjp(branch, dy2, None, context, gradients)
            }
            _ => self.branch.row_vjp(branch, dy2, Some(&dy1), context, gradients),
        };
        Streams::new(dx1, dx2)
    }

    fn footprint(&self, dims: [usize; 4], context: &Context<'_>) -> Option<([usize; 4], Footprint)> {
        let output = self.shortcut.conv.output(dims);
        let branch = self.branch.burn_footprint(dims, context);
        let ends = [Some(&self.shortcut), self.carry.as_ref()].into_iter().flatten();
        let [saved, spared] = saved_bytes(bytes(dims), ends.map(|unit| (unit, dims)), context);
        let size = Footprint {
            saved: branch.saved + saved,
            forward: branch.forward + bytes(output),
            vjp: branch.vjp + bytes(dims),
            spared: branch.spared + spared,
        };
        Some((output, size))
    }
}
