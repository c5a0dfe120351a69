//! Files of weights that a run begins with.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use burn::module::Module;
use burn::tensor::TensorData;
use reprop::{load_parameters, named_parameters};
use reprop_data::torch_weights;
use reprop_models::WeightNames;
use safetensors::{Dtype, SafeTensors};

use crate::failure::Failure;

/// How a zip archive, and so a PyTorch file, begins.
const ZIP: &[u8] = b"PK";

/// `network` with the weights of the file at `path`.
pub fn begin_with<N: Module>(network: N, path: &Path, names: WeightNames) -> Result<N, Failure> {
    let tensors = names.translate(&named_parameters(&network), read(path)?);
    tensors.and_then(|tensors| load_parameters(network, tensors)).map_err(|error| {
        Failure::from(error)
            .within(format!("{}, with the names of `{names}`", path.display()))
            .hint("choose --names, --model, --image and --classes as the weights were made")
    })
}

/// Tensors by name.
fn read(path: &Path) -> Result<BTreeMap<String, TensorData>, Failure> {
    let file = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    if file.starts_with(ZIP) {
        let tensors = torch_weights(path)?;
        return Ok(tensors
            .into_iter()
            .map(|(name, (shape, values))| (name, TensorData::new(values, shape)))
            .collect());
    }
    let damaged = || format!("{} is no safetensors file, or damaged", path.display());
    let tensors = SafeTensors::deserialize(&file).with_context(damaged)?;
    let mut found = BTreeMap::new();
    for (name, view) in tensors.iter() {
        let values: Vec<f32> = match view.dtype() {
            Dtype::F32 => {
                view.data().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
            }
            Dtype::F64 => {
                view.data().as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes) as f32).collect()
            }
            // Counters of batches, which are no weights.
            Dtype::I64 => continue,
            other => {
                return Err(Failure::new(format!(
                    "{}: `{name}` has numbers of the kind {other:?}, and F32 or F64 are read",
                    path.display()
                )));
            }
        };
        found.insert(name.to_owned(), TensorData::new(values, view.shape().to_vec()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use burn::tensor::{Device, Tensor};
    use reprop::{Arithmetic, Network as _, Pass};
    use reprop_models::RevVitConfig;

    use super::*;

    fn file(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files").join(name)
    }

    /// As `oracle/weights.py` made it.
    fn config() -> RevVitConfig {
        RevVitConfig::new(8, 4, 8, 2, 2, 32).with_classes(5)
    }

    /// Logits of about one, made of some hundred roundings of `2^-24` each.
    #[test]
    fn weights_that_pytorch_wrote_make_the_network_that_it_ran() {
        let values = fs::read(file("rev_vit_values.safetensors")).unwrap();
        let values = SafeTensors::deserialize(&values).unwrap();
        let images = values.tensor("images").unwrap();
        let pixels: Vec<f32> =
            images.data().as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        let images = TensorData::new(pixels, images.shape().to_vec());
        let logits = values.tensor("logits").unwrap();
        let expected: Vec<f64> =
            logits.data().as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b)).collect();
        for name in ["rev_vit.pt", "rev_vit.safetensors"] {
            let network = config().init(1, &Device::flex());
            let network = begin_with(network, &file(name), WeightNames::MinRev).unwrap();
            let pass = Pass::evaluation().arithmetic(Arithmetic::Float);
            let images = Tensor::<4>::from_data(images.clone(), &Device::flex());
            let found = network.predict(images, &pass).unwrap().into_data();
            assert_eq!(found.shape().to_vec(), [3, 5]);
            for (found, expected) in found.iter::<f64>().zip(&expected) {
                assert!((found - expected).abs() < 1e-5, "{name}: {found} against {expected}");
            }
        }
    }

    #[test]
    fn weights_of_another_network_are_refused_with_their_names_and_numbers() {
        let message = |config: RevVitConfig, names| {
            let network = config.init(1, &Device::flex());
            format!("{}", begin_with(network, &file("rev_vit.pt"), names).unwrap_err())
        };
        let other = message(config().with_classes(7), WeightNames::MinRev);
        assert!(other.contains("head.linear") && other.contains('7') && other.contains('5'), "{other}");
        let deeper = message(RevVitConfig { depth: 3, ..config() }, WeightNames::MinRev);
        assert!(deeper.contains("layers.2.F"), "{deeper}");
        let flatter = message(RevVitConfig { depth: 1, ..config() }, WeightNames::MinRev);
        assert!(flatter.contains("layers.1."), "{flatter}");
        let own = message(config(), WeightNames::Own);
        assert!(own.contains("blocks.0.attention") || own.contains("stem."), "{own}");
    }
}
