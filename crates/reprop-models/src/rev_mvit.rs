//! `RevMViT`: the reversible multiscale vision transformer (Fan et al., *Multiscale Vision Transformers*, 2021; Mangalam et
//! al., *Reversible Vision Transformers*, 2022).
//!
//! Overlapping patches become tokens with learned positions; each stage is a stack of couplings of pooled attention and
//! perceptron. Between stages an ordinary block fuses both streams, doubles the width and the heads, and pools the queries
//! by two; strides of keys and values shrink as the image does. At the end both streams are averaged over the tokens,
//! normalised and classified.
//!
//! Of the published `RevMViT-B` the transitions are blocks 1, 3 and 14; they fuse by a perceptron straight to the doubled
//! width.

use burn::config::Config;
use burn::module::Module;
use burn::tensor::Device;
use reprop::layers::{
    Classifier, ClassifierConfig, Initial, Mlp, MlpConfig, Patches, PatchesConfig, PooledAttention,
    PooledAttentionConfig, Widen, WidenConfig,
};
use reprop::{Couple, Network, Piece};

use crate::checks::{positive, rates};

/// Settings of a [`RevMvit`], with a constructor for each published size.
///
/// ```
/// use burn::module::Module;
/// use burn::tensor::Device;
/// use reprop_models::RevMvitConfig;
///
/// let network = RevMvitConfig::base().init(42, &Device::flex().autodiff());
/// assert!((38_000_000..40_000_000).contains(&network.num_params()));
/// ```
#[derive(Config, Debug)]
pub struct RevMvitConfig {
    /// Side of the square image in pixels.
    pub image: usize,
    /// Width of a stream in the first stage; it doubles in each one after.
    pub width: usize,
    /// Reversible blocks of each stage.
    pub depths: Vec<usize>,
    /// Heads of each attention in the first stage; they double with the width.
    #[config(default = 1)]
    pub heads: usize,
    /// Pixels between tokens.
    #[config(default = 4)]
    pub patch: usize,
    /// Side of the square of pixels that a token sees.
    #[config(default = 7)]
    pub kernel: usize,
    /// Stride of keys and values in the first stage; halved in each one after, down to one.
    #[config(default = 4)]
    pub stride: usize,
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

/// Sizes of one stage.
struct Stage {
    side: usize,
    width: usize,
    heads: usize,
    stride: usize,
}

impl RevMvitConfig {
    /// For CIFAR-10 on few cores: three stages that begin with 16x16 tokens of 32x32 colour images, 1.0 M parameters.
    pub fn cifar() -> Self {
        Self::new(32, 32, vec![1, 1, 3]).with_patch(2).with_kernel(3).with_classes(10).with_deviation(0.1)
    }

    /// RevMViT-B: about 39 M parameters.
    pub fn base() -> Self {
        Self::new(224, 96, vec![1, 1, 10, 1])
    }

    fn stage(&self, stage: usize) -> Stage {
        let side = (0..stage).fold(self.image / self.patch, |side, _| side.div_ceil(2));
        let stride = (self.stride >> stage).max(1);
        Stage { side, width: self.width << stage, heads: self.heads << stage, stride }
    }

    /// A network with initial parameters from `seed`. Their memory is taken when they are first used.
    ///
    /// # Panics
    ///
    /// Panics where [`Self::check`] refuses.
    pub fn init(&self, seed: u64, device: &Device) -> RevMvit {
        let mut initial = Initial::new(seed, device).with_deviation(self.deviation);
        let patches = PatchesConfig::new(self.image, self.patch, self.channels, self.width);
        let stem = patches.with_kernel(Some(self.kernel)).init(&mut initial);
        let last = self.depths.len() - 1;
        let pieces = self.depths.iter().sum::<usize>() + last;
        let mut rates =
            (0..pieces).map(|piece| self.drop_path * piece as f64 / pieces.saturating_sub(1).max(1) as f64);
        let mut rate = || rates.next().unwrap_or(self.drop_path);
        let stages = (0..=last)
            .map(|stage| {
                let blocks =
                    (0..self.depths[stage]).map(|_| self.block(stage, rate(), &mut initial)).collect();
                let widen = (stage < last).then(|| self.widen(stage, rate(), &mut initial));
                RevMvitStage { blocks, widen }
            })
            .collect();
        let head = ClassifierConfig::new(self.stage(last).width, self.classes)
            .with_label_smoothing(self.label_smoothing)
            .init(&mut initial);
        RevMvit { stem, stages, head }
    }

    fn block(&self, stage: usize, drop_path: f64, initial: &mut Initial) -> RevMvitBlock {
        let Stage { side, width, heads, stride } = self.stage(stage);
        let attention = PooledAttentionConfig::new(side, width, heads, stride)
            .with_dropout(self.dropout)
            .with_drop_path(drop_path);
        let mlp =
            MlpConfig::new(width, self.ratio * width).with_dropout(self.dropout).with_drop_path(drop_path);
        RevMvitBlock { attention: attention.init(initial), mlp: mlp.init(initial) }
    }

    /// The transition from `stage` to the next, with the strides of the next.
    fn widen(&self, stage: usize, drop_path: f64, initial: &mut Initial) -> Widen {
        let (Stage { side, width, .. }, next) = (self.stage(stage), self.stage(stage + 1));
        let widen = WidenConfig::new(side, width, next.heads, next.stride, self.ratio * next.width);
        widen.with_drop_path(drop_path).init(initial)
    }

    /// A sentence with the numbers in it, if these settings do not make a network.
    ///
    /// # Errors
    ///
    /// The sentence.
    pub fn check(&self) -> Result<(), String> {
        let Self { image, patch, kernel, width, heads, .. } = *self;
        positive(&[
            ("image", image),
            ("patch", patch),
            ("width", width),
            ("depth", self.depths.iter().copied().min().unwrap_or(0)),
            ("heads", heads),
            ("stride", self.stride),
            ("ratio", self.ratio),
            ("channels", self.channels),
            ("classes", self.classes),
        ])?;
        if !image.is_multiple_of(patch) {
            return Err(format!("patches of {patch} pixels do not divide an image of {image}"));
        }
        if kernel != patch && (kernel < patch || kernel % 2 == 0) {
            return Err(format!("a square of {kernel} pixels is not centred on a patch of {patch}"));
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
        // Queries and tokens of a block at a stage's width.
        let block = |tokens: usize, queries: usize, Stage { side, width, stride, .. }: &Stage| {
            let keys = side.div_ceil(*stride).pow(2);
            let attention = (3 * tokens + queries) * width * width + 2 * queries * keys * width;
            attention + 9 * 2 * keys * width + 2 * queries * width * self.ratio * width
        };
        let last = self.depths.len() - 1;
        let stages = (0..=last).map(|stage| {
            let here = self.stage(stage);
            let tokens = here.side.pow(2);
            let blocks = self.depths[stage] * block(tokens, tokens, &here);
            if stage == last {
                return blocks + 2 * here.width * self.classes;
            }
            let next = self.stage(stage + 1);
            let queries = next.side.pow(2);
            let fuse = 2 * tokens * next.width * next.width;
            blocks + fuse + block(tokens, queries, &Stage { side: here.side, ..next })
        });
        let Stage { side, width, .. } = self.stage(0);
        let stem = side * side * self.channels * self.kernel.pow(2) * width;
        (stem + stages.sum::<usize>()) as u64
    }
}

/// A reversible multiscale vision transformer.
///
/// # Shapes
///
/// `[batch, channels, image, image] -> [batch, classes]`
#[derive(Module, Debug)]
pub struct RevMvit {
    /// From images to tokens.
    pub stem: Patches,
    /// Reversible stacks with transitions between them.
    pub stages: Vec<RevMvitStage>,
    /// From tokens to classes.
    pub head: Classifier,
}

/// Blocks of one width, and what leads to the next stage.
#[derive(Module, Debug)]
pub struct RevMvitStage {
    /// The reversible stack.
    pub blocks: Vec<RevMvitBlock>,
    /// To the next stage; none after the last.
    pub widen: Option<Widen>,
}

/// A coupling of pooled attention (F) and perceptron (G).
#[derive(Module, Debug)]
pub struct RevMvitBlock {
    /// F.
    pub attention: PooledAttention,
    /// G.
    pub mlp: Mlp,
}

impl Couple<3> for RevMvitBlock {
    type F = PooledAttention;
    type G = Mlp;

    fn f(&self) -> &PooledAttention {
        &self.attention
    }

    fn g(&self) -> &Mlp {
        &self.mlp
    }
}

impl RevMvitStage {
    /// Its blocks and its transition, in the order of the forward pass.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'_, 3>> {
        let blocks = self.blocks.iter().map(|block| -> Piece<'_, 3> { Piece::Block(block) });
        blocks.chain(self.widen.iter().map(|widen| -> Piece<'_, 3> { Piece::Transition(widen) }))
    }
}

impl Network<3> for RevMvit {
    type Stem = Patches;
    type Head = Classifier;

    fn stem(&self) -> &Patches {
        &self.stem
    }

    fn pieces(&self) -> Vec<Piece<'_, 3>> {
        self.stages.iter().flat_map(RevMvitStage::pieces).collect()
    }

    fn head(&self) -> &Classifier {
        &self.head
    }
}
