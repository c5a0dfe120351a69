//! `ViT`: the plain twin of [`RevVit`], for comparison runs. The same attention and perceptron on one stream, each added to
//! it, and nothing to reverse: every strategy stores.

use burn::module::Module;
use burn::tensor::Device;
use reprop::layers::{Attention, Classifier, Mlp, Patches};
use reprop::{Network, Piece, Plain};

use crate::rev_vit::RevVitBlock;
use crate::{RevVit, RevVitConfig};

/// An ordinary vision transformer.
///
/// # Shapes
///
/// `[batch, channels, image, image] -> [batch, classes]`
#[derive(Module, Debug)]
pub struct Vit {
    /// From images to tokens.
    pub stem: Patches,
    /// Attention and perceptron in turn.
    pub blocks: Vec<VitBlock>,
    /// From tokens to classes.
    pub head: Classifier,
}

/// Attention, then a perceptron.
#[derive(Module, Debug)]
pub struct VitBlock {
    /// First.
    pub attention: Plain<Attention>,
    /// Second.
    pub mlp: Plain<Mlp>,
}

impl Vit {
    /// The twin of the network of `config`, with the same initial parameters from `seed`.
    ///
    /// ```
    /// use burn::tensor::Device;
    /// use reprop_models::{RevVitConfig, Vit};
    ///
    /// let twin = Vit::new(&RevVitConfig::small(), 42, &Device::flex());
    /// assert_eq!(reprop::parameter_count(&twin), 22_434_664);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the settings make no network: [`RevVitConfig::check`] tells beforehand.
    pub fn new(config: &RevVitConfig, seed: u64, device: &Device) -> Self {
        let RevVit { stem, blocks, head } = config.init(seed, device);
        let block = |RevVitBlock { attention, mlp }| VitBlock {
            attention: Plain::new(attention),
            mlp: Plain::new(mlp),
        };
        Self { stem, blocks: blocks.into_iter().map(block).collect(), head }
    }
}

impl Network<3> for Vit {
    type Stem = Patches;
    type Head = Classifier;

    fn stem(&self) -> &Patches {
        &self.stem
    }

    fn pieces(&self) -> Vec<Piece<'_, 3>> {
        let mut pieces: Vec<Piece<'_, 3>> = Vec::new();
        for VitBlock { attention, mlp } in &self.blocks {
            pieces.extend([Piece::Transition(attention), Piece::Transition(mlp)]);
        }
        pieces
    }

    fn head(&self) -> &Classifier {
        &self.head
    }
}
