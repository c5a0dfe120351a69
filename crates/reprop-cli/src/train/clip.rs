//! Clipping of gradients by the norm of all of them together.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

/// `gradients`, scaled down if their common norm is above `largest`, where such a norm is given.
pub fn clip<M: Module>(module: &M, gradients: GradientsParams, largest: Option<f64>) -> GradientsParams {
    let Some(largest) = largest else { return gradients };
    let mut squares = Squares { gradients: &gradients, sums: Vec::new() };
    module.visit(&mut squares);
    if squares.sums.is_empty() {
        return gradients;
    }
    // Read at once: the device is waited for once a step, and not once a parameter.
    let sums = Tensor::cat(squares.sums, 0).into_data();
    let norm = sums.iter::<f32>().map(f64::from).sum::<f64>().sqrt();
    if norm <= largest {
        return gradients;
    }
    reprop::scaled(module, gradients, largest / norm)
}

struct Squares<'g> {
    gradients: &'g GradientsParams,
    sums: Vec<Tensor<1>>,
}

impl ModuleVisitor for Squares<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.get::<D>(param.id) {
            // Along one axis after the other: Flex's sum over everything depends on the number of threads.
            let rows = gradient.dims()[0];
            let elements: usize = gradient.dims().iter().product();
            let squares = gradient.square().reshape([rows, elements / rows.max(1)]).sum_dim(1).sum_dim(0);
            self.sums.push(squares.reshape([1]));
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::LinearConfig;
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn gradients_are_scaled_together_and_only_when_they_are_too_long() {
        let device = Device::flex();
        let module = LinearConfig::new(2, 2).init(&device);
        let gradients = || {
            let mut gradients = GradientsParams::new();
            gradients.register(module.weight.id, Tensor::<2>::full([2, 2], 2.0, &device));
            gradients.register(module.bias.as_ref().unwrap().id, Tensor::<1>::full([2], 0.0, &device));
            gradients
        };
        let first = |gradients: GradientsParams| {
            let weight = gradients.get::<2>(module.weight.id).unwrap();
            assert!(gradients.get::<1>(module.bias.as_ref().unwrap().id).is_some());
            weight.into_data().iter::<f32>().next().unwrap()
        };
        // The norm is 4.
        assert!((first(clip(&module, gradients(), Some(5.0))) - 2.0).abs() < 1e-6);
        assert!((first(clip(&module, gradients(), Some(1.0))) - 0.5).abs() < 1e-6);
    }
}
