//! Gradients against central differences of the loss.
//!
//! For each parameter tensor with gradient `g`, the loss is evaluated at `w + e g/|g|` and `w - e g/|g|`: the difference
//! divided by `2 e` must be `|g|`. The step `e` is such that the loss moves by about a hundredth of itself, far above its
//! rounding. Where the loss curves within that step, shorter ones are tried: the one that fits best counts, and a wrong
//! gradient fits at none of them.

use burn::module::{ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use indicatif::{ProgressBar, ProgressStyle};
use reprop::{Arithmetic, Pass, Strategy};

use crate::failure::Failure;
use crate::sample::{Sample, Scored};

/// The change of the loss to aim at, relative to it.
const CHANGE: f64 = 0.01;
/// The longest step relative to the parameter's own norm: beyond it the loss is not a straight line.
const LONGEST: f64 = 0.05;
/// How much shorter the steps are that are tried.
const SHORTER: [f64; 5] = [1.0, 4.0, 16.0, 64.0, 256.0];
/// No shorter step is tried below this difference.
const FITS: f64 = 1e-3;
/// Below this part of the largest gradient a tensor's change of the loss drowns in its rounding.
const NEGLIGIBLE: f64 = 1e-4;

/// The parameter whose gradient differs most from its central difference, and by how much relative to it.
pub fn worst<const D: usize, N: Scored<D>>(
    network: &N,
    sample: &Sample<D, N>,
    gradients: &GradientsParams,
    pass: impl Fn() -> Pass,
) -> Result<(String, f64), Failure> {
    let loss = |network: &N| -> Result<f64, Failure> {
        let (input, target) = (sample.input.clone(), sample.target.clone());
        // A grid's steps would hide those of a parameter; gradients take its rounding as the identity.
        let pass = pass().arithmetic(Arithmetic::Float);
        Ok(f64::from(network.record(input, target, pass, Strategy::Reprop)?.loss()))
    };
    let here = loss(network)?;
    let mut slopes = Slopes { path: Vec::new(), gradients, found: Vec::new() };
    network.visit(&mut slopes);
    let largest = slopes.found.iter().map(|slope| slope.norm).fold(0.0, f64::max);

    let bar = ProgressBar::new(slopes.found.len() as u64);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} finite differences, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let mut worst = (String::new(), 0.0);
    for Slope { name, id, norm, size, elements } in slopes.found {
        bar.inc(1);
        if norm < NEGLIGIBLE * largest {
            continue;
        }
        // Elements that begin at zero have no magnitude of their own: they shift what is of magnitude one.
        let size = if size > 0.0 { size.max(norm) } else { (elements as f64).sqrt() };
        let step = (CHANGE * here / norm).min(LONGEST * size);
        let moved = |step: f64| loss(&network.clone().map(&mut Move { id, gradients, factor: step / norm }));
        let mut difference = f64::INFINITY;
        for shorter in SHORTER {
            let step = step / shorter;
            let slope = (moved(step)? - moved(-step)?) / (2.0 * step);
            difference = difference.min((slope - norm).abs() / norm);
            if difference <= FITS {
                break;
            }
        }
        if difference > worst.1 {
            worst = (name, difference);
        }
    }
    bar.finish_and_clear();
    Ok(worst)
}

/// A parameter, the norm of its gradient (the slope of the loss along it), its own norm, and its length.
struct Slope {
    name: String,
    id: ParamId,
    norm: f64,
    size: f64,
    elements: usize,
}

struct Slopes<'g> {
    path: Vec<String>,
    gradients: &'g GradientsParams,
    found: Vec<Slope>,
}

impl ModuleVisitor for Slopes<'_> {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.get::<D>(param.id) {
            self.found.push(Slope {
                name: self.path.join("."),
                id: param.id,
                norm: norm(gradient),
                size: norm(param.val().inner()),
                elements: param.lazy_shape().num_elements(),
            });
        }
    }
}

fn norm<const D: usize>(x: Tensor<D>) -> f64 {
    f64::from(x.square().sum().sqrt().into_scalar::<f32>())
}

/// Moves one parameter along its gradient.
struct Move<'g> {
    id: ParamId,
    gradients: &'g GradientsParams,
    factor: f64,
}

impl ModuleMapper for Move<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if param.id != self.id {
            return param;
        }
        let gradient = self.gradients.get::<D>(self.id);
        param.map(|value| match gradient {
            Some(gradient) => (value.inner() + gradient.mul_scalar(self.factor)).autodiff().require_grad(),
            None => value,
        })
    }
}
