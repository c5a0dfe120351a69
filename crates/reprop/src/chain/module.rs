//! Chains whose steps are a Burn module's, differentiated by Burn's autodiff.

use std::marker::PhantomData;

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};

use super::{Recurrence, State, Tensors, Unreadable};
use crate::autodiff::{leaves, untracked};
use crate::{Gradients, Precision};

/// A chain of `step(module, i, state) -> (next state, loss of the step)`. Each recorded step gets a graph with leaves of
/// its own, which dies with the step.
///
/// The loss of the chain is the sum of its steps' losses; a loss of the last state alone is the last step's.
///
/// ```
/// use burn::nn::{Linear, LinearConfig};
/// use burn::tensor::{Device, Tensor, activation::tanh};
/// use reprop::chain::{Chain, Checkpointed, ModuleSteps};
/// use reprop_schedule::Revolve;
///
/// let device = Device::flex();
/// let cell = LinearConfig::new(3, 3).init(&device.clone().autodiff());
/// let steps = ModuleSteps::new(&cell, |cell: &Linear, step: usize, h: Tensor<2>| {
///     let h = tanh(cell.forward(h));
///     let loss = (step % 10 == 9).then(|| h.clone().square().mean());
///     (h, loss)
/// });
/// let (start, sum) = (Tensor::ones([2, 3], &device), steps.sum());
/// let done = Chain::new(steps).run(start, sum, Checkpointed::schedule(Revolve::new(50, 4)?))?;
/// assert!(done.sum.loss > 0.0);
/// let gradients = done.sum.into_gradients(&cell);
/// assert_eq!(gradients.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ModuleSteps<M, S, F> {
    module: M,
    /// With no graph, but with the operations of one: off a graph Burn rounds otherwise.
    untracked: M,
    step: F,
    kind: PhantomData<fn(S)>,
}

impl<M: Module, S: Tensors, F> ModuleSteps<M, S, F>
where
    F: FnMut(&M, usize, S) -> (S, Option<Tensor<1>>),
{
    /// The chain of these steps, all with the parameters of `module`.
    pub fn new(module: &M, step: F) -> Self {
        Self { module: module.clone(), untracked: untracked(module, Precision::F32), step, kind: PhantomData }
    }

    /// No gradients yet.
    pub fn sum(&self) -> ModuleSum {
        ModuleSum::new(&self.module)
    }
}

/// A step that waits for its reverse.
pub struct StepGraph<M, S> {
    module: M,
    input: S,
    output: S,
    loss: Option<Tensor<1>>,
}

impl<M: Module, S: Tensors, F> Recurrence for ModuleSteps<M, S, F>
where
    F: FnMut(&M, usize, S) -> (S, Option<Tensor<1>>),
{
    type State = S;
    type Adjoint = S;
    type Tape = StepGraph<M, S>;
    type Sum = ModuleSum;

    fn advance(&mut self, step: usize, state: S) -> S {
        (self.step)(&self.untracked, step, state.untracked()).0.plain()
    }

    fn record(&mut self, step: usize, state: S) -> (S, Self::Tape) {
        let module = leaves(&self.module, Precision::F32);
        let input = state.leaves();
        let (output, loss) = (self.step)(&module, step, input.clone());
        (output.clone().plain(), StepGraph { module, input, output, loss })
    }

    fn seed(&mut self, last: &S, _: &mut ModuleSum) -> S {
        last.zeros()
    }

    fn reverse(&mut self, _: usize, tape: Self::Tape, adjoint: S, sum: &mut ModuleSum) -> S {
        let StepGraph { module, input, output, loss } = tape;
        let mut whole = output.weighted(adjoint);
        if let Some(loss) = loss {
            sum.loss += loss.clone().inner().into_scalar::<f64>();
            whole = whole + loss;
        }
        let mut found = whole.backward();
        let adjoint = input.gradients(&mut found);
        sum.add(&module, GradientsParams::from_grads(found, &module));
        adjoint
    }

    fn tape_bytes(&self, tape: &Self::Tape) -> usize {
        // Burn does not tell what a graph holds; its ends are what is known.
        tape.input.bytes() + tape.output.bytes()
    }
}

/// Gradients of a module's parameters, and the loss, added up over the steps of a chain.
///
/// A parameter is known by its place in the module, so that a run in another process can go on with it.
#[derive(Clone)]
pub struct ModuleSum {
    /// The sum of all losses.
    pub loss: f64,
    device: Device,
    /// Flat, in the order in which the module visits its parameters; none where there is no gradient yet.
    gradients: Vec<Option<Tensor<1>>>,
}

impl ModuleSum {
    /// No gradients of `module` yet.
    pub fn new<M: Module>(module: &M) -> Self {
        let mut count = Count { parameters: 0, device: None };
        module.visit(&mut count);
        let device = count.device.unwrap_or_default();
        Self { loss: 0.0, device, gradients: vec![None; count.parameters] }
    }

    fn add<M: Module>(&mut self, module: &M, found: GradientsParams) {
        module.visit(&mut Add { sums: self.gradients.iter_mut(), found });
    }

    /// The gradients as Burn's optimizers take them.
    pub fn into_gradients<M: Module>(self, module: &M) -> GradientsParams {
        let mut take = Take { sums: self.gradients.into_iter(), gradients: GradientsParams::new() };
        module.visit(&mut take);
        take.gradients
    }

    /// Adds the gradients to those of another pass.
    pub fn add_to<M: Module>(self, module: &M, gradients: &mut Gradients) {
        let found = self.into_gradients(module);
        gradients.add_all(module, found);
    }
}

struct Count {
    parameters: usize,
    device: Option<Device>,
}

impl ModuleVisitor for Count {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.parameters += 1;
        self.device.get_or_insert_with(|| param.val().inner().device());
    }
}

struct Add<'s> {
    sums: std::slice::IterMut<'s, Option<Tensor<1>>>,
    found: GradientsParams,
}

impl ModuleVisitor for Add<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let (Some(sum), Some(found)) = (self.sums.next(), self.found.remove::<D>(param.id)) {
            let elements = found.shape().num_elements();
            let found = found.reshape([elements]);
            *sum = Some(match sum.take() {
                Some(before) => before + found,
                None => found,
            });
        }
    }
}

struct Take {
    sums: std::vec::IntoIter<Option<Tensor<1>>>,
    gradients: GradientsParams,
}

impl ModuleVisitor for Take {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(Some(sum)) = self.sums.next() {
            self.gradients.register(param.id, sum.reshape::<D, _>(param.dims()));
        }
    }
}

impl State for ModuleSum {
    fn bytes(&self) -> usize {
        let gradients = self.gradients.iter().map(|sum| 1 + sum.as_ref().map_or(0, State::bytes));
        self.loss.bytes() + gradients.sum::<usize>()
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.loss.write(out);
        for sum in &self.gradients {
            out.push(u8::from(sum.is_some()));
            if let Some(sum) = sum {
                sum.write(out);
            }
        }
    }

    fn read(&self, bytes: &mut &[u8]) -> Result<Self, Unreadable> {
        let loss = self.loss.read(bytes)?;
        let kind = Tensor::<1>::empty([0], &self.device);
        let gradients = (self.gradients.iter())
            .map(|_| Ok(if 0u8.read(bytes)? == 0 { None } else { Some(kind.read(bytes)?) }))
            .collect::<Result<_, Unreadable>>()?;
        Ok(Self { loss, device: self.device.clone(), gradients })
    }
}
