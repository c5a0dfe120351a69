//! `ResNet`: the plain twin of [`RevResNet`](crate::RevResNet), for comparison runs. The same branches and the same first
//! blocks of stages on one stream of the same width, `x + F(x)`, and nothing to reverse: every strategy stores.

use burn::module::Module;
use burn::tensor::Device;
use reprop::layers::{ConvBranch, ConvStem, Initial, PlainDownsample, PoolClassifier, PoolClassifierConfig};
use reprop::{Network, Piece, Plain};

use crate::RevResNetConfig;
use crate::rev_resnet::StagePlan;

/// An ordinary residual network.
///
/// # Shapes
///
/// `[batch, channels, image, image] -> [batch, classes]`
#[derive(Module, Debug)]
pub struct ResNet {
    /// From images to the stream.
    pub stem: ConvStem,
    /// One resolution each.
    pub stages: Vec<PlainStage>,
    /// From the stream to classes.
    pub head: PoolClassifier,
}

/// Blocks of one resolution.
#[derive(Module, Debug)]
pub struct PlainStage {
    /// The first block, where it changes the stream's shape.
    pub down: Option<PlainDownsample>,
    /// The others.
    pub blocks: Vec<Plain<ConvBranch>>,
}

impl ResNet {
    /// The twin of the network of `config`, with initial parameters from `seed`.
    ///
    /// ```
    /// use burn::tensor::Device;
    /// use reprop_models::{ResNet, RevResNetConfig};
    ///
    /// let twin = ResNet::new(&RevResNetConfig::resnet18(), 42, &Device::flex());
    /// // ResNet-18 for CIFAR-10 has 11,173,962; biases of convolutions and a head for both streams are more.
    /// assert_eq!(reprop::parameter_count(&twin), 11_183_882);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the settings make no network: [`RevResNetConfig::check`] tells beforehand.
    pub fn new(config: &RevResNetConfig, seed: u64, device: &Device) -> Self {
        let mut initial = Initial::new(seed, device);
        let stem = config.stem().with_duplicate(true).init(&mut initial);
        let plans = config.stages();
        let width = plans.last().map_or(config.width, |plan| plan.width);
        let stages = plans
            .into_iter()
            .map(|StagePlan { down, branch, blocks, .. }| PlainStage {
                down: down.map(|config| PlainDownsample::new(&config, &mut initial)),
                blocks: (0..blocks).map(|_| Plain::new(branch.init(&mut initial))).collect(),
            })
            .collect();
        let head = PoolClassifierConfig::new(width, config.classes)
            .with_label_smoothing(config.label_smoothing)
            .init(&mut initial);
        Self { stem, stages, head }
    }
}

impl Network<4> for ResNet {
    type Stem = ConvStem;
    type Head = PoolClassifier;

    fn stem(&self) -> &ConvStem {
        &self.stem
    }

    fn pieces(&self) -> Vec<Piece<'_, 4>> {
        let mut pieces = Vec::new();
        for PlainStage { down, blocks } in &self.stages {
            pieces.extend(down.iter().map(|down| Piece::Transition(down)));
            pieces.extend(blocks.iter().map(|block| Piece::Transition(block)));
        }
        pieces
    }

    fn head(&self) -> &PoolClassifier {
        &self.head
    }
}
