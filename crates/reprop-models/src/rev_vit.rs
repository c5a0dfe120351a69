//! `RevViT`: the reversible vision transformer (Mangalam et al., *Reversible Vision Transformers*, 2022).
//!
//! Patches become tokens; both streams begin as the same tokens; each block is a coupling of attention and perceptron
//! with no residual inside; at the end both streams are averaged over the tokens, normalised and classified. There is
//! no class token.

use burn::config::Config;
use burn::module::Module;
use burn::tensor::Device;
use reprop::layers::{
    Attention, AttentionConfig, Classifier, ClassifierConfig, Initial, Mlp, MlpConfig, Patches, PatchesConfig,
};
use reprop::{Couple, Network, Piece};

use crate::checks::{positive, rates};

/// Settings of a [`RevVit`], with a constructor for each published size.
///
/// ```
/// use burn::module::Module;
/// use burn::tensor::Device;
/// use reprop_models::RevVitConfig;
///
/// let network = RevVitConfig::small().init(42, &Device::flex().autodiff());
/// assert_eq!(network.num_params(), 22_434_664);
/// ```
#[derive(Config, Debug)]
pub struct RevVitConfig {
    /// Side of the square image in pixels.
    pub image: usize,
    /// Side of a square patch; divides the image's.
    pub patch: usize,
    /// Width of a stream.
    pub width: usize,
    /// Number of blocks.
    pub depth: usize,
    /// Heads of each attention; divide the width.
    pub heads: usize,
    /// Hidden width of each perceptron.
    pub hidden: usize,
    /// Channels of the image.
    #[config(default = 3)]
    pub channels: usize,
    /// Number of classes.
    #[config(default = 1000)]
    pub classes: usize,
    /// Rate at which elements of a sub-block's output are dropped.
    #[config(default = 0.0)]
    pub dropout: f64,
    /// Rate at which whole samples of a sub-block's output are dropped in the last block; it rises from zero in the
    /// first.
    #[config(default = 0.0)]
    pub drop_path: f64,
    /// How much of the target goes to all classes alike.
    #[config(default = 0.0)]
    pub label_smoothing: f64,
    /// Deviation of initial weights.
    #[config(default = 0.02)]
    pub deviation: f64,
}

impl RevVitConfig {
    /// For 8x8 grey images of ten digits: 0.2 M parameters. Initial weights are wider than in large networks, as the
    /// width is smaller: `1 / sqrt(64)`.
    pub fn digits() -> Self {
        Self::new(8, 2, 64, 6, 4, 128).with_channels(1).with_classes(10).with_deviation(0.125)
    }

    /// For CIFAR-10 on few cores: eight by eight tokens of 32x32 colour images, 0.7 M parameters.
    pub fn cifar() -> Self {
        Self::new(32, 4, 96, 6, 3, 384).with_classes(10).with_deviation(0.1)
    }

    /// RevViT-Ti/16: 5.9 M parameters.
    pub fn tiny() -> Self {
        Self::new(224, 16, 192, 12, 3, 768)
    }

    /// RevViT-S/16: 22.4 M parameters.
    pub fn small() -> Self {
        Self::new(224, 16, 384, 12, 6, 1536)
    }

    /// RevViT-B/16: 87.3 M parameters.
    pub fn base() -> Self {
        Self::new(224, 16, 768, 12, 12, 3072)
    }

    /// RevViT-L/16: 305.4 M parameters.
    pub fn large() -> Self {
        Self::new(224, 16, 1024, 24, 16, 4096)
    }

    /// RevViT-H/14: 633.3 M parameters.
    pub fn huge() -> Self {
        Self::new(224, 14, 1280, 32, 16, 5120)
    }

    /// RevViT-g/14: 1.014 G parameters.
    pub fn giant() -> Self {
        Self::new(224, 14, 1408, 40, 16, 6144)
    }

    /// A network with initial parameters from `seed`. Their memory is taken when they are first used.
    ///
    /// # Panics
    ///
    /// Panics if the patch does not divide the image, or the heads the width: [`Self::check`] tells beforehand.
    pub fn init(&self, seed: u64, device: &Device) -> RevVit {
        let mut initial = Initial::new(seed, device).with_deviation(self.deviation);
        let stem = self.patches().init(&mut initial);
        let blocks = (0..self.depth)
            .map(|index| {
                let drop_path = self.drop_path * index as f64 / self.depth.saturating_sub(1).max(1) as f64;
                let sizes = [self.width, self.heads, self.hidden];
                RevVitBlock::new(sizes, self.dropout, drop_path, &mut initial)
            })
            .collect();
        let head = ClassifierConfig::new(self.width, self.classes)
            .with_label_smoothing(self.label_smoothing)
            .init(&mut initial);
        RevVit { stem, blocks, head }
    }

    /// A sentence with the numbers in it, if these settings do not make a network.
    ///
    /// # Errors
    ///
    /// The sentence.
    pub fn check(&self) -> Result<(), String> {
        let Self { image, patch, width, depth, heads, hidden, channels, classes, .. } = *self;
        positive(&[
            ("image", image),
            ("patch", patch),
            ("width", width),
            ("depth", depth),
            ("heads", heads),
            ("hidden width", hidden),
            ("channels", channels),
            ("classes", classes),
        ])?;
        if !image.is_multiple_of(patch) {
            return Err(format!("patches of {patch} pixels do not divide an image of {image}"));
        }
        if !width.is_multiple_of(heads) {
            return Err(format!("{heads} heads do not divide a width of {width}"));
        }
        rates(&[
            ("dropout", self.dropout),
            ("drop-path", self.drop_path),
            ("label smoothing", self.label_smoothing),
        ])
    }

    fn patches(&self) -> PatchesConfig {
        PatchesConfig::new(self.image, self.patch, self.channels, self.width)
    }

    /// Multiplications of one forward of one image.
    pub fn multiplications(&self) -> u64 {
        self.costs().into_iter().sum()
    }

    /// The same for each place: the stem, the blocks, the head.
    pub(crate) fn costs(&self) -> Vec<u64> {
        let (tokens, width) = (self.patches().tokens(), self.width);
        let stem = tokens * self.channels * self.patch * self.patch * width;
        let attention = tokens * width * 4 * width + 2 * tokens * tokens * width;
        let mlp = 2 * tokens * width * self.hidden;
        let head = 2 * width * self.classes;
        let blocks = std::iter::repeat_n(attention + mlp, self.depth);
        [stem].into_iter().chain(blocks).chain([head]).map(|cost| cost as u64).collect()
    }
}

/// A reversible vision transformer.
///
/// # Shapes
///
/// `[batch, channels, image, image] -> [batch, classes]`
#[derive(Module, Debug)]
pub struct RevVit {
    /// From images to tokens.
    pub stem: Patches,
    /// The reversible stack.
    pub blocks: Vec<RevVitBlock>,
    /// From tokens to classes.
    pub head: Classifier,
}

/// A coupling of attention (F) and perceptron (G).
#[derive(Module, Debug)]
pub struct RevVitBlock {
    /// F.
    pub attention: Attention,
    /// G.
    pub mlp: Mlp,
}

impl RevVitBlock {
    /// A block with initial parameters: of a width, with a number of heads and a hidden width.
    ///
    /// # Panics
    ///
    /// Panics if the heads do not divide the width.
    pub fn new(
        [width, heads, hidden]: [usize; 3],
        dropout: f64,
        drop_path: f64,
        initial: &mut Initial,
    ) -> Self {
        let attention = AttentionConfig::new(width, heads).with_dropout(dropout).with_drop_path(drop_path);
        let mlp = MlpConfig::new(width, hidden).with_dropout(dropout).with_drop_path(drop_path);
        Self { attention: attention.init(initial), mlp: mlp.init(initial) }
    }
}

impl Couple<3> for RevVitBlock {
    type F = Attention;
    type G = Mlp;

    fn f(&self) -> &Attention {
        &self.attention
    }

    fn g(&self) -> &Mlp {
        &self.mlp
    }
}

impl Network<3> for RevVit {
    type Stem = Patches;
    type Head = Classifier;

    fn stem(&self) -> &Patches {
        &self.stem
    }

    fn pieces(&self) -> Vec<Piece<'_, 3>> {
        self.blocks.iter().map(|block| Piece::Block(block)).collect()
    }

    fn head(&self) -> &Classifier {
        &self.head
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(config: &RevVitConfig) -> usize {
        config.init(0, &Device::flex()).num_params()
    }

    #[test]
    fn published_sizes_have_the_published_parameters() {
        assert_eq!(parameters(&RevVitConfig::small()), 22_434_664);
        for (config, millions) in [
            (RevVitConfig::tiny(), 5.9),
            (RevVitConfig::base(), 87.3),
            (RevVitConfig::large(), 305.4),
            (RevVitConfig::huge(), 633.3),
            (RevVitConfig::giant(), 1014.0),
        ] {
            let found = parameters(&config) as f64 / 1e6;
            assert!((found / millions - 1.0).abs() < 0.01, "{found} against {millions}");
        }
    }

    #[test]
    fn published_sizes_have_the_published_multiplications() {
        for (config, billions) in [
            (RevVitConfig::tiny(), 1.2),
            (RevVitConfig::small(), 4.6),
            (RevVitConfig::base(), 17.5),
            (RevVitConfig::large(), 61.2),
            (RevVitConfig::huge(), 166.6),
            (RevVitConfig::giant(), 266.0),
        ] {
            let found = config.multiplications() as f64 / 1e9;
            assert!((found / billions - 1.0).abs() < 0.06, "{found} against {billions}");
        }
    }

    #[test]
    fn settings_that_make_no_network_are_refused_with_their_numbers() {
        let refused = RevVitConfig { patch: 3, ..RevVitConfig::digits() }.check().unwrap_err();
        assert!(refused.contains('3') && refused.contains('8'), "{refused}");
        assert!(RevVitConfig { heads: 5, ..RevVitConfig::digits() }.check().is_err());
        assert!(RevVitConfig { depth: 0, ..RevVitConfig::digits() }.check().is_err());
        assert!(RevVitConfig::digits().with_drop_path(1.0).check().is_err());
        assert_eq!(RevVitConfig::digits().check(), Ok(()));
    }
}
