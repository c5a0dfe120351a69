//! Gradients of saved tensors in 16 bits against those in four bytes.

use burn::tensor::TensorData;
use reprop::Storage;
use reprop_models::Model;
use serde::Serialize;

use crate::sample::AnyModel;

/// The part of a gradient's norm that rounding may change: a few units of the format (`2^-8` and `2^-11`), as roundings of all blocks
/// add up. Where they move values over a kink, a gradient changes by more than it was rounded.
pub fn at_most(format: Storage, has_kinks: bool) -> f64 {
    match (format, has_kinks) {
        (Storage::F32, _) => 0.0,
        (Storage::Bf16, false) => 0.02,
        (Storage::F16, false) => 0.0025,
        (Storage::Bf16, true) => 0.15,
        (Storage::F16, true) => 0.08,
    }
}

/// Whether a network has `ReLU`s, or tokens of which the largest goes on.
pub fn has_kinks(model: &AnyModel) -> bool {
    matches!(model, AnyModel::Images(Model::RevResNet(_) | Model::ResNet(_) | Model::RevMvit(_)))
}

/// Below this part of the largest gradient's norm a gradient is what rounding leaves of nothing, as that of a bias that a norm
/// takes out.
const NEGLIGIBLE: f64 = 1e-4;

/// The gradient that differs most, by its norm.
#[derive(Serialize)]
pub struct Farthest {
    pub parameter: String,
    pub error: f64,
    #[serde(skip)]
    pub at_most: f64,
}

impl Farthest {
    pub fn of(found: &[(String, TensorData)], expected: &[(String, TensorData)], at_most: f64) -> Self {
        let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
        let norms: Vec<f64> = expected.iter().map(|(_, data)| norm(&mut data.iter::<f64>())).collect();
        let largest = norms.iter().copied().fold(0.0, f64::max);
        let mut farthest = Self { parameter: String::new(), error: 0.0, at_most };
        for (((name, found), (_, expected)), size) in found.iter().zip(expected).zip(norms) {
            if size <= NEGLIGIBLE * largest {
                continue;
            }
            let pairs = found.iter::<f64>().zip(expected.iter::<f64>());
            let error = norm(&mut pairs.map(|(found, expected)| found - expected)) / size;
            // What is not a number is as far as can be.
            if error.is_nan() || error > farthest.error {
                let error = if error.is_nan() { f64::INFINITY } else { error };
                farthest = Self { parameter: name.clone(), error, at_most };
            }
        }
        farthest
    }
}
