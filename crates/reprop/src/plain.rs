//! Ordinary residual blocks, for comparison with reversible ones: `y = x + F(x)` on one stream.
//!
//! Both streams of the network are that one stream, in one memory, and the gradient of it is the sum of theirs.

use burn::module::Module;

use crate::{AnySaved, Context, Footprint, Gradients, Residual, Streams, Transition};

/// A block that is not reversible, of a sub-block that could be one's F or G.
///
/// ```
/// use burn::tensor::Device;
/// use reprop::Plain;
/// use reprop::layers::{ConvBranchConfig, Initial};
///
/// let mut initial = Initial::new(7, &Device::flex());
/// let block = Plain::new(ConvBranchConfig::basic(16).init(&mut initial));
/// ```
#[derive(Module, Debug)]
pub struct Plain<F: Module> {
    /// What is added.
    pub f: F,
}

impl<F: Module> Plain<F> {
    /// The block of `f`.
    pub fn new(f: F) -> Self {
        Self { f }
    }
}

impl<const D: usize, F: Module + Residual<D>> Transition<D> for Plain<F> {
    fn forward_saving(&self, x: Streams<D>, context: &Context<'_>) -> (Streams<D>, AnySaved) {
        let (f, saved) = self.f.forward_saving(x.x2.clone(), context);
        (Streams::duplicate(x.x2 + f), AnySaved::new(saved))
    }

    fn vjp(
        &self,
        saved: AnySaved,
        dy: Streams<D>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Streams<D> {
        let dy = dy.x1 + dy.x2;
        let dx = self.f.vjp_onto(saved.into::<F::Saved>(), dy.clone(), dy, context, gradients);
        Streams::new(dx.zeros_like(), dx)
    }

    fn footprint(&self, dims: [usize; D], context: &Context<'_>) -> Option<([usize; D], Footprint)> {
        let stream = (dims.iter().product::<usize>() * size_of::<f32>()) as u64;
        let Footprint { saved, forward, vjp, spared } = self.f.footprint(dims, context)?;
        Some((dims, Footprint { saved, forward: forward + stream, vjp: vjp + stream, spared }))
    }
}
