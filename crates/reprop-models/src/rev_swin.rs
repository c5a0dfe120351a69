//! `RevSwin`: the reversible Swin transformer (Liu et al., *Swin Transformer*, 2021; Zhu & Mangalam, *PaReprop*, 2023).
//!
//! Patches of four pixels become tokens; each stage begins two equal streams and runs couplings of attention inside
//! windows, shifted in every second block, and perceptron. Between stages both streams are fused into one and four
//! tokens are merged into one of twice the width. The last stage keeps both streams: they are normalised side by side,
//! averaged over the tokens and classified.

use burn::config::Config;
use burn::module::Module;
use burn::tensor::Device;
use reprop::layers::{
    Classifier, ClassifierConfig, Initial, Merge, MergeConfig, Mlp, MlpConfig, Patches, PatchesConfig,
    WindowAttention, WindowAttentionConfig,
};
use reprop::{Couple, Network, Piece};

use crate::checks::{positive, rates};

/// Settings of a [`RevSwin`], with a constructor for each published size.
///
/// ```
/// use burn::module::Module;
/// use burn::tensor::Device;
/// use reprop_models::RevSwinConfig;
///
/// let network = RevSwinConfig::tiny().init(42, &Device::flex().autodiff());
/// assert_eq!(network.num_params(), 30_221_122);
/// ```
#[derive(Config, Debug)]
pub struct RevSwinConfig {
    /// Side of the square image in pixels.
    pub image: usize,
    /// Width of a stream in the first stage; it doubles in each one after.
    pub width: usize,
    /// Blocks of each stage.
    pub depths: Vec<usize>,
    /// Heads of each attention in the first stage; they double with the width.
    pub heads: usize,
    /// Side of a square patch; divides the image's.
    #[config(default = 4)]
    pub patch: usize,
    /// Tokens along the side of a window, where the stage's side allows: see [`Self::window`].
    #[config(default = 7)]
    pub window: usize,
    /// Hidden width of each perceptron in widths of the stream.
    #[config(default = 4)]
    pub ratio: usize,
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

impl RevSwinConfig {
    /// For CIFAR-10 on few cores: three stages that begin with 16x16 tokens of 32x32 colour images, 1.3 M parameters.
    pub fn cifar() -> Self {
        Self::new(32, 48, vec![2, 2, 2], 3).with_patch(2).with_window(4).with_classes(10).with_deviation(0.1)
    }

    /// RevSwin-T: 30.2 M parameters.
    pub fn tiny() -> Self {
        Self::new(224, 96, vec![2, 2, 6, 2], 3)
    }

    /// RevSwin-S: 51.5 M parameters.
    pub fn small() -> Self {
        Self::new(224, 96, vec![2, 2, 18, 2], 3)
    }

    /// RevSwin-B: 90.9 M parameters.
    pub fn base() -> Self {
        Self::new(224, 128, vec![2, 2, 18, 2], 4)
    }

    /// RevSwin-L: 202.7 M parameters.
    pub fn large() -> Self {
        Self::new(224, 192, vec![2, 2, 18, 2], 6)
    }

    /// RevSwin-H.
    pub fn huge() -> Self {
        Self::new(224, 352, vec![2, 2, 18, 2], 11)
    }

    /// RevSwin-G.
    pub fn giant() -> Self {
        Self::new(224, 512, vec![2, 2, 42, 2], 16)
    }

    /// Tokens along the image's side, width and heads of stage `stage`.
    fn stage(&self, stage: usize) -> (usize, usize, usize) {
        ((self.image / self.patch) >> stage, self.width << stage, self.heads << stage)
    }

    /// The side of a window in a stage of `side` tokens along the image's: the largest up to [`Self::window`] that divides
    /// it. No token is then made up to fill a window. At 224 pixels it is 7 everywhere; at 32, with patches of two, 4, 4, 4
    /// and 2.
    pub fn window(&self, side: usize) -> usize {
        (1..=self.window.min(side)).rev().find(|&window| side.is_multiple_of(window)).unwrap_or(1)
    }

    /// A network with initial parameters from `seed`. Their memory is taken when they are first used.
    ///
    /// # Panics
    ///
    /// Panics where [`Self::check`] refuses.
    pub fn init(&self, seed: u64, device: &Device) -> RevSwin {
        let mut initial = Initial::new(seed, device).with_deviation(self.deviation);
        let patches = PatchesConfig::new(self.image, self.patch, self.channels, self.width);
        let stem = patches.with_positions(false).with_norm(true).init(&mut initial);
        let blocks: usize = self.depths.iter().sum();
        let rates: Vec<f64> = (0..blocks)
            .map(|index| self.drop_path * index as f64 / blocks.saturating_sub(1).max(1) as f64)
            .collect();
        let mut rates = rates.into_iter();
        let stages = (0..self.depths.len())
            .map(|stage| {
                let (side, width, _) = self.stage(stage);
                let blocks = rates.by_ref().take(self.depths[stage]).enumerate();
                let blocks =
                    blocks.map(|(index, rate)| self.block(stage, index, rate, &mut initial)).collect();
                let is_last = stage + 1 == self.depths.len();
                let merge = (!is_last).then(|| MergeConfig::new(side, width).init(&mut initial));
                RevSwinStage { blocks, merge }
            })
            .collect();
        let (_, width, _) = self.stage(self.depths.len() - 1);
        let head = ClassifierConfig::new(width, self.classes)
            .with_label_smoothing(self.label_smoothing)
            .with_averages_first(false)
            .init(&mut initial);
        RevSwin { stem, stages, head }
    }

    /// Block `index` of a stage. Windows are shifted by half a window in every second one, where there are several.
    fn block(&self, stage: usize, index: usize, drop_path: f64, initial: &mut Initial) -> RevSwinBlock {
        let (side, width, heads) = self.stage(stage);
        let window = self.window(side);
        let shift = if index.is_multiple_of(2) || window == side { 0 } else { window / 2 };
        RevSwinBlock {
            attention: WindowAttentionConfig::new(side, window, shift, width, heads)
                .with_dropout(self.dropout)
                .with_drop_path(drop_path)
                .init(initial),
            mlp: MlpConfig::new(width, self.ratio * width)
                .with_dropout(self.dropout)
                .with_drop_path(drop_path)
                .init(initial),
        }
    }

    /// A sentence with the numbers in it, if these settings do not make a network.
    ///
    /// # Errors
    ///
    /// The sentence.
    pub fn check(&self) -> Result<(), String> {
        let Self { image, patch, width, heads, window, .. } = *self;
        let least = self.depths.iter().copied().min().unwrap_or(0);
        positive(&[
            ("image", image),
            ("patch", patch),
            ("width", width),
            ("depth", least),
            ("heads", heads),
            ("window", window),
            ("ratio", self.ratio),
            ("channels", self.channels),
            ("classes", self.classes),
        ])?;
        let pixels = patch << (self.depths.len() - 1);
        if !image.is_multiple_of(pixels) {
            return Err(format!(
                "patches of {patch} pixels, merged {} times by two, do not divide an image of {image}: choose a multiple of {pixels}",
                self.depths.len() - 1
            ));
        }
        for stage in 0..self.depths.len() {
            let (side, _, _) = self.stage(stage);
            if side > window && self.window(side) == 1 {
                return Err(format!(
                    "no window of 2 to {window} tokens divides the {side} tokens along the side of stage {stage}: choose another image than {image}"
                ));
            }
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

    /// Multiplications of one forward of one image.
    pub fn multiplications(&self) -> u64 {
        let stages = (0..self.depths.len()).map(|stage| {
            let (side, width, _) = self.stage(stage);
            let (tokens, window) = (side * side, self.window(side).pow(2));
            let attention = tokens * width * 4 * width + 2 * tokens * window * width;
            let mlp = 2 * tokens * width * self.ratio * width;
            let is_last = stage + 1 == self.depths.len();
            let merge = if is_last { 2 * width * self.classes } else { tokens * width * (6 + 2) * width };
            self.depths[stage] * (attention + mlp) + merge
        });
        let (side, width, _) = self.stage(0);
        let stem = side * side * self.channels * self.patch.pow(2) * width;
        (stem + stages.sum::<usize>()) as u64
    }
}

/// A reversible Swin transformer.
///
/// # Shapes
///
/// `[batch, channels, image, image] -> [batch, classes]`
#[derive(Module, Debug)]
pub struct RevSwin {
    /// From images to tokens.
    pub stem: Patches,
    /// Reversible stacks with transitions between them.
    pub stages: Vec<RevSwinStage>,
    /// From tokens to classes.
    pub head: Classifier,
}

/// Blocks of one width, and what leads to the next stage.
#[derive(Module, Debug)]
pub struct RevSwinStage {
    /// The reversible stack.
    pub blocks: Vec<RevSwinBlock>,
    /// To the next stage; none after the last.
    pub merge: Option<Merge>,
}

/// A coupling of attention inside windows (F) and perceptron (G).
#[derive(Module, Debug)]
pub struct RevSwinBlock {
    /// F.
    pub attention: WindowAttention,
    /// G.
    pub mlp: Mlp,
}

impl Couple<3> for RevSwinBlock {
    type F = WindowAttention;
    type G = Mlp;

    fn f(&self) -> &WindowAttention {
        &self.attention
    }

    fn g(&self) -> &Mlp {
        &self.mlp
    }
}

impl RevSwinStage {
    /// Its blocks and its transition, in the order of the forward pass.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'_, 3>> {
        let blocks = self.blocks.iter().map(|block| -> Piece<'_, 3> { Piece::Block(block) });
        blocks.chain(self.merge.iter().map(|merge| -> Piece<'_, 3> { Piece::Transition(merge) }))
    }
}

impl Network<3> for RevSwin {
    type Stem = Patches;
    type Head = Classifier;

    fn stem(&self) -> &Patches {
        &self.stem
    }

    fn pieces(&self) -> Vec<Piece<'_, 3>> {
        self.stages.iter().flat_map(RevSwinStage::pieces).collect()
    }

    fn head(&self) -> &Classifier {
        &self.head
    }
}
