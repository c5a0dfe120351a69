//! The coupling: two streams, each changed by a function of the other, so that the change can be undone.
//!
//! ```text
//! Y1 = X1 + F(X2)          X2 = Y2 - G(Y1)
//! Y2 = X2 + G(Y1)          X1 = Y1 - F(X2)
//! ```
//! (Dinh et al., *NICE*, 2015; Gomez et al., *The reversible residual network*, 2017.)

use burn::module::Module;

use crate::turn::{Turn, turns};
use crate::{
    Activity, AnySaved, Block, BlockFootprint, Context, Direction, Footprint, Gradients, Holder, Residual,
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
        let turns = turns(self, y1.dims(), context, context.room());
        let scratch = turns.as_ref().map_or([0; 2], |turns| turns.each_ref().map(|turn| turn.scratch));
        let [in_f, in_g] =
            turns.map_or_else(|| branches(&context.recovering()), |turns| turns.map(|turn| turn.context));
        let temporaries = context.hold(Holder::Scratch, scratch[1]);
        let (x2, g) = context.note(Activity::Recover, || {
            self.g().forward_saving_onto(y1.clone(), y2, Direction::Subtract, &in_g)
        });
        let held = context.hold(Holder::Blocks, g.bytes());
        let dx1 = context.note(Activity::Grads, || self.g().vjp_onto(g, dy2.clone(), dy1, &in_g, gradients));
        drop((held, temporaries));
        let _temporaries = context.hold(Holder::Scratch, scratch[0]);
        let (x1, f) = context.note(Activity::Recover, || {
            self.f().forward_saving_onto(x2.clone(), y1, Direction::Subtract, &in_f)
        });
        let _held = context.hold(Holder::Blocks, f.bytes());
        let dx2 = context.note(Activity::Grads, || self.f().vjp_onto(f, dx1.clone(), dy2, &in_f, gradients));
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
        let turns = turns(self, dims, context, 0)?;
        let reversed = turns.iter().map(|turn| turn.saved).fold(0, u64::max);
        Some(BlockFootprint {
            reversed,
            reverse: turns.iter().map(Turn::bytes).fold(0, u64::max) - reversed,
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
