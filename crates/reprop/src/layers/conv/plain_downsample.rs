//! The first block of a stage of an ordinary residual network: `y = BN(conv1x1(x)) + branch(x)` on one stream.

use burn::module::Module;
use burn::tensor::Tensor;

use crate::layers::ways::BurnWay;
use crate::{AnySaved, Context, Footprint, Gradients, Saved, Storing, Streams, Transition};

use super::super::Initial;
use super::branch::BranchSaved;
use super::unit::{Above, Seen, UnitSaved, bytes, run_row, saved_bytes};
use super::{ConvBranch, ConvNorm, Downsample, DownsampleConfig};

/// The first block of a stage.
///
/// # Shapes
///
/// `[batch, height, width, from] -> [batch, height / stride, width / stride, to]`, rounded up
#[derive(Module, Debug)]
pub struct PlainDownsample {
    /// What is added.
    pub branch: ConvBranch,
    /// What the stream becomes.
    pub shortcut: ConvNorm,
}

impl PlainDownsample {
    /// A block with initial parameters: that of a reversible network, without what carries the second stream.
    pub fn new(config: &DownsampleConfig, initial: &mut Initial) -> Self {
        let Downsample { branch, shortcut, .. } = config.init(initial);
        Self { branch, shortcut }
    }
}

struct PlainSaved {
    x: Tensor<4>,
    branch: BranchSaved,
    shortcut: UnitSaved,
}

impl Saved for PlainSaved {
    fn bytes(&self) -> u64 {
        self.x.bytes() + self.branch.bytes() + self.shortcut.bytes()
    }

    fn store(&mut self, storing: &Storing<'_>) {
        self.x.store(storing);
        self.branch.store(storing);
        self.shortcut.store(storing);
    }
}

impl Transition<4> for PlainDownsample {
    fn forward_saving(&self, x: Streams<4>, context: &Context<'_>) -> (Streams<4>, AnySaved) {
        let x = x.x2;
        let shortcut = self.shortcut.run(x.clone(), context);
        let (change, units) = run_row(&self.branch.layers, x.clone(), context);
        let y = self.shortcut.output_onto(&shortcut, change);
        let branch = BranchSaved::new(x.clone(), units);
        (Streams::duplicate(y), AnySaved::new(PlainSaved { x, branch, shortcut }))
    }

    fn vjp(
        &self,
        saved: AnySaved,
        dy: Streams<4>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Streams<4> {
        let PlainSaved { x, branch, shortcut } = saved.into::<PlainSaved>();
        let dy = dy.x1 + dy.x2;
        let dims = x.dims();
        let dx = self.shortcut.input_vjp(
            Seen { x: || x, dims },
            shortcut,
            Above::output(dy.clone()),
            context,
            gradients,
        ) + self.branch.row_vjp(branch, dy, None, context, gradients);
        Streams::new(dx.zeros_like(), dx)
    }

    fn footprint(&self, dims: [usize; 4], context: &Context<'_>) -> Option<([usize; 4], Footprint)> {
        let output = self.shortcut.conv.output(dims);
        let branch = self.branch.burn_footprint(dims, context);
        let [saved, spared] = saved_bytes(bytes(dims), [(&self.shortcut, dims)], context);
        let size = Footprint {
            saved: branch.saved + saved,
            forward: branch.forward + bytes(output),
            vjp: branch.vjp + bytes(dims),
            spared: branch.spared + spared,
        };
        Some((output, size))
    }
}
