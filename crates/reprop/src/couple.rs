//! The coupling: two streams, each changed by a function of the other, so that the change can be undone.
//!
//! ```text
//! Y1 = X1 + F(X2)          X2 = Y2 - G(Y1)
//! Y2 = X2 + G(Y1)          X1 = Y1 - F(X2)
//! ```
//! (Dinh et al., *NICE*, 2015; Gomez et al., *The reversible residual network*, 2017.)

use burn::module::Module;

use crate::{
    AnySaved, Block, BlockFootprint, Context, Direction, Footprint, Gradients, Holder, Residual, Reversal,
    Saved, Storing, Streams,
};

/// Masks of F and of G are different sites of one block.
const BRANCH_F: u64 = 0;
const BRANCH_G: u64 = 1;

/// A block that is a coupling of two sub-blocks. Implement it to give F and G names of your own; [`Coupling`] does
/// where `f` and `g` are good enough.
///
/// ```
/// use burn::module::Module;
/// use reprop::{Couple, Residual};
///
/// #[derive(Module, Debug)]
/// struct TransformerBlock<A: Module, M: Module> {
///     attention: A,
///     mlp: M,
/// }
///
/// impl<A: Module + Residual<3>, M: Module + Residual<3>> Couple<3> for TransformerBlock<A, M> {
///     type F = A;
///     type G = M;
///
///     fn f(&self) -> &A {
///         &self.attention
///     }
///
///     fn g(&self) -> &M {
///         &self.mlp
///     }
/// }
/// ```
pub trait Couple<const D: usize>: Send + Sync {
    /// The sub-block that changes `X1`.
    type F: Residual<D>;
    /// The sub-block that changes `X2`.
    type G: Residual<D>;

    /// F.
    fn f(&self) -> &Self::F;

    /// G.
    fn g(&self) -> &Self::G;
}

/// A coupling of any two sub-blocks.
#[derive(Module, Debug)]
pub struct Coupling<F: Module, G: Module> {
    /// Changes `X1` by a function of `X2`.
    pub f: F,
    /// Changes `X2` by a function of the new `X1`.
    pub g: G,
}

impl<F: Module, G: Module> Coupling<F, G> {
    /// The coupling of `f` and `g`.
    pub fn new(f: F, g: G) -> Self {
        Self { f, g }
    }
}

impl<const D: usize, F, G> Couple<D> for Coupling<F, G>
where
    F: Module + Residual<D>,
    G: Module + Residual<D>,
{
    type F = F;
    type G = G;

    fn f(&self) -> &F {
        &self.f
    }

    fn g(&self) -> &G {
        &self.g
    }
}

/// The contexts of F and of G.
pub(crate) fn branches<'p>(context: &Context<'p>) -> [Context<'p>; 2] {
    [BRANCH_F, BRANCH_G].map(|branch| context.branch(branch))
}

/// What both halves of a coupling saved.
struct CoupleSaved<F, G> {
    f: F,
    g: G,
}

impl<F: Saved, G: Saved> Saved for CoupleSaved<F, G> {
    fn bytes(&self) -> u64 {
        self.f.bytes() + self.g.bytes()
    }

    fn store(&mut self, storing: &Storing<'_>) {
        self.f.store(storing);
        self.g.store(storing);
    }
}

impl<const D: usize, C: Couple<D>> Block<D> for C {
    fn forward(&self, Streams { x1, x2 }: Streams<D>, context: &Context<'_>) -> Streams<D> {
        let [f, g] = branches(context);
        let y1 = self.f().forward_onto(x2.clone(), x1, Direction::Add, &f);
        let y2 = self.g().forward_onto(y1.clone(), x2, Direction::Add, &g);
        Streams::new(y1, y2)
    }

    fn forward_saving(
        &self,
        Streams { x1, x2 }: Streams<D>,
        context: &Context<'_>,
    ) -> (Streams<D>, AnySaved) {
        let [in_f, in_g] = branches(context);
        let (y1, f) = self.f().forward_saving_onto(x2.clone(), x1, Direction::Add, &in_f);
        let (y2, g) = self.g().forward_saving_onto(y1.clone(), x2, Direction::Add, &in_g);
        (Streams::new(y1, y2), AnySaved::new(CoupleSaved { f, g }))
    }

    fn inverse(&self, Streams { x1: y1, x2: y2 }: Streams<D>, context: &Context<'_>) -> Streams<D> {
        let [f, g] = branches(context);
        let x2 = self.g().forward_onto(y1.clone(), y2, Direction::Subtract, &g);
        let x1 = self.f().forward_onto(x2.clone(), y1, Direction::Subtract, &f);
        Streams::new(x1, x2)
    }

    fn recover(
        &self,
        Streams { x1: y1, x2: y2 }: Streams<D>,
        context: &Context<'_>,
    ) -> (Streams<D>, AnySaved) {
        let [in_f, in_g] = branches(&context.recovering());
        let (x2, g) = self.g().forward_saving_onto(y1.clone(), y2, Direction::Subtract, &in_g);
        let (x1, f) = self.f().forward_saving_onto(x2.clone(), y1, Direction::Subtract, &in_f);
        (Streams::new(x1, x2), AnySaved::new(CoupleSaved { f, g }))
    }

    fn grads(
        &self,
        saved: AnySaved,
        Streams { x1: dy1, x2: dy2 }: Streams<D>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Streams<D> {
        let CoupleSaved { f, g } =
            saved.into::<CoupleSaved<<C::F as Residual<D>>::Saved, <C::G as Residual<D>>::Saved>>();
        let [in_f, in_g] = branches(context);
        let dx1 = self.g().vjp_onto(g, dy2.clone(), dy1, &in_g, gradients);
        let dx2 = self.f().vjp_onto(f, dx1.clone(), dy2, &in_f, gradients);
        Streams::new(dx1, dx2)
    }

    fn reverse(
        &self,
        Streams { x1: y1, x2: y2 }: Streams<D>,
        Streams { x1: dy1, x2: dy2 }: Streams<D>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> (Streams<D>, Streams<D>) {
        let dims = y1.dims();
        let [in_f, in_g] = branches(&context.recovering());
        let temporaries =
            |told: Option<Reversal>| context.hold(Holder::Scratch, told.map_or(0, |told| told.scratch));
        let held = temporaries(self.g().reversal(dims, &in_g));
        let (x2, dx1) = self.g().reverse_onto(y1.clone(), y2, dy2.clone(), dy1, &in_g, gradients);
        drop(held);
        let _held = temporaries(self.f().reversal(dims, &in_f));
        let (x1, dx2) = self.f().reverse_onto(x2.clone(), y1, dx1.clone(), dy2, &in_f, gradients);
        (Streams::new(x1, x2), Streams::new(dx1, dx2))
    }

    fn watches_range(&self) -> bool {
        self.f().watches_range() && self.g().watches_range()
    }

    fn shared_work(&self, dims: [usize; D], context: &Context<'_>) -> usize {
        self.f().shared_work(dims, context).min(self.g().shared_work(dims, context))
    }

    fn footprint(&self, dims: [usize; D], context: &Context<'_>) -> Option<BlockFootprint> {
        let stream = dims.iter().product::<usize>() as u64 * size_of::<f32>() as u64;
        let f: Footprint = self.f().footprint(dims, context)?;
        let g: Footprint = self.g().footprint(dims, context)?;
        let again = context.recovering();
        let recovered = [self.f().footprint(dims, &again)?.saved, self.g().footprint(dims, &again)?.saved];
        // What F and G need one after the other: what one saved is gone before the other is recovered.
        let reversals = [self.f().reversal(dims, &again)?, self.g().reversal(dims, &again)?];
        let reversed = reversals.iter().map(|told| told.saved).fold(0, u64::max);
        Some(BlockFootprint {
            reversed,
            reverse: reversals.iter().map(Reversal::bytes).fold(0, u64::max) - reversed,
            saved: f.saved + g.saved,
            recovered: recovered.iter().sum(),
            // The change, which is added in place, and what makes it. A forward runs F before G's saved tensors are
            // there, a recover runs G before F's are.
            forward: stream + g.forward.max(f.forward.saturating_sub(g.saved)),
            recover: stream + f.forward.max(g.forward.saturating_sub(recovered[0])),
            // G's derivative runs while F's saved tensors wait, F's when G's are gone.
            grads: g.vjp.max(f.vjp.saturating_sub(g.saved)),
            spared: f.spared + g.spared,
        })
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Tensor, TensorData};

    use super::*;
    use crate::{Meter, Pass};

    const WIDTH: usize = 8;
    const BYTES: u64 = (WIDTH * size_of::<f32>()) as u64;

    /// `F(x) = 2 x`, which saves so many tensors.
    struct Double(usize);

    impl Residual<1> for Double {
        type Saved = Vec<Tensor<1>>;

        fn forward_saving(&self, x: Tensor<1>, _: &Context<'_>) -> (Tensor<1>, Self::Saved) {
            (x.clone() * 2.0, vec![x; self.0])
        }

        fn vjp(&self, _: Self::Saved, dy: Tensor<1>, _: &Context<'_>, _: &mut Gradients) -> Tensor<1> {
            dy * 2.0
        }

        fn footprint(&self, _: [usize; 1], _: &Context<'_>) -> Option<Footprint> {
            Some(Footprint { saved: self.0 as u64 * BYTES, ..Footprint::default() })
        }
    }

    struct Pair {
        f: Double,
        g: Double,
    }

    impl Couple<1> for Pair {
        type F = Double;
        type G = Double;

        fn f(&self) -> &Double {
            &self.f
        }

        fn g(&self) -> &Double {
            &self.g
        }
    }

    #[test]
    fn a_reverse_holds_what_one_sub_block_saved_at_a_time() {
        for (f, g) in [(3, 5), (5, 3)] {
            let pair = Pair { f: Double(f), g: Double(g) };
            let meter = Meter::new();
            let pass = Pass::training(0).meter(meter.clone());
            let ones = || Tensor::ones([WIDTH], &Device::flex());
            let streams = || Streams::new(ones(), ones());
            let context = pass.context(0);
            let (x, dx) = pair.reverse(streams(), streams(), &context, &mut Gradients::new(&meter));
            // X2 = 1 - 2, X1 = 1 - 2 X2; dX1 = 1 + 2, dX2 = 1 + 2 dX1.
            let data = |x: [f32; 2]| x.map(|x| TensorData::from([x; WIDTH]));
            assert_eq!([x.x1, x.x2].map(Tensor::into_data), data([3.0, -1.0]));
            assert_eq!([dx.x1, dx.x2].map(Tensor::into_data), data([3.0, 7.0]));
            // The change that is added in place takes one tensor more.
            assert_eq!(meter.report().activation_peak, 6 * BYTES);
            let told = pair.footprint([WIDTH], &context).expect("both tell their bytes");
            assert_eq!(told.reversed + told.reverse, 6 * BYTES);
        }
    }
}
