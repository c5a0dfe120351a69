//! Gradients against central differences of the loss.
//!
//! For each parameter tensor with gradient `g`, the loss is evaluated at `w + e g/|g|` and `w - e g/|g|`: the difference
//! divided by `2 e` must be `|g|`. The step `e` is such that the loss moves by about a hundredth of itself, far above its
//! rounding. Where the loss curves within that step, shorter ones are tried: the one that fits best counts, and a wrong
//! gradient fits at none of them.
//!
//! A network of `ReLU`s has kinks everywhere: its slope at a point says little of a segment around it, however short
//! rounding allows it to be. But the loss is still the integral of its slope, so there the difference over the segment is
//! compared with the mean of the slopes at points spread over it, each from the gradient at that point.

use burn::module::{ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use indicatif::{ProgressBar, ProgressStyle};
use reprop::{Arithmetic, Pass, Strategy};

use crate::failure::Failure;
use crate::sample::{Sample, Scored};

/// Relative difference allowed between a gradient and its central difference. The loss is a 32-bit float of about
/// `2^-24` relative error, and the step is chosen so that it changes by about a hundredth: what is left is the cubic
/// term of the loss along the gradient.
pub const TOLERANCE: f64 = 0.005;
/// The change of the loss to aim at, relative to it.
const CHANGE: f64 = 0.01;
/// The longest step relative to the parameter's own norm: beyond it the loss is not a straight line.
const LONGEST: f64 = 0.05;
/// How much shorter the steps are that are tried.
const SHORTER: [f64; 5] = [1.0, 4.0, 16.0, 64.0, 256.0];
/// No shorter step is tried below this difference.
const FITS: f64 = 1e-3;
/// Segments along which slopes are averaged if no step fits: how much shorter, and the points on each side of the middle.
const SEGMENTS: [(f64, i32); 4] = [(16.0, 4), (64.0, 4), (16.0, 16), (4.0, 32)];
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
    let slope = |network: &N, along: &Slope| -> Result<f64, Failure> {
        let (input, target) = (sample.input.clone(), sample.target.clone());
        let found = network.step(input, target, pass(), Strategy::Stored)?.gradients;
        let mut product = Product { id: along.id, left: &found, right: gradients, sum: 0.0 };
        network.visit(&mut product);
        Ok(product.sum / along.norm)
    };
    let here = loss(network)?;
    let mut slopes = Slopes { path: Vec::new(), gradients, found: Vec::new() };
    network.visit(&mut slopes);
    let largest = slopes.found.iter().map(|slope| slope.norm).fold(0.0, f64::max);

    let bar = ProgressBar::new(slopes.found.len() as u64);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} finite differences, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let mut worst = (String::new(), 0.0);
    for parameter in slopes.found {
        bar.inc(1);
        let Slope { id, norm, size, elements, .. } = parameter;
        if norm < NEGLIGIBLE * largest {
            continue;
        }
        // Elements that begin at zero have no magnitude of their own: they shift what is of magnitude one.
        let size = if size > 0.0 { size.max(norm) } else { (elements as f64).sqrt() };
        let step = (CHANGE * here / norm).min(LONGEST * size);
        let at = |step: f64| network.clone().map(&mut Move { id, gradients, factor: step / norm });
        let rise = |step: f64| Ok::<_, Failure>((loss(&at(step))? - loss(&at(-step))?) / (2.0 * step));
        let mut difference = f64::INFINITY;
        for shorter in SHORTER {
            if difference > FITS {
                difference = difference.min((rise(step / shorter)? - norm).abs() / norm);
            }
        }
        for (shorter, side) in SEGMENTS {
            if difference > TOLERANCE / 2.0 {
                let (step, points) = (step / shorter, 2 * side + 1);
                let mut mean = norm / f64::from(points);
                for point in (-side..=side).filter(|&point| point != 0) {
                    let place = step * f64::from(2 * point) / f64::from(points);
                    mean += slope(&at(place), &parameter)? / f64::from(points);
                }
                difference = difference.min((rise(step)? - mean).abs() / norm);
            }
        }
        if difference > worst.1 {
            worst = (parameter.name, difference);
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

/// The inner product of one parameter's two gradients.
struct Product<'g> {
    id: ParamId,
    left: &'g GradientsParams,
    right: &'g GradientsParams,
    sum: f64,
}

impl ModuleVisitor for Product<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if param.id != self.id {
            return;
        }
        if let (Some(left), Some(right)) = (self.left.get::<D>(self.id), self.right.get::<D>(self.id)) {
            self.sum = f64::from((left * right).sum().into_scalar::<f32>());
        }
    }
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
