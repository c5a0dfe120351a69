//! Adapters: plain Burn modules as parts of a reversible network, differentiated by Burn's autodiff.
//!
//! Each call gets **leaves of its own**: the module's parameters, taken off the graph they may belong to and put on a
//! fresh one. Two threads then never meet in one graph, which Burn 0.22.1 needs (a thread that registers a leaf while
//! another runs `backward` on the same graph can wait for ever), and a graph dies with the call that made it.

use burn::module::{Module, ModuleMapper, Param};
use burn::optim::GradientsParams;
use burn::tensor::{DType, Gradients as AutodiffGradients, Tensor};

use crate::{
    AnySaved, Context, Footprint, Gradients, Head, Precision, Residual, Result, Saved, Stem, Streams,
    Transition,
};

/// A plain Burn module that can be F or G. Wrap it in [`Autodiff`].
///
/// It must be a function of its arguments: no running statistics, and randomness only from the context
/// ([`Context::dropout`]), never from Burn's `Dropout`, which draws from a global generator and cannot be replayed.
///
/// ```
/// use burn::module::Module;
/// use burn::nn::{Linear, LinearConfig};
/// use burn::tensor::{Tensor, activation::relu};
/// use burn::tensor::Device;
/// use reprop::{Autodiff, Context, Coupling, Layer};
///
/// #[derive(Module, Debug)]
/// struct Perceptron {
///     inner: Linear,
///     outer: Linear,
/// }
///
/// impl Layer<2> for Perceptron {
///     fn forward(&self, x: Tensor<2>, context: &Context<'_>) -> Tensor<2> {
///         let hidden = context.dropout(relu(self.inner.forward(x)), 0.1, 0);
///         self.outer.forward(hidden)
///     }
/// }
///
/// let device = Device::flex().autodiff();
/// let perceptron = || Perceptron {
///     inner: LinearConfig::new(8, 16).init(&device),
///     outer: LinearConfig::new(16, 8).init(&device),
/// };
/// let block = Coupling::new(Autodiff::new(perceptron()), Autodiff::new(perceptron()));
/// ```
pub trait Layer<const D: usize>: Module + Sync {
    /// `F(x)`, of the same shape as `x`.
    fn forward(&self, x: Tensor<D>, context: &Context<'_>) -> Tensor<D>;

    /// The bytes that its graph will hold for an input of shape `dims`, if you know them: Burn does not tell.
    fn footprint(&self, dims: [usize; D], context: &Context<'_>) -> Option<Footprint> {
        let _ = (dims, context);
        None
    }
}

/// A plain Burn module that begins a network. Wrap it in [`AutodiffStem`].
pub trait StemLayer<const D: usize>: Module + Sync {
    /// The network's input.
    type Input: Clone + Send;

    /// As [`Stem::check`].
    ///
    /// # Errors
    ///
    /// A shape that does not fit.
    fn check(&self, input: &Self::Input) -> Result<()> {
        let _ = input;
        Ok(())
    }

    /// The streams.
    fn forward(&self, input: Self::Input, context: &Context<'_>) -> Streams<D>;
}

/// A plain Burn module between two stages. Wrap it in [`AutodiffTransition`].
pub trait StreamsLayer<const D: usize>: Module + Sync {
    /// The next stage's inputs.
    fn forward(&self, x: Streams<D>, context: &Context<'_>) -> Streams<D>;

    /// The shape of the outputs, and the bytes that its graph will hold, if you know them: Burn does not tell.
    fn footprint(&self, dims: [usize; D], context: &Context<'_>) -> Option<([usize; D], Footprint)> {
        let _ = (dims, context);
        None
    }
}

/// A plain Burn module that ends a network. Wrap it in [`AutodiffHead`].
///
/// Sum or average large tensors along one axis after the other: from `2^22` elements on, the CPU backend's `sum` and
/// `mean` over everything depend in their last bits on the number of threads.
pub trait LossLayer<const D: usize>: Module + Sync {
    /// What the output is compared with.
    type Target: Clone + Send;
    /// What the network says.
    type Output;

    /// As [`Head::check`].
    ///
    /// # Errors
    ///
    /// A shape that does not fit.
    fn check(&self, target: &Self::Target, batch: usize) -> Result<()> {
        let _ = (target, batch);
        Ok(())
    }

    /// The output alone.
    fn predict(&self, x: Streams<D>, context: &Context<'_>) -> Self::Output;

    /// The loss (one element) and the output; take the output off the graph with `inner`.
    fn loss(&self, x: Streams<D>, target: Self::Target, context: &Context<'_>) -> (Tensor<1>, Self::Output);
}

macro_rules! adapter {
    ($name:ident, $what:literal) => {
        #[doc = $what]
        #[derive(Module, Debug)]
        pub struct $name<M: Module> {
            /// The module itself.
            pub module: M,
        }

        impl<M: Module> $name<M> {
            /// Wraps `module`.
            pub fn new(module: M) -> Self {
                Self { module }
            }
        }
    };
}
adapter!(Autodiff, "Makes any [`Layer`] a [`Residual`].");
adapter!(AutodiffStem, "Makes any [`StemLayer`] a [`Stem`].");
adapter!(AutodiffTransition, "Makes any [`StreamsLayer`] a [`Transition`].");
adapter!(AutodiffHead, "Makes any [`LossLayer`] a [`Head`].");

/// A graph that waits for its backward: the leaves it began with, and what came out. Burn does not tell how many
/// bytes a graph holds; `bytes` is what the layer's footprint says, else the ends of the graph.
pub struct Graph<M, I, O> {
    module: M,
    input: I,
    output: O,
    bytes: u64,
}

impl<M: Send + 'static, I: Send + 'static, O: Send + 'static> Saved for Graph<M, I, O> {
    fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl<const D: usize, M: Layer<D> + 'static> Residual<D> for Autodiff<M> {
    type Saved = Graph<M, Tensor<D>, Tensor<D>>;

    fn forward(&self, x: Tensor<D>, context: &Context<'_>) -> Tensor<D> {
        let precision = context.precision();
        let module = untracked(&self.module, precision);
        Precision::F32.cast(module.forward(precision.cast(x).inner().autodiff(), context).inner())
    }

    fn forward_saving(&self, x: Tensor<D>, context: &Context<'_>) -> (Tensor<D>, Self::Saved) {
        let precision = context.precision();
        let bytes = Layer::footprint(&self.module, x.dims(), context).map(|footprint| footprint.saved);
        let module = leaves(&self.module, precision);
        let input = leaf(precision.cast(x));
        let output = module.forward(input.clone(), context);
        let value = Precision::F32.cast(output.clone().inner());
        let bytes = bytes.unwrap_or_else(|| input.bytes() + output.bytes());
        (value, Graph { module, input, output, bytes })
    }

    fn vjp(
        &self,
        Graph { module, input, output, .. }: Self::Saved,
        dy: Tensor<D>,
        _: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Tensor<D> {
        let dy = dy.cast(output.dtype());
        let mut found = (output * dy).sum().backward();
        let dx = take(&input, &mut found);
        gradients.add_all(&module, GradientsParams::from_grads(found, &module));
        dx
    }

    fn footprint(&self, dims: [usize; D], context: &Context<'_>) -> Option<Footprint> {
        // What a graph holds stays as it is.
        Layer::footprint(&self.module, dims, context).map(|told| Footprint { spared: 0, ..told })
    }
}

impl<const D: usize, M: StreamsLayer<D> + 'static> Transition<D> for AutodiffTransition<M> {
    fn forward(&self, x: Streams<D>, context: &Context<'_>) -> Streams<D> {
        let x = Streams::new(x.x1.inner().autodiff(), x.x2.inner().autodiff());
        off_graph(untracked(&self.module, Precision::F32).forward(x, context))
    }

    fn forward_saving(&self, x: Streams<D>, context: &Context<'_>) -> (Streams<D>, AnySaved) {
        let told = StreamsLayer::footprint(&self.module, x.dims(), context);
        let module = leaves(&self.module, Precision::F32);
        let input = Streams::new(leaf(x.x1), leaf(x.x2));
        let output = module.forward(input.clone(), context);
        let value = Streams::new(output.x1.clone().inner(), output.x2.clone().inner());
        let bytes = told.map_or_else(|| input.bytes() + output.bytes(), |(_, told)| told.saved);
        (value, AnySaved::new(Graph { module, input, output, bytes }))
    }

    fn footprint(&self, dims: [usize; D], context: &Context<'_>) -> Option<([usize; D], Footprint)> {
        let (dims, told) = StreamsLayer::footprint(&self.module, dims, context)?;
        // What a graph holds stays as it is.
        Some((dims, Footprint { spared: 0, ..told }))
    }

    fn vjp(&self, saved: AnySaved, dy: Streams<D>, _: &Context<'_>, gradients: &mut Gradients) -> Streams<D> {
        let Graph { module, input, output, .. } = saved.into::<Graph<M, Streams<D>, Streams<D>>>();
        let mut found = weighted(output, dy).backward();
        let dx = Streams::new(take(&input.x1, &mut found), take(&input.x2, &mut found));
        gradients.add_all(&module, GradientsParams::from_grads(found, &module));
        dx
    }
}

impl<const D: usize, M: StemLayer<D> + 'static> Stem<D> for AutodiffStem<M> {
    type Input = M::Input;
    type Saved = Graph<M, (), Streams<D>>;

    fn check(&self, input: &Self::Input) -> Result<()> {
        self.module.check(input)
    }

    fn forward(&self, input: Self::Input, context: &Context<'_>) -> Streams<D> {
        off_graph(untracked(&self.module, Precision::F32).forward(input, context))
    }

    fn forward_saving(&self, input: Self::Input, context: &Context<'_>) -> (Streams<D>, Self::Saved) {
        let module = leaves(&self.module, Precision::F32);
        let output = module.forward(input, context);
        let value = Streams::new(output.x1.clone().inner(), output.x2.clone().inner());
        let bytes = output.bytes();
        (value, Graph { module, input: (), output, bytes })
    }

    fn vjp(
        &self,
        Graph { module, output, .. }: Self::Saved,
        dx: Streams<D>,
        _: &Context<'_>,
        gradients: &mut Gradients,
    ) {
        let loss = weighted(output, dx);
        // A frozen stem has no graph to go back through.
        if loss.is_tracked() {
            gradients.add_all(&module, GradientsParams::from_grads(loss.backward(), &module));
        }
    }
}

impl<const D: usize, M: LossLayer<D> + 'static> Head<D> for AutodiffHead<M> {
    type Target = M::Target;
    type Output = M::Output;
    type Saved = Graph<M, Streams<D>, Tensor<1>>;

    fn check(&self, target: &Self::Target, batch: usize) -> Result<()> {
        self.module.check(target, batch)
    }

    fn predict(&self, x: Streams<D>, context: &Context<'_>) -> Self::Output {
        plain(&self.module, Precision::F32).predict(x, context)
    }

    fn loss_saving(
        &self,
        x: Streams<D>,
        target: Self::Target,
        context: &Context<'_>,
    ) -> (Tensor<1>, Self::Output, Self::Saved) {
        let module = leaves(&self.module, Precision::F32);
        let input = Streams::new(leaf(x.x1), leaf(x.x2));
        let (loss, output) = module.loss(input.clone(), target, context);
        let value = loss.clone().inner();
        let bytes = input.bytes();
        (value, output, Graph { module, input, output: loss, bytes })
    }

    fn vjp(
        &self,
        Graph { module, input, output, .. }: Self::Saved,
        weight: f64,
        _: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Streams<D> {
        let mut found = output.mul_scalar(weight).backward();
        let dx = Streams::new(take(&input.x1, &mut found), take(&input.x2, &mut found));
        gradients.add_all(&module, GradientsParams::from_grads(found, &module));
        dx
    }
}

/// `backward` takes no output gradient: the derivative of `sum(y * dy)` is the product wanted.
fn weighted<const D: usize>(y: Streams<D>, dy: Streams<D>) -> Tensor<1> {
    (y.x1 * dy.x1).sum() + (y.x2 * dy.x2).sum()
}

/// `x` as the root of a graph of its own.
pub(crate) fn leaf<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    x.inner().autodiff().require_grad()
}

/// The gradient of a leaf; zero where the output does not depend on it.
pub(crate) fn take<const D: usize>(leaf: &Tensor<D>, found: &mut AutodiffGradients) -> Tensor<D> {
    let gradient = leaf.grad_remove(found).unwrap_or_else(|| leaf.clone().inner().zeros_like());
    Precision::F32.cast(gradient)
}

/// The module with parameters that are leaves of this call alone; frozen ones stay frozen.
pub(crate) fn leaves<M: Module>(module: &M, precision: Precision) -> M {
    module.clone().map(&mut Parameters { dtype: precision.dtype(), tracking: Tracking::Tracked })
}

/// The module with parameters off any graph, for results that nothing is compared with.
pub(crate) fn plain<M: Module>(module: &M, precision: Precision) -> M {
    module.clone().map(&mut Parameters { dtype: precision.dtype(), tracking: Tracking::Off })
}

/// The module with parameters that a graph would take but that ask for none: nothing is kept, and yet the operations are
/// those of [`leaves`]. Off a graph Burn rounds otherwise: softmax and layer norm are then one operation each.
pub(crate) fn untracked<M: Module>(module: &M, precision: Precision) -> M {
    module.clone().map(&mut Parameters { dtype: precision.dtype(), tracking: Tracking::Untracked })
}

fn off_graph<const D: usize>(Streams { x1, x2 }: Streams<D>) -> Streams<D> {
    Streams::new(x1.inner(), x2.inner())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tracking {
    Tracked,
    Untracked,
    Off,
}

struct Parameters {
    dtype: DType,
    tracking: Tracking,
}

impl ModuleMapper for Parameters {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let trained = param.is_require_grad();
        param.map(|value| {
            let value = value.inner();
            let value = if value.dtype() == self.dtype { value } else { value.cast(self.dtype) };
            match self.tracking {
                Tracking::Tracked if trained => value.autodiff().require_grad(),
                Tracking::Tracked | Tracking::Untracked => value.autodiff(),
                Tracking::Off => value,
            }
        })
    }
}
