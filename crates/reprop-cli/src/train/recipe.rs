//! Recipes: how a network is trained on a data set. They are small files under `recipes`, which name where their numbers
//! come from.

use burn::module::ParamGroup;
use burn::optim::ModuleOptimizer;
use reprop::optim::{AdamWConfig, SgdConfig};
use reprop_data::{Augmentation, Crop, Mixture};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::options::TrainOptions;

/// Parameters that are not decayed, by a part of their names.
const UNDECAYED: [&str; 4] = ["bias", "gamma", "beta", "positions"];

const FILES: [&str; 8] = [
    include_str!("../../recipes/digits.json"),
    include_str!("../../recipes/petra-cifar10.json"),
    include_str!("../../recipes/petra-imagenet.json"),
    include_str!("../../recipes/rev-mvit-imagenet.json"),
    include_str!("../../recipes/rev-swin-imagenet.json"),
    include_str!("../../recipes/rev-vit-imagenet.json"),
    include_str!("../../recipes/text.json"),
    include_str!("../../recipes/vit-small-images.json"),
];

/// The least share of an image's area that a resized crop shows.
const LEAST_PART: f64 = 0.08;

/// How to train.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    pub name: String,
    /// Where the numbers come from.
    pub source: String,
    pub optimizer: OptimizerName,
    /// The highest learning rate.
    pub rate: f64,
    /// The batch that the rate is for; it grows with the batch. Without, the rate is for any batch.
    pub rate_batch: Option<usize>,
    pub batch: usize,
    pub epochs: usize,
    /// Of `epochs`; scaled if there are fewer or more.
    pub warm_up_epochs: f64,
    pub schedule: Schedule,
    pub augmentation: AugmentationName,
    pub label_smoothing: f64,
    /// The largest norm of all gradients together.
    pub clip: Option<f64>,
    /// Part of the images in which a rectangle is erased.
    #[serde(default)]
    pub erase: f64,
    /// Samples are mixed by mixup, with this parameter of its distribution; 0 does not.
    #[serde(default)]
    pub mixup: f64,
    /// By cutmix; with both, each is taken for every other batch.
    #[serde(default)]
    pub cutmix: f64,
    /// Rate of drop-path in the last block.
    #[serde(default)]
    pub drop_path: Option<f64>,
    /// What a moving average of the weights, by which the run is judged, keeps of itself in a step.
    #[serde(default)]
    pub ema: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OptimizerName {
    /// `AdamW`, which decays weights beside the gradient.
    AdamW { decay: f32 },
    /// Nesterov's momentum.
    Sgd { momentum: f32, decay: f32 },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Schedule {
    /// Half a cosine down to zero.
    Cosine,
    /// A factor at each of these epochs, scaled as the warm-up is.
    Steps { at_epochs: Vec<f64>, factor: f64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AugmentationName {
    /// Nothing.
    None,
    /// By up to one pixel.
    Shift,
    /// Crop with padding 4, flip.
    CropFlip,
    /// A part of at least a twelfth or so, brought to size; flip.
    ResizedCropFlip,
}

impl Recipe {
    fn all() -> Vec<Self> {
        FILES.iter().map(|file| serde_json::from_str(file).expect("a test reads every recipe")).collect()
    }

    /// The recipe of that name.
    pub fn by_name(name: &str) -> Result<Self, Failure> {
        Self::all().into_iter().find(|recipe| recipe.name == name).ok_or_else(|| {
            let names: Vec<String> = Self::all().into_iter().map(|recipe| recipe.name).collect();
            Failure::usage(format!("there is no recipe called `{name}`"))
                .hint(format!("choose one of {}", names.join(", ")))
        })
    }

    /// The recipe that the command line names, or the one for its model and data set.
    pub fn chosen(options: &TrainOptions) -> Result<Self, Failure> {
        let default = Self::default_name(&options.model, &options.data);
        Self::by_name(options.recipe.as_deref().unwrap_or(default))
    }

    /// The name of the recipe for a model and a data set.
    fn default_name(model: &str, data: &str) -> &'static str {
        match (model, data) {
            (_, "digits") => "digits",
            (_, "text" | "sotu") => "text",
            (model, "imagenet" | "imagenet32") if model.contains("resnet") => "petra-imagenet",
            (model, "imagenet") if model.contains("swin") => "rev-swin-imagenet",
            (model, "imagenet") if model.contains("mvit") => "rev-mvit-imagenet",
            (_, "imagenet") => "rev-vit-imagenet",
            (model, _) if model.contains("resnet") => "petra-cifar10",
            _ => "vit-small-images",
        }
    }

    /// What is done to images, of which channels are normalised by `mean` and `deviation`.
    pub fn augmentation(&self, mean: &[f32], deviation: &[f32]) -> Augmentation {
        let (crop, flip) = match self.augmentation {
            AugmentationName::None => (Crop::Whole, false),
            AugmentationName::Shift => (Crop::Shift, false),
            AugmentationName::CropFlip => (Crop::Padded(4), true),
            AugmentationName::ResizedCropFlip => (Crop::Resized(LEAST_PART), true),
        };
        Augmentation { crop, flip, erase: self.erase, mean: mean.to_vec(), deviation: deviation.to_vec() }
    }

    /// How samples are mixed.
    pub fn mixtures(&self) -> Vec<Mixture> {
        let wanted = [(self.mixup, Mixture::Mixup(self.mixup)), (self.cutmix, Mixture::Cutmix(self.cutmix))];
        wanted.into_iter().filter(|(a, _)| *a > 0.0).map(|(_, mixture)| mixture).collect()
    }

    /// What of this recipe the stages of a pipeline cannot do, if anything.
    pub fn beyond_stages(&self) -> Option<&'static str> {
        self.ema.map(|_| "averages weights, which the stages of a pipeline do not keep")
    }

    /// The highest rate for this batch.
    pub fn peak_rate(&self, batch: usize) -> f64 {
        self.rate * self.rate_batch.map_or(1.0, |base| batch as f64 / base as f64)
    }

    /// The optimizer, which decays weights and nothing else.
    pub fn optimizer(&self) -> ModuleOptimizer {
        let undecayed = ParamGroup::from_any_predicates(UNDECAYED.to_vec());
        match self.optimizer {
            OptimizerName::AdamW { decay } => {
                let config = AdamWConfig::new();
                config.clone().with_weight_decay(decay).init().with_group(undecayed, config.build(), None)
            }
            OptimizerName::Sgd { momentum, decay } => {
                let config = SgdConfig::new().with_momentum(momentum);
                config.clone().with_weight_decay(decay).init().with_group(undecayed, config.build(), None)
            }
        }
    }

    /// The rate of a step: a linear rise to `peak`, then what the schedule says.
    pub fn learning_rate(&self, peak: f64, step: usize, steps: usize) -> f64 {
        let part = |epochs: f64| epochs / self.epochs as f64;
        let warm_up = (part(self.warm_up_epochs) * steps as f64).max(1.0);
        let done = step as f64 + 1.0;
        match &self.schedule {
            _ if done <= warm_up => peak * done / warm_up,
            Schedule::Cosine => {
                let progress = (done - warm_up) / (steps as f64 - warm_up).max(1.0);
                peak * 0.5 * (1.0 + (std::f64::consts::PI * progress.min(1.0)).cos())
            }
            Schedule::Steps { at_epochs, factor } => {
                let progress = step as f64 / steps as f64;
                let passed = at_epochs.iter().filter(|&&epoch| progress >= part(epoch)).count();
                peak * factor.powi(passed as i32)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recipe_can_be_read_and_has_a_name_of_its_own() {
        let mut names: Vec<String> = Recipe::all().into_iter().map(|recipe| recipe.name).collect();
        names.dedup();
        assert_eq!(names.len(), FILES.len());
        for (model, data) in [
            ("rev-vit-ti", "digits"),
            ("rev-resnet-18", "cifar10"),
            ("rev-vit-ti", "cifar10"),
            ("rev-swin-t", "imagenet"),
            ("rev-mvit-b", "imagenet"),
            ("vit-s", "imagenet"),
            ("resnet-50", "imagenet32"),
        ] {
            assert!(Recipe::by_name(Recipe::default_name(model, data)).is_ok());
        }
    }

    #[test]
    fn a_cosine_rises_to_its_peak_and_falls_to_zero() {
        let recipe = Recipe::by_name("digits").unwrap();
        let rates: Vec<f64> = (0..1000).map(|step| recipe.learning_rate(1.0, step, 1000)).collect();
        assert!((rates[49] - 1.0).abs() < 1e-12);
        assert!(rates[..50].is_sorted() && rates[49..].is_sorted_by(|a, b| a >= b));
        assert!(rates[999].abs() < 1e-12);
        assert!(recipe.learning_rate(1.0, 0, 1) > 0.0);
    }

    /// 300 epochs of ten steps: five to warm up, a tenth at 150 and at 225.
    #[test]
    fn steps_fall_where_the_paper_says() {
        let recipe = Recipe::by_name("petra-cifar10").unwrap();
        assert!((recipe.peak_rate(64) - 0.025).abs() < 1e-15);
        let rate = |epoch: usize| recipe.learning_rate(1.0, 10 * epoch, 3000);
        assert!(rate(0) < 0.03 && rate(4) < 1.0);
        for (epoch, expected) in [(5, 1.0), (149, 1.0), (150, 0.1), (224, 0.1), (225, 0.01), (299, 0.01)] {
            assert!((rate(epoch) - expected).abs() < 1e-12, "epoch {epoch}: {}", rate(epoch));
        }
    }
}
