//! `RevResNet`: reversible residual networks (Gomez et al., 2017) in the form of *PETRA* (Rivaud et al., 2024).
//!
//! A convolution makes two streams; each block is a coupling with one branch of convolutions and a swap; where images
//! shrink or channels grow, the first block of a stage is an ordinary one; at the end both streams are averaged over all
//! pixels and classified. Convolutions carry biases.

use burn::config::Config;
use burn::module::Module;
use burn::tensor::Device;
use reprop::layers::{
    ConvBranch, ConvBranchConfig, ConvStem, ConvStemConfig, Downsample, DownsampleConfig, Initial,
    PoolClassifier, PoolClassifierConfig,
};
use reprop::{Network, Piece, Swap};

/// Images larger than this begin with a 7x7 convolution of stride 2 and a max-pool.
const LARGEST_SMALL_IMAGE: usize = 64;
/// Channels of a bottleneck's streams, as a multiple of those inside.
const EXPANSION: usize = 4;
/// The stage whose length `--depth` changes.
const LONGEST_STAGE: usize = 2;

/// Settings of a [`RevResNet`], with a constructor for each published size, for CIFAR-10.
///
/// ```
/// use burn::tensor::Device;
/// use reprop_models::RevResNetConfig;
///
/// let network = RevResNetConfig::resnet18().init(42, &Device::flex().autodiff());
/// assert_eq!(reprop::parameter_count(&network), 11_185_802);
/// ```
#[derive(Config, Debug)]
pub struct RevResNetConfig {
    /// Blocks of each stage. Channels double and images halve from one stage to the next.
    pub blocks: Vec<usize>,
    /// Whether branches are bottlenecks: 1x1, 3x3, 1x1 instead of 3x3, 3x3.
    pub bottleneck: bool,
    /// Channels of a branch in the first stage. Streams have as many, or four times as many around bottlenecks.
    #[config(default = 64)]
    pub width: usize,
    /// Side of the square image in pixels; above 64 the stem divides it by four.
    #[config(default = 32)]
    pub image: usize,
    /// Channels of the image.
    #[config(default = 3)]
    pub channels: usize,
    /// Number of classes.
    #[config(default = 10)]
    pub classes: usize,
    /// How much of the target goes to all classes alike.
    #[config(default = 0.0)]
    pub label_smoothing: f64,
}

impl RevResNetConfig {
    /// RevResNet-18: 11.2 M parameters.
    pub fn resnet18() -> Self {
        Self::new(vec![2, 2, 2, 2], false)
    }

    /// RevResNet-34: 21.3 M parameters.
    pub fn resnet34() -> Self {
        Self::new(vec![3, 4, 6, 3], false)
    }

    /// RevResNet-50: 26.4 M parameters.
    pub fn resnet50() -> Self {
        Self::new(vec![3, 4, 6, 3], true)
    }

    /// This network with `depth` blocks in its third stage, in which published sizes differ most.
    #[must_use]
    pub fn with_depth(mut self, depth: usize) -> Self {
        if let Some(third) = self.blocks.get_mut(LONGEST_STAGE) {
            *third = depth;
        }
        self
    }

    pub(crate) fn stem(&self) -> ConvStemConfig {
        ConvStemConfig::new(self.image, self.channels, self.width, self.image > LARGEST_SMALL_IMAGE)
    }

    /// What each stage begins with, if not with an ordinary block of the streams as they are, and channels inside and
    /// of the streams.
    pub(crate) fn stages(&self) -> Vec<StagePlan> {
        let mut from = self.width;
        let plans = self.blocks.iter().enumerate().map(|(index, &blocks)| {
            let inner = self.width << index;
            let width = if self.bottleneck { EXPANSION * inner } else { inner };
            let stride = if index == 0 { 1 } else { 2 };
            let down = (from != width || stride != 1).then(|| {
                DownsampleConfig::new(from, width, stride).with_inner(self.bottleneck.then_some(inner))
            });
            from = width;
            let blocks = blocks - usize::from(down.is_some());
            let branch = if self.bottleneck {
                ConvBranchConfig::bottleneck(width, inner)
            } else {
                ConvBranchConfig::basic(width)
            };
            StagePlan { down, branch, blocks, width }
        });
        plans.collect()
    }

    /// A network with initial parameters from `seed`. Their memory is taken when they are first used.
    ///
    /// # Panics
    ///
    /// Panics if the settings make no network: [`Self::check`] tells beforehand.
    pub fn init(&self, seed: u64, device: &Device) -> RevResNet {
        let mut initial = Initial::new(seed, device);
        let stem = self.stem().init(&mut initial);
        let plans = self.stages();
        let width = plans.last().map_or(self.width, |plan| plan.width);
        let stages = plans
            .into_iter()
            .map(|StagePlan { down, branch, blocks, .. }| Stage {
                down: down.map(|config| config.init(&mut initial)),
                blocks: (0..blocks).map(|_| Swap::new(branch.init(&mut initial))).collect(),
            })
            .collect();
        let head = PoolClassifierConfig::new(width, self.classes)
            .with_label_smoothing(self.label_smoothing)
            .init(&mut initial);
        RevResNet { stem, stages, head }
    }

    /// A sentence with the numbers in it, if these settings do not make a network.
    ///
    /// # Errors
    ///
    /// The sentence.
    pub fn check(&self) -> Result<(), String> {
        let Self { blocks, width, image, channels, classes, label_smoothing, .. } = self;
        for (name, value) in
            [("width", *width), ("image", *image), ("channels", *channels), ("classes", *classes)]
        {
            if value == 0 {
                return Err(format!("the {name} must be at least 1, found 0"));
            }
        }
        if let Some(stage) = blocks.iter().position(|&blocks| blocks == 0) {
            return Err(format!("stage {} must have at least 1 block, found 0", stage + 1));
        }
        if blocks.len() > 16 {
            return Err(format!("{} stages are more than images can shrink: at most 16", blocks.len()));
        }
        if !(0.0..1.0).contains(label_smoothing) {
            return Err(format!("the label smoothing must be in [0, 1), found {label_smoothing}"));
        }
        Ok(())
    }

    /// Multiplications of one forward of one image.
    pub fn multiplications(&self) -> u64 {
        self.costs().into_iter().sum()
    }

    /// The same for each place: the stem, the blocks, the head.
    pub(crate) fn costs(&self) -> Vec<u64> {
        let stem = self.stem();
        let (side, kernel) = if stem.reduces { (self.image.div_ceil(2), 7) } else { (self.image, 3) };
        let mut costs = vec![side * side * kernel * kernel * self.channels * 2 * self.width];
        let mut side = stem.side();
        let mut width = self.width;
        for StagePlan { down, branch, blocks, width: after } in self.stages() {
            if let Some(DownsampleConfig { from, to, stride, inner }) = down {
                let before = side * side;
                side = side.div_ceil(stride);
                let after = side * side;
                costs.push(match inner {
                    None => after * (9 * from * to + 9 * to * to + from * to),
                    Some(inner) => {
                        before * from * inner + after * (9 * inner * inner + inner * to + 2 * from * to)
                    }
                });
            }
            let pixel: usize =
                branch.convolutions.iter().map(|c| c.kernel * c.kernel * c.inputs * c.outputs).sum();
            costs.extend(std::iter::repeat_n(side * side * pixel, blocks));
            width = after;
        }
        costs.push(2 * width * self.classes);
        costs.into_iter().map(|cost| cost as u64).collect()
    }
}

/// What a stage is made of.
pub(crate) struct StagePlan {
    pub down: Option<DownsampleConfig>,
    pub branch: ConvBranchConfig,
    /// Those after the first.
    pub blocks: usize,
    /// Channels of a stream.
    pub width: usize,
}

/// A reversible residual network.
///
/// # Shapes
///
/// `[batch, channels, image, image] -> [batch, classes]`
#[derive(Module, Debug)]
pub struct RevResNet {
    /// From images to streams.
    pub stem: ConvStem,
    /// One resolution each.
    pub stages: Vec<Stage>,
    /// From streams to classes.
    pub head: PoolClassifier,
}

/// Blocks of one resolution.
#[derive(Module, Debug)]
pub struct Stage {
    /// The first block, where it changes the streams' shape.
    pub down: Option<Downsample>,
    /// Reversible blocks.
    pub blocks: Vec<Swap<ConvBranch>>,
}

impl Network<4> for RevResNet {
    type Stem = ConvStem;
    type Head = PoolClassifier;

    fn stem(&self) -> &ConvStem {
        &self.stem
    }

    fn pieces(&self) -> Vec<Piece<'_, 4>> {
        let mut pieces = Vec::new();
        for Stage { down, blocks } in &self.stages {
            pieces.extend(down.iter().map(|down| Piece::Transition(down)));
            pieces.extend(blocks.iter().map(|block| Piece::Block(block)));
        }
        pieces
    }

    fn head(&self) -> &PoolClassifier {
        &self.head
    }
}

#[cfg(test)]
mod tests {
    use reprop::parameter_count;

    use super::*;

    fn parameters(config: &RevResNetConfig) -> usize {
        parameter_count(&config.init(0, &Device::flex()))
    }

    #[test]
    fn published_sizes_have_the_published_parameters() {
        assert_eq!(parameters(&RevResNetConfig::resnet18()), 11_185_802);
        for (config, millions) in [(RevResNetConfig::resnet34(), 21.3), (RevResNetConfig::resnet50(), 26.4)] {
            let found = parameters(&config) as f64 / 1e6;
            assert!((found - millions).abs() < 0.05, "{found} against {millions}");
        }
    }

    /// `J` of the paper: stem, blocks and head; and its non-reversible stages.
    #[test]
    fn published_sizes_have_the_published_stages() {
        for (config, count, ordinary) in [
            (RevResNetConfig::resnet18(), 10, vec![3, 5, 7]),
            (RevResNetConfig::resnet34(), 18, vec![4, 8, 14]),
            (RevResNetConfig::resnet50(), 18, vec![1, 4, 8, 14]),
        ] {
            let network = config.init(0, &Device::flex());
            let pieces = network.pieces();
            assert_eq!(pieces.len() + 2, count);
            let transitions = pieces.iter().enumerate().filter(|(_, p)| matches!(p, Piece::Transition(_)));
            assert_eq!(transitions.map(|(index, _)| index + 1).collect::<Vec<_>>(), ordinary);
        }
    }

    /// ResNet-18, 34 and 50 have 1.8, 3.7 and 4.1 GMAC at 224 pixels; these have another stem, four times the filters'
    /// products of which are counted here, and in RevResNet-50 a second stream through each first block.
    #[test]
    fn multiplications_are_those_of_residual_networks() {
        let at_224 = |config: RevResNetConfig| {
            config.with_image(224).with_classes(1000).multiplications() as f64 / 1e9
        };
        assert!(
            (at_224(RevResNetConfig::resnet18()) - 1.93).abs() < 0.03,
            "{}",
            at_224(RevResNetConfig::resnet18())
        );
        assert!(
            (at_224(RevResNetConfig::resnet34()) - 3.8).abs() < 0.1,
            "{}",
            at_224(RevResNetConfig::resnet34())
        );
    }

    #[test]
    fn depth_changes_the_third_stage() {
        assert_eq!(RevResNetConfig::resnet18().with_depth(5).blocks, [2, 2, 5, 2]);
        let refused = RevResNetConfig::resnet18().with_depth(0).check().unwrap_err();
        assert!(refused.contains("stage 3"), "{refused}");
    }

    #[test]
    fn settings_that_make_no_network_are_refused_with_their_numbers() {
        let small = RevResNetConfig::resnet18();
        assert_eq!(small.check(), Ok(()));
        assert!(RevResNetConfig { width: 0, ..small.clone() }.check().is_err());
        assert!(small.clone().with_classes(0).check().is_err());
        assert!(small.with_label_smoothing(1.0).check().is_err());
    }
}
