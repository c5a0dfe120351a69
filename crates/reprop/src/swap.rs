//! The coupling of reversible residual networks, with one sub-block and a swap of the streams:
//!
//! ```text
//! Y1 = X2                  X2 = Y1
//! Y2 = X1 + F(X2)          X1 = Y2 - F(Y1)
//! ```
//! (Rivaud et al., *PETRA*, 2024; there `X2` is `x`, `X1` is `x~`.) Two of them in a row are a
//! [`Couple`](crate::Couple) of two sub-blocks.

use burn::module::Module;

use crate::{AnySaved, Block, BlockFootprint, Context, Direction, Footprint, Gradients, Residual, Streams};

/// A block of one sub-block, after which the streams change places.
///
/// ```
/// use burn::tensor::Device;
/// use reprop::Swap;
/// use reprop::layers::{ConvBranchConfig, Initial};
///
/// let mut initial = Initial::new(7, &Device::flex());
/// let block = Swap::new(ConvBranchConfig::basic(16).init(&mut initial));
/// ```
#[derive(Module, Debug)]
pub struct Swap<F: Module> {
    /// Changes `X1` by a function of `X2`.
    pub f: F,
}

impl<F: Module> Swap<F> {
    /// The block of `f`.
    pub fn new(f: F) -> Self {
        Self { f }
    }
}

impl<const D: usize, F: Module + Residual<D>> Block<D> for Swap<F> {
    fn forward(&self, Streams { x1, x2 }: Streams<D>, context: &Context<'_>) -> Streams<D> {
        let y2 = self.f.forward_onto(x2.clone(), x1, Direction::Add, context);
        Streams::new(x2, y2)
    }

    fn forward_saving(
        &self,
        Streams { x1, x2 }: Streams<D>,
        context: &Context<'_>,
    ) -> (Streams<D>, AnySaved) {
        let (y2, saved) = self.f.forward_saving_onto(x2.clone(), x1, Direction::Add, context);
        (Streams::new(x2, y2), AnySaved::new(saved))
    }

    fn inverse(&self, Streams { x1: y1, x2: y2 }: Streams<D>, context: &Context<'_>) -> Streams<D> {
        let x1 = self.f.forward_onto(y1.clone(), y2, Direction::Subtract, context);
        Streams::new(x1, y1)
    }

    fn recover(
        &self,
        Streams { x1: y1, x2: y2 }: Streams<D>,
        context: &Context<'_>,
    ) -> (Streams<D>, AnySaved) {
        let (x1, saved) =
            self.f.forward_saving_onto(y1.clone(), y2, Direction::Subtract, &context.recovering());
        (Streams::new(x1, y1), AnySaved::new(saved))
    }

    fn grads(
        &self,
        saved: AnySaved,
        Streams { x1: dy1, x2: dy2 }: Streams<D>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Streams<D> {
        let saved = saved.into::<F::Saved>();
        let dx2 = self.f.vjp_onto(saved, dy2.clone(), dy1, context, gradients);
        Streams::new(dy2, dx2)
    }

    fn watches_range(&self) -> bool {
        self.f.watches_range()
    }

    fn shared_work(&self, dims: [usize; D], context: &Context<'_>) -> usize {
        self.f.shared_work(dims, context)
    }

    fn footprint(&self, dims: [usize; D], context: &Context<'_>) -> Option<BlockFootprint> {
        let stream = dims.iter().product::<usize>() as u64 * size_of::<f32>() as u64;
        let Footprint { saved, forward, vjp, spared } = self.f.footprint(dims, context)?;
        // The change, which is added in place, and what makes it.
        let recovered = self.f.footprint(dims, &context.recovering())?.saved;
        let forward = stream + forward;
        Some(BlockFootprint {
            saved,
            recovered,
            forward,
            recover: forward,
            grads: vjp,
            reversed: recovered,
            reverse: forward.max(vjp),
            spared,
        })
    }
}
