//! `RevRoBERTa`: a reversible masked language model (Liu et al., *`RoBERTa`*, 2019, in its pre-norm form, with the blocks of
//! Mangalam et al., *Reversible Vision Transformers*, 2022).
//!
//! Tokens and learned places become two equal streams; each block is a coupling of attention, which does not look at
//! padding, and perceptron; at the end the mean of both streams is normalised and goes through `RoBERTa`'s head, which
//! scores tokens with the table they came from, or with one of its own.

use burn::config::Config;
use burn::module::Module;
use burn::tensor::Device;
use reprop::layers::{Initial, Language, LanguageConfig};
use reprop::{Network, Piece};

use crate::RevVitBlock;
use crate::checks::{positive, rates};

/// Settings of a [`RevRoberta`], with a constructor for each published size.
///
/// ```
/// use burn::module::Module;
/// use burn::tensor::Device;
/// use reprop_models::RevRobertaConfig;
///
/// let network = RevRobertaConfig::base().init(42, &Device::flex().autodiff());
/// assert_eq!(network.num_params(), 124_695_129);
/// ```
#[derive(Config, Debug)]
pub struct RevRobertaConfig {
    /// Number of tokens.
    pub vocabulary: usize,
    /// Places of a sequence.
    pub length: usize,
    /// Width of a stream.
    pub width: usize,
    /// Number of blocks.
    pub depth: usize,
    /// Heads of each attention; divide the width.
    pub heads: usize,
    /// Hidden width of each perceptron.
    pub hidden: usize,
    /// Rate at which elements of a sub-block's output are dropped.
    #[config(default = 0.0)]
    pub dropout: f64,
    /// Rate at which whole samples of a sub-block's output are dropped in the last block; it rises from zero in the
    /// first.
    #[config(default = 0.0)]
    pub drop_path: f64,
    /// Deviation of initial weights.
    #[config(default = 0.02)]
    pub deviation: f64,
    /// Whether tokens are scored with the table they came from, as published. A pipeline needs a table at each end.
    #[config(default = true)]
    pub tied: bool,
}

/// Tokens of `RoBERTa`'s published vocabulary.
const VOCABULARY: usize = 50_265;

impl RevRobertaConfig {
    /// RevRoBERTa-base: 125 M parameters.
    pub fn base() -> Self {
        Self::new(VOCABULARY, 512, 768, 12, 12, 3072)
    }

    /// RevRoBERTa-large: 355 M parameters.
    pub fn large() -> Self {
        Self::new(VOCABULARY, 512, 1024, 24, 16, 4096)
    }

    /// A network with initial parameters from `seed`. Their memory is taken when they are first used.
    ///
    /// # Panics
    ///
    /// Panics if the heads do not divide the width: [`Self::check`] tells beforehand.
    pub fn init(&self, seed: u64, device: &Device) -> RevRoberta {
        let mut initial = Initial::new(seed, device).with_deviation(self.deviation);
        let ends = LanguageConfig::new(self.vocabulary, self.length, self.width).with_tied(self.tied);
        let text = ends.init(&mut initial);
        let blocks = (0..self.depth)
            .map(|index| {
                let drop_path = self.drop_path * index as f64 / self.depth.saturating_sub(1).max(1) as f64;
                let sizes = [self.width, self.heads, self.hidden];
                RevVitBlock::new(sizes, self.dropout, drop_path, &mut initial)
            })
            .collect();
        RevRoberta { text, blocks }
    }

    /// A sentence with the numbers in it, if these settings do not make a network.
    ///
    /// # Errors
    ///
    /// The sentence.
    pub fn check(&self) -> Result<(), String> {
        let Self { vocabulary, length, width, depth, heads, hidden, .. } = *self;
        positive(&[
            ("vocabulary", vocabulary),
            ("length", length),
            ("width", width),
            ("depth", depth),
            ("heads", heads),
            ("hidden width", hidden),
        ])?;
        if !width.is_multiple_of(heads) {
            return Err(format!("{heads} heads do not divide a width of {width}"));
        }
        rates(&[("dropout", self.dropout), ("drop-path", self.drop_path)])
    }

    /// Multiplications of one forward of one sequence, with 15 % of its tokens asked for.
    pub fn multiplications(&self) -> u64 {
        self.costs().into_iter().sum()
    }

    /// The same for each place: the stem, the blocks, the head.
    pub fn costs(&self) -> Vec<u64> {
        let (tokens, width) = (self.length, self.width);
        let attention = tokens * width * 4 * width + 2 * tokens * tokens * width;
        let mlp = 2 * tokens * width * self.hidden;
        let asked = tokens * 15 / 100;
        let head = asked * width * (width + self.vocabulary);
        let blocks = std::iter::repeat_n(attention + mlp, self.depth);
        // The stem looks tokens up.
        [0].into_iter().chain(blocks).chain([head]).map(|cost| cost as u64).collect()
    }
}

/// A reversible masked language model.
///
/// # Shapes
///
/// `[batch, places] -> [asked, vocabulary]`
#[derive(Module, Debug)]
pub struct RevRoberta {
    /// From tokens to streams, and from streams to scores of tokens.
    pub text: Language,
    /// The reversible stack.
    pub blocks: Vec<RevVitBlock>,
}

impl Network<3> for RevRoberta {
    type Stem = Language;
    type Head = Language;

    fn stem(&self) -> &Language {
        &self.text
    }

    fn pieces(&self) -> Vec<Piece<'_, 3>> {
        self.blocks.iter().map(|block| Piece::Block(block)).collect()
    }

    fn head(&self) -> &Language {
        &self.text
    }

    fn shared_by_ends(&self) -> Option<&'static str> {
        self.text.is_tied().then_some("text.tokens")
    }
}
