//! The multi-layer perceptron as a sub-block: pre-norm, two linear layers with GELU between, no residual inside.
//!
//! ```text
//! h = norm(x) W1 + b,   y = gelu(h) W2 + b
//! gelu(h) = h P(h),     gelu'(h) = P(h) + h p(h)
//! ```
//! with `P` and `p` the normal distribution and density. Saved: the normalised input, its scale, and `h`. `P(h)` has to
//! be computed anew for the derivative in any case, and `gelu(h)` is one product away from it, so it is not saved.

mod fused;

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use burn::config::Config;
use burn::module::Module;
use burn::nn::{LayerNorm, Linear};
use burn::tensor::Tensor;

use reprop_kernels::output::Base;

use self::fused::FusedSaved;
use crate::kernels::{Use, onto, tensor, update, value};
use crate::{Context, Direction, Footprint, Gradients, Precision, Residual};

use super::linear::{linear, linear_input_vjp, linear_vjp, linear_weights_vjp};
use super::norm::{affine, norm_vjp, normalise};
use super::{Initial, site};

/// Settings of an [`Mlp`].
#[derive(Config, Debug)]
pub struct MlpConfig {
    /// Width of the stream.
    pub width: usize,
    /// Width between the two layers.
    pub hidden: usize,
    /// Rate at which elements of the output are dropped.
    #[config(default = 0.0)]
    pub dropout: f64,
    /// Rate at which whole samples of the output are dropped.
    #[config(default = 0.0)]
    pub drop_path: f64,
}

impl MlpConfig {
    /// A perceptron with initial parameters.
    pub fn init(&self, initial: &mut Initial) -> Mlp {
        let Self { width, hidden, dropout, drop_path } = *self;
        Mlp {
            norm: initial.norm(width),
            expand: initial.linear(width, hidden),
            contract: initial.linear(hidden, width),
            hidden,
            dropout,
            drop_path,
        }
    }
}

/// A multi-layer perceptron on each token.
///
/// # Shapes
///
/// `[batch, tokens, width] -> [batch, tokens, width]`
#[derive(Module, Debug)]
pub struct Mlp {
    /// Before everything.
    pub norm: LayerNorm,
    /// From the stream's width to the hidden one.
    pub expand: Linear,
    /// And back.
    pub contract: Linear,
    hidden: usize,
    dropout: f64,
    drop_path: f64,
}

/// `P(h)`, the normal distribution function.
pub(super) fn distribution(h: Tensor<2>) -> Tensor<2> {
    h.mul_scalar(FRAC_1_SQRT_2).erf().add_scalar(1.0).mul_scalar(0.5)
}

/// `p(h)`, the normal density.
pub(super) fn density(h: Tensor<2>) -> Tensor<2> {
    h.square().mul_scalar(-0.5).exp().mul_scalar((2.0 * PI).sqrt().recip())
}

/// Normalised input `[b, n, d]`, its scale `[b, n, 1]`, and `h`.
type BurnSaved = (Tensor<3>, Tensor<3>, Tensor<2>);

/// What the derivative needs, by the kernels that it runs on.
pub enum Saved {
    /// Burn's operations.
    #[doc(hidden)]
    Burn(Box<BurnSaved>),
    /// Fused kernels.
    #[doc(hidden)]
    Fused(Box<FusedSaved>),
}

impl crate::Saved for Saved {
    fn bytes(&self) -> u64 {
        match self {
            Self::Burn(saved) => saved.bytes(),
            Self::Fused(saved) => saved.bytes(),
        }
    }
}

impl Mlp {
    fn burn_forward(&self, x: Tensor<3>, context: &Context<'_>) -> (Tensor<3>, BurnSaved) {
        let precision = context.precision();
        let [batch, tokens, width] = x.dims();
        let (normalised, scale) = normalise(x);
        let input = precision.cast(affine(normalised.clone(), &self.norm)).reshape([batch * tokens, width]);
        let h = linear(input, &self.expand, precision);
        let y = linear(distribution(h.clone()) * h.clone(), &self.contract, precision);
        let y = Precision::F32.cast(y).reshape([batch, tokens, width]);
        (y, (normalised, scale, h))
    }

    fn burn_vjp(
        &self,
        (normalised, scale, h): BurnSaved,
        dy: Tensor<3>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Tensor<3> {
        let precision = context.precision();
        let [batch, tokens, width] = dy.dims();
        let dy = precision.cast(dy).reshape([batch * tokens, width]);

        // In this order, three tensors of the hidden width live at once and not four: the derivative is finished before
        // `gelu(h)` takes the place of `P(h)`, and `gelu(h)` is gone before its gradient comes.
        let distribution = distribution(h.clone());
        let slope = density(h.clone()) * h.clone() + distribution.clone();
        linear_weights_vjp(move || distribution * h, &dy, &self.contract, gradients);
        let dh = slope * linear_input_vjp(dy, &self.contract, precision);

        let input = {
            let normalised = normalised.clone();
            move || precision.cast(affine(normalised, &self.norm)).reshape([batch * tokens, width])
        };
        let dinput = linear_vjp(input, dh, &self.expand, precision, gradients);
        let dinput = Precision::F32.cast(dinput).reshape([batch, tokens, width]);
        norm_vjp(normalised, scale, dinput, &self.norm, gradients)
    }

    /// The output with elements and samples dropped.
    fn masked(&self, y: Tensor<3>, context: &Context<'_>) -> Tensor<3> {
        let y = context.dropout(y, self.dropout, site::OUTPUT);
        context.drop_path(y, self.drop_path, site::PATH)
    }

    /// The output's gradient with elements and samples dropped.
    fn masked_gradient(&self, dy: Tensor<3>, context: &Context<'_>) -> Tensor<3> {
        let dy = context.drop_path(dy, self.drop_path, site::PATH);
        context.dropout(dy, self.dropout, site::OUTPUT)
    }

    /// Whether the output can be added to a stream before anything else is done to it.
    fn adds_at_once(&self, context: &Context<'_>) -> bool {
        !context.masks(self.dropout, self.drop_path)
    }
}

impl Residual<3> for Mlp {
    type Saved = Saved;

    fn forward(&self, x: Tensor<3>, context: &Context<'_>) -> Tensor<3> {
        let y = match self.parts(Use::Forward, context) {
            Some(parts) => value(x.dims(), |output| parts.forward(&x, output)).0,
            None => self.burn_forward(x, context).0,
        };
        self.masked(y, context)
    }

    fn forward_saving(&self, x: Tensor<3>, context: &Context<'_>) -> (Tensor<3>, Saved) {
        let (y, saved) = if let Some(parts) = self.parts(Use::Forward, context) {
            let (y, saved) = value(x.dims(), |output| parts.forward_saving(&x, output));
            (y, Saved::Fused(Box::new(FusedSaved::new(x, saved, self))))
        } else {
            let (y, saved) = self.burn_forward(x, context);
            (y, Saved::Burn(Box::new(saved)))
        };
        (self.masked(y, context), saved)
    }

    fn vjp(
        &self,
        saved: Saved,
        dy: Tensor<3>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Tensor<3> {
        let shape = dy.dims();
        let dy = self.masked_gradient(dy, context);
        match saved {
            Saved::Burn(saved) => self.burn_vjp(*saved, dy, context, gradients),
            Saved::Fused(saved) => {
                let mut dx = vec![0.0; shape.iter().product()];
                self.fused_vjp(*saved, dy, (&mut dx, Base::Nothing), context, gradients);
                tensor(dx, shape)
            }
        }
    }

    fn forward_onto(
        &self,
        x: Tensor<3>,
        base: Tensor<3>,
        direction: Direction,
        context: &Context<'_>,
    ) -> Tensor<3> {
        let arithmetic = context.arithmetic();
        let parts = self.adds_at_once(context).then(|| self.parts(Use::Forward, context)).flatten();
        match parts {
            Some(parts) => onto(base, direction, arithmetic, |output| parts.forward(&x, output)).0,
            None => arithmetic.apply(base, self.forward(x, context), direction),
        }
    }

    fn forward_saving_onto(
        &self,
        x: Tensor<3>,
        base: Tensor<3>,
        direction: Direction,
        context: &Context<'_>,
    ) -> (Tensor<3>, Saved) {
        let arithmetic = context.arithmetic();
        let parts = self.adds_at_once(context).then(|| self.parts(Use::Forward, context)).flatten();
        if let Some(parts) = parts {
            let (y, saved) = onto(base, direction, arithmetic, |output| parts.forward_saving(&x, output));
            (y, Saved::Fused(Box::new(FusedSaved::new(x, saved, self))))
        } else {
            let (f, saved) = self.forward_saving(x, context);
            (arithmetic.apply(base, f, direction), saved)
        }
    }

    fn vjp_onto(
        &self,
        saved: Saved,
        dy: Tensor<3>,
        base: Tensor<3>,
        context: &Context<'_>,
        gradients: &mut Gradients,
    ) -> Tensor<3> {
        let dy = self.masked_gradient(dy, context);
        match saved {
            Saved::Burn(saved) => base + self.burn_vjp(*saved, dy, context, gradients),
            Saved::Fused(saved) => {
                let write = |base: Option<&[f32]>, dx: &mut [f32]| {
                    let base = base.map_or(Base::Itself, Base::Other);
                    self.fused_vjp(*saved, dy, (dx, base), context, gradients);
                };
                update(base, write).0
            }
        }
    }

    fn footprint(&self, [batch, tokens, width]: [usize; 3], context: &Context<'_>) -> Option<Footprint> {
        if self.fuses(context) {
            return Some(self.fused_footprint([batch, tokens, width], !self.adds_at_once(context)));
        }
        let rows = (batch * tokens) as u64;
        let stream = rows * width as u64;
        let hidden = rows * self.hidden as u64;
        let half = context.precision().bytes();
        let masked = if context.masks(self.dropout, self.drop_path) { 4 * stream } else { 0 };
        let weight = 4 * self.hidden as u64 * width as u64;
        Some(Footprint {
            saved: 4 * (stream + rows) + half * hidden,
            // `gelu(h)`, beside the output twice.
            forward: half * (hidden + stream),
            // The derivative and `P(h)`, or the gradient of `gelu(h)`, twice; or `gelu(h)` and the weight's gradient.
            vjp: (half * 2 * hidden).max(half * hidden + weight) + masked,
        })
    }
}
