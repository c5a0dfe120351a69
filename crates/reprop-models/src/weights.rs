//! Weights of other programs: their names and layouts, brought to those of the networks here.
//!
//! PyTorch keeps a linear layer's weight as `[outputs, inputs]`, here it is `[inputs, outputs]`; a convolution's as
//! `[outputs, inputs, height, width]`, here `[height, width, inputs, outputs]`, and that of patches as a matrix.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use burn::tensor::TensorData;
use reprop::{Error, Result};
use thiserror::Error;

/// How a file of weights names them.
///
/// ```
/// use reprop_models::WeightNames;
///
/// assert_eq!("min-rev".parse(), Ok(WeightNames::MinRev));
/// assert!("nope".parse::<WeightNames>().unwrap_err().to_string().contains("pytorch"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightNames {
    /// Names and layouts of this program, as it writes them.
    Own,
    /// Its names, with PyTorch's layouts and its `weight` and `bias` of norms: a network that was written there with modules
    /// of the same names, such as a reversible residual network.
    Pytorch,
    /// A reversible vision transformer of the authors' small program (`karttikeya/minREV`).
    MinRev,
    /// A masked language model with norms before sub-blocks, as Hugging Face's `roberta-prelayernorm` names it.
    RobertaPrelayernorm,
}

/// No way of naming weights is called so.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there are no names of weights called `{0}`: choose own, pytorch, min-rev or roberta-prelayernorm")]
pub struct UnknownNames(String);

const ALL: [(WeightNames, &str); 4] = [
    (WeightNames::Own, "own"),
    (WeightNames::Pytorch, "pytorch"),
    (WeightNames::MinRev, "min-rev"),
    (WeightNames::RobertaPrelayernorm, "roberta-prelayernorm"),
];

impl FromStr for WeightNames {
    type Err = UnknownNames;

    fn from_str(text: &str) -> std::result::Result<Self, UnknownNames> {
        let found = ALL.iter().find(|(_, name)| *name == text);
        found.map(|(names, _)| *names).ok_or_else(|| UnknownNames(text.to_owned()))
    }
}

impl fmt::Display for WeightNames {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = ALL.iter().find(|(names, _)| names == self);
        formatter.write_str(found.map_or("", |(_, name)| name))
    }
}

/// Own names and theirs, without `.weight` or `.bias`; `{}` is the number of a block, `+` joins parts.
type Map = [(&'static str, &'static str)];

const MIN_REV: &Map = &[
    ("stem.projection", "patch_embed"),
    ("blocks.{}.attention.norm", "layers.{}.F.norm"),
    ("blocks.{}.attention.projection", "layers.{}.F.attn.out_proj"),
    ("blocks.{}.mlp.norm", "layers.{}.G.norm"),
    ("blocks.{}.mlp.expand", "layers.{}.G.mlp.0"),
    ("blocks.{}.mlp.contract", "layers.{}.G.mlp.2"),
    ("head.norm", "norm"),
    ("head.linear", "head"),
];
/// Whole names.
const MIN_REV_WHOLE: &Map = &[
    ("stem.positions", "pos_embeddings"),
    ("blocks.{}.attention.qkv.weight", "layers.{}.F.attn.in_proj_weight"),
    ("blocks.{}.attention.qkv.bias", "layers.{}.F.attn.in_proj_bias"),
];

const ROBERTA: &Map = &[
    ("blocks.{}.attention.norm", "roberta_prelayernorm.encoder.layer.{}.attention.LayerNorm"),
    (
        "blocks.{}.attention.qkv",
        "roberta_prelayernorm.encoder.layer.{}.attention.self.query\
         +roberta_prelayernorm.encoder.layer.{}.attention.self.key\
         +roberta_prelayernorm.encoder.layer.{}.attention.self.value",
    ),
    ("blocks.{}.attention.projection", "roberta_prelayernorm.encoder.layer.{}.attention.output.dense"),
    ("blocks.{}.mlp.norm", "roberta_prelayernorm.encoder.layer.{}.intermediate.LayerNorm"),
    ("blocks.{}.mlp.expand", "roberta_prelayernorm.encoder.layer.{}.intermediate.dense"),
    ("blocks.{}.mlp.contract", "roberta_prelayernorm.encoder.layer.{}.output.dense"),
    ("text.norm", "roberta_prelayernorm.LayerNorm"),
    ("text.dense", "lm_head.dense"),
    ("text.dense_norm", "lm_head.layer_norm"),
];
const ROBERTA_WHOLE: &Map = &[
    ("text.tokens", "roberta_prelayernorm.embeddings.word_embeddings.weight"),
    ("text.positions", "roberta_prelayernorm.embeddings.position_embeddings.weight"),
    ("text.bias", "lm_head.bias"),
];
/// What has no counterpart: one kind of sequence, a norm of embeddings, a table that is tied.
const ROBERTA_IGNORED: [&str; 5] = [
    "roberta_prelayernorm.embeddings.token_type_embeddings.",
    "roberta_prelayernorm.embeddings.LayerNorm.",
    "roberta_prelayernorm.embeddings.position_ids",
    "roberta_prelayernorm.pooler.",
    "lm_head.decoder.",
];
/// Places that the table of `RoBERTa` has before the first.
const RESERVED_PLACES: usize = 2;

impl WeightNames {
    /// `tensors` by the names, and in the layouts, of a network whose parameters are `own`.
    ///
    /// # Errors
    ///
    /// A parameter that is missing or has another shape, or tensors that are left over.
    pub fn translate(
        self,
        own: &[(String, TensorData)],
        mut tensors: BTreeMap<String, TensorData>,
    ) -> Result<BTreeMap<String, TensorData>> {
        if self == Self::Own {
            return Ok(tensors);
        }
        let mut translated = BTreeMap::new();
        for (name, value) in own {
            let theirs = self.theirs(name);
            let theirs = theirs.ok_or_else(|| Error::MissingParameter { name: name.clone() })?;
            let take = |part: &str| {
                tensors.remove(part).ok_or_else(|| Error::MissingParameter { name: part.to_owned() })
            };
            let parts = theirs.split('+').map(take).collect::<Result<Vec<_>>>()?;
            translated.insert(name.clone(), fitted(name, &value.shape().to_vec(), &parts)?);
        }
        let ignored = |name: &String| ROBERTA_IGNORED.iter().any(|start| name.starts_with(start));
        match tensors.into_keys().find(|name| self != Self::RobertaPrelayernorm || !ignored(name)) {
            Some(name) => Err(Error::StrangeParameter { name }),
            None => Ok(translated),
        }
    }

    /// Their name of a parameter, or of its parts.
    fn theirs(self, own: &str) -> Option<String> {
        let (maps, whole) = match self {
            Self::Own | Self::Pytorch => return Some(with_ending(own, own)),
            Self::MinRev => (MIN_REV, MIN_REV_WHOLE),
            Self::RobertaPrelayernorm => (ROBERTA, ROBERTA_WHOLE),
        };
        let (general, number) = without_number(own);
        let named = |theirs: &str| theirs.replace("{}", &number);
        if let Some((_, theirs)) = whole.iter().find(|(own, _)| *own == general) {
            return Some(named(theirs));
        }
        let (stem, _) = general.rsplit_once('.')?;
        let (_, theirs) = maps.iter().find(|(own, _)| *own == stem)?;
        let parts = theirs.split('+').map(|part| with_ending(&format!("{}.x", named(part)), own));
        Some(parts.collect::<Vec<_>>().join("+"))
    }
}

/// `name` with the ending that PyTorch gives to the parameter `own`.
fn with_ending(name: &str, own: &str) -> String {
    let ending = match own.rsplit('.').next() {
        Some("gamma") => "weight",
        Some("beta") => "bias",
        other => other.unwrap_or_default(),
    };
    name.rsplit_once('.').map_or_else(|| ending.to_owned(), |(stem, _)| format!("{stem}.{ending}"))
}

/// A name with `{}` for the number of its block, and the number.
fn without_number(name: &str) -> (String, String) {
    let number = name.split('.').find(|part| part.parse::<usize>().is_ok()).unwrap_or_default();
    let parts = name.split('.').map(|part| if part == number && !part.is_empty() { "{}" } else { part });
    (parts.collect::<Vec<_>>().join("."), number.to_owned())
}

/// The parts, one below the other, in the layout of the parameter `name`.
fn fitted(name: &str, expected: &[usize], parts: &[TensorData]) -> Result<TensorData> {
    let wrong = |found: &[usize]| Error::ParameterShape {
        name: name.to_owned(),
        expected: expected.to_vec(),
        found: found.to_vec(),
    };
    let mut shape = parts.first().map(|part| part.shape().to_vec()).unwrap_or_default();
    if shape.is_empty() || parts.iter().any(|part| part.shape().to_vec()[1..] != shape[1..]) {
        return Err(wrong(&shape));
    }
    shape[0] = parts.iter().map(|part| part.shape().to_vec()[0]).sum();
    let mut values: Vec<f32> = parts.iter().flat_map(|part| part.iter::<f32>().collect::<Vec<_>>()).collect();
    match (expected.len(), shape.len()) {
        (4, 4) => {
            // Filters: outputs last, pixels first.
            values = transposed(&values, shape[0] * shape[1], shape[2] * shape[3]);
            values = values
                .chunks(shape[0] * shape[1])
                .flat_map(|pixel| transposed(pixel, shape[0], shape[1]))
                .collect();
            shape = vec![shape[2], shape[3], shape[1], shape[0]];
        }
        (2, 2 | 4) if name.ends_with("weight") => {
            let inputs = shape[1..].iter().product();
            values = transposed(&values, shape[0], inputs);
            shape = vec![inputs, shape[0]];
        }
        (2, 3) if shape[0] == 1 => shape = shape[1..].to_vec(),
        (2, 2) if name.ends_with("positions") && shape[0] == expected[0] + RESERVED_PLACES => {
            values.drain(..RESERVED_PLACES * shape[1]);
            shape[0] = expected[0];
        }
        _ => {}
    }
    if shape == expected { Ok(TensorData::new(values, shape)) } else { Err(wrong(&shape)) }
}

fn transposed(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    (0..columns).flat_map(|column| (0..rows).map(move |row| values[row * columns + column])).collect()
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;
    use reprop::{load_parameters, named_parameters, parameter_digest};

    use super::*;
    use crate::{RevResNetConfig, RevRobertaConfig};

    /// Own parameters as the other program would hold them: the inverse of a translation, restated by name.
    fn roberta(own: &[(String, TensorData)]) -> BTreeMap<String, TensorData> {
        let mut theirs = BTreeMap::new();
        for (name, value) in own {
            let shape = value.shape().to_vec();
            let values: Vec<f32> = value.iter::<f32>().collect();
            let layer = |rest: &str| format!("roberta_prelayernorm.encoder.layer.0.{rest}");
            let plain = |values: Vec<f32>, shape: Vec<usize>| TensorData::new(values, shape);
            let flipped = |values: &[f32]| transposed(values, shape[0], shape[1]);
            let (name, value) = match name.as_str() {
                "text.tokens" => {
                    ("roberta_prelayernorm.embeddings.word_embeddings.weight".into(), plain(values, shape))
                }
                "text.positions" => {
                    let padded = [vec![9.0; 2 * shape[1]], values].concat();
                    let name = "roberta_prelayernorm.embeddings.position_embeddings.weight".into();
                    (name, plain(padded, vec![shape[0] + 2, shape[1]]))
                }
                "text.bias" => ("lm_head.bias".into(), plain(values, shape)),
                "text.norm.gamma" => ("roberta_prelayernorm.LayerNorm.weight".into(), plain(values, shape)),
                "text.norm.beta" => ("roberta_prelayernorm.LayerNorm.bias".into(), plain(values, shape)),
                "text.dense.weight" => {
                    ("lm_head.dense.weight".into(), plain(flipped(&values), vec![shape[1], shape[0]]))
                }
                "text.dense.bias" => ("lm_head.dense.bias".into(), plain(values, shape)),
                "text.dense_norm.gamma" => ("lm_head.layer_norm.weight".into(), plain(values, shape)),
                "text.dense_norm.beta" => ("lm_head.layer_norm.bias".into(), plain(values, shape)),
                "blocks.0.attention.qkv.weight" => {
                    let width = shape[0];
                    for (part, rows) in flipped(&values).chunks(width * width).enumerate() {
                        let name = ["query", "key", "value"][part];
                        let name = layer(&format!("attention.self.{name}.weight"));
                        theirs.insert(name, plain(rows.to_vec(), vec![width, width]));
                    }
                    continue;
                }
                "blocks.0.attention.qkv.bias" => {
                    for (part, rows) in values.chunks(shape[0] / 3).enumerate() {
                        let name = ["query", "key", "value"][part];
                        let name = layer(&format!("attention.self.{name}.bias"));
                        theirs.insert(name, plain(rows.to_vec(), vec![rows.len()]));
                    }
                    continue;
                }
                other => {
                    let rest = other.strip_prefix("blocks.0.").unwrap();
                    let rest = rest
                        .replace("attention.norm.gamma", "attention.LayerNorm.weight")
                        .replace("attention.norm.beta", "attention.LayerNorm.bias")
                        .replace("attention.projection", "attention.output.dense")
                        .replace("mlp.norm.gamma", "intermediate.LayerNorm.weight")
                        .replace("mlp.norm.beta", "intermediate.LayerNorm.bias")
                        .replace("mlp.expand", "intermediate.dense")
                        .replace("mlp.contract", "output.dense");
                    let value = if shape.len() == 2 {
                        plain(flipped(&values), vec![shape[1], shape[0]])
                    } else {
                        plain(values, shape)
                    };
                    (layer(&rest), value)
                }
            };
            theirs.insert(name, value);
        }
        let norm = "roberta_prelayernorm.embeddings.LayerNorm.weight".to_owned();
        theirs.insert(norm, TensorData::new(vec![1.0f32; 8], [8]));
        theirs
    }

    #[test]
    fn weights_of_a_language_model_find_their_places() {
        let config = RevRobertaConfig::new(11, 6, 8, 1, 2, 12);
        let [from, to] = [1, 2].map(|seed| config.init(seed, &Device::flex()));
        let theirs = roberta(&named_parameters(&from));
        let names = WeightNames::RobertaPrelayernorm;
        let translated = names.translate(&named_parameters(&to), theirs.clone()).unwrap();
        let to = load_parameters(to, translated).unwrap();
        assert_eq!(parameter_digest(&to), parameter_digest(&from));

        let mut missing = theirs.clone();
        missing.remove("lm_head.bias");
        let error = names.translate(&named_parameters(&to), missing).unwrap_err();
        assert_eq!(error, Error::MissingParameter { name: "lm_head.bias".into() });
        let mut strange = theirs.clone();
        strange.insert("classifier.weight".into(), TensorData::new(vec![0.0f32], [1]));
        let error = names.translate(&named_parameters(&to), strange).unwrap_err();
        assert_eq!(error, Error::StrangeParameter { name: "classifier.weight".into() });
        let mut short = theirs;
        short.insert("lm_head.bias".into(), TensorData::new(vec![0.0f32; 3], [3]));
        let error = names.translate(&named_parameters(&to), short).unwrap_err();
        assert!(error.to_string().contains("[11]") && error.to_string().contains("[3]"), "{error}");
    }

    /// Filters `[outputs, inputs, height, width]` and matrices `[outputs, inputs]` by the networks' own names.
    #[test]
    fn weights_of_a_residual_network_find_their_places() {
        let config = RevResNetConfig::resnet18().with_depth(1).with_image(8);
        let config = RevResNetConfig { width: 2, blocks: vec![1, 1], ..config };
        let [from, to] = [1, 2].map(|seed| config.init(seed, &Device::flex()));
        let theirs = named_parameters(&from).into_iter().map(|(name, value)| {
            let values: Vec<f32> = value.iter::<f32>().collect();
            let value = match value.shape().to_vec()[..] {
                [height, width, inputs, outputs] => {
                    let mut filters = Vec::new();
                    for (output, input) in (0..outputs).flat_map(|o| (0..inputs).map(move |i| (o, i))) {
                        for pixel in 0..height * width {
                            filters.push(values[(pixel * inputs + input) * outputs + output]);
                        }
                    }
                    TensorData::new(filters, [outputs, inputs, height, width])
                }
                [inputs, outputs] => TensorData::new(transposed(&values, inputs, outputs), [outputs, inputs]),
                _ => value,
            };
            (name.replace(".gamma", ".weight").replace(".beta", ".bias"), value)
        });
        let translated = WeightNames::Pytorch.translate(&named_parameters(&to), theirs.collect()).unwrap();
        let to = load_parameters(to, translated).unwrap();
        assert_eq!(parameter_digest(&to), parameter_digest(&from));
    }
}
