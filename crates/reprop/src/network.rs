//! A whole network: stem, pieces, head, and the calls that users make.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

use crate::engine::{self, Tape};
use crate::planner;
use crate::{
    Costs, Gradients, Head, MemoryReport, Pass, Piece, Plan, Prediction, Result, Statistics, Stem, Strategy,
    Streams,
};

/// The input of a network.
pub type Input<const D: usize, N> = <<N as Network<D>>::Stem as Stem<D>>::Input;
/// What a network's output is compared with.
pub type Target<const D: usize, N> = <<N as Network<D>>::Head as Head<D>>::Target;
/// What a network says.
pub type Output<const D: usize, N> = <<N as Network<D>>::Head as Head<D>>::Output;

/// A network of reversible stages: an ordinary Burn module that also tells its parts.
///
/// Implement the three methods that name the parts; the others come with it.
pub trait Network<const D: usize>: Module {
    /// What comes before the first block.
    type Stem: Stem<D>;
    /// What comes after the last one.
    type Head: Head<D>;

    /// What comes before the first block.
    fn stem(&self) -> &Self::Stem;

    /// Blocks and transitions, in the order of the forward pass.
    fn pieces(&self) -> Vec<Piece<'_, D>>;

    /// What comes after the last one.
    fn head(&self) -> &Self::Head;

    /// A parameter that stem and head both use, by name: such ends cannot be parted.
    fn shared_by_ends(&self) -> Option<&'static str> {
        None
    }

    /// How many places it has: the stem, the pieces, the head. A [`Stage`](crate::Stage) is a run of them.
    fn places(&self) -> usize {
        self.pieces().len() + 2
    }

    /// The output alone: nothing is kept.
    ///
    /// # Errors
    ///
    /// A shape that does not fit, or streams out of range.
    fn predict(&self, input: Input<D, Self>, pass: &Pass) -> Result<Output<D, Self>> {
        engine::predict(self, input, pass)
    }

    /// The streams as the head sees them: with [`Self::inverse`], a way to look inside.
    ///
    /// # Errors
    ///
    /// A shape that does not fit, or streams out of range.
    fn streams(&self, input: Input<D, Self>, pass: &Pass) -> Result<Streams<D>> {
        engine::streams(self, input, pass)
    }

    /// The inputs of the last stage from its outputs.
    fn inverse(&self, y: Streams<D>, pass: &Pass) -> Streams<D> {
        engine::inverse(self, y, pass)
    }

    /// A forward pass that keeps what `strategy` needs for its backward. Several may be open at once, and they may be
    /// reversed in any order.
    ///
    /// # Errors
    ///
    /// A shape that does not fit, nothing to train, streams out of range, a loss that is not finite, or a budget that
    /// no strategy can meet.
    fn record(
        &self,
        input: Input<D, Self>,
        target: Target<D, Self>,
        pass: Pass,
        strategy: Strategy,
    ) -> Result<Tape<'_, D, Self>> {
        engine::record(self, input, target, pass, strategy)
    }

    /// Loss, output and gradients of one batch.
    ///
    /// # Errors
    ///
    /// As [`Self::record`].
    fn step(
        &self,
        input: Input<D, Self>,
        target: Target<D, Self>,
        pass: Pass,
        strategy: Strategy,
    ) -> Result<Step<Output<D, Self>>> {
        let mut gradients = Gradients::new(pass.metering());
        let meter = pass.metering().clone();
        let workspace = pass.pool().clone();
        let tape = self.record(input, target, pass, strategy)?;
        let (loss, output) = tape.backward(&mut gradients)?;
        let memory = meter.report().beside(workspace.idle());
        let statistics = gradients.take_statistics();
        Ok(Step { loss, output, gradients: gradients.into_params(), statistics, memory })
    }

    /// The bytes and forward evaluations that `strategy` will need for a batch of `batch` samples, or `None` where a
    /// part cannot tell its own.
    ///
    /// # Errors
    ///
    /// A budget that no strategy can meet.
    fn predicted(&self, batch: usize, pass: &Pass, strategy: Strategy) -> Result<Option<Prediction>> {
        engine::predicted(self, batch, pass, strategy)
    }

    /// Every mode for a batch of `batch` samples, with the bytes and the time that it will need, and the one to take
    /// under a budget of `budget` bytes of activations.
    ///
    /// # Errors
    ///
    /// A budget that no mode can meet, a part that cannot tell its bytes, or costs of another network.
    fn plan(&self, batch: usize, pass: &Pass, budget: u64, costs: &Costs) -> Result<Plan> {
        Plan::new(&engine::Sizes::of(self, batch, pass)?, batch, budget, costs)
    }

    /// Measures what every part costs on this machine, by a few steps on this batch that fit the budget. Nothing
    /// changes: gradients are thrown away. It takes a second or two, or about ten steps where they are long.
    ///
    /// # Errors
    ///
    /// As [`Self::record`] and [`Self::plan`].
    fn measure(
        &self,
        input: Input<D, Self>,
        target: Target<D, Self>,
        pass: &Pass,
        budget: u64,
    ) -> Result<Costs> {
        planner::measure(self, &input, &target, pass, budget)
    }

    /// The largest batch for which some mode fits a budget of `budget` bytes of activations.
    ///
    /// # Errors
    ///
    /// A budget that is too small for one sample, or a part that cannot tell its bytes.
    fn largest_batch(&self, pass: &Pass, budget: u64) -> Result<usize> {
        planner::largest_batch(self, pass, budget)
    }
}

/// What one batch gave.
pub struct Step<O> {
    /// The loss.
    pub loss: f32,
    /// The network's output.
    pub output: O,
    /// Gradients of all parameters that are not frozen, as Burn's optimizers take them.
    pub gradients: GradientsParams,
    /// What normalisations saw of the batch: [`Statistics::apply`] moves their running statistics.
    pub statistics: Statistics,
    /// Bytes that the pass held.
    pub memory: MemoryReport,
}

/// Whether any parameter of `module` requires gradients.
pub(crate) fn is_trainable<M: Module>(module: &M) -> bool {
    struct AnyTrainable(bool);
    impl ModuleVisitor for AnyTrainable {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0 |= param.is_require_grad();
        }
    }
    let mut visitor = AnyTrainable(false);
    module.visit(&mut visitor);
    visitor.0
}
