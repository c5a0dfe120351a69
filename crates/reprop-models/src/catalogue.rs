//! Every network by the name that programs use.

use crate::{RevMvitConfig, RevResNetConfig, RevRobertaConfig, RevSwinConfig, RevVitConfig};

/// The settings of a network of images.
#[derive(Clone, Debug)]
pub enum Model {
    /// A reversible vision transformer.
    RevVit(RevVitConfig),
    /// A reversible residual network.
    RevResNet(RevResNetConfig),
    /// A reversible Swin transformer.
    RevSwin(RevSwinConfig),
    /// A reversible multiscale vision transformer.
    RevMvit(RevMvitConfig),
    /// The plain twin of a reversible vision transformer.
    Vit(RevVitConfig),
    /// The plain twin of a reversible residual network.
    ResNet(RevResNetConfig),
}

/// The settings of a network of text.
#[derive(Clone, Debug)]
pub enum LanguageModel {
    /// A reversible masked language model.
    RevRoberta(RevRobertaConfig),
}

/// Changes to a published size.
///
/// ```
/// use reprop_models::{Changes, Model, RevVitConfig};
///
/// let model = Model::by_name("rev-vit-s").unwrap().change(&Changes { depth: Some(3), ..Changes::default() });
/// assert!(matches!(model, Model::RevVit(RevVitConfig { depth: 3, width: 384, .. })));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Changes {
    /// Side of the image.
    pub image: Option<usize>,
    /// Side of a patch, where there are patches; a square of pixels that a token sees follows.
    pub patch: Option<usize>,
    /// Channels of the image.
    pub channels: Option<usize>,
    /// Number of classes.
    pub classes: Option<usize>,
    /// Number of blocks; in a network of stages, of the third one, in which published sizes differ.
    pub depth: Option<usize>,
    /// Width of the first stage; hidden widths follow in proportion.
    pub width: Option<usize>,
    /// Rate of dropout.
    pub dropout: Option<f64>,
    /// Rate of drop-path in the last block.
    pub drop_path: Option<f64>,
    /// How much of the target goes to all classes alike.
    pub label_smoothing: Option<f64>,
    /// Places of a sequence.
    pub length: Option<usize>,
    /// Number of tokens.
    pub vocabulary: Option<usize>,
}

/// What a network of images takes and gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageShape {
    /// Channels of an image.
    pub channels: usize,
    /// Side of the square image in pixels.
    pub side: usize,
    /// Number of classes.
    pub classes: usize,
}

type Constructor = fn() -> Model;

/// Names and constructors, in the order in which they are listed.
const CATALOGUE: [(&str, Constructor); 28] = [
    ("rev-vit-digits", || Model::RevVit(RevVitConfig::digits())),
    ("rev-vit-cifar", || Model::RevVit(RevVitConfig::cifar())),
    ("rev-vit-ti", || Model::RevVit(RevVitConfig::tiny())),
    ("rev-vit-s", || Model::RevVit(RevVitConfig::small())),
    ("rev-vit-b", || Model::RevVit(RevVitConfig::base())),
    ("rev-vit-l", || Model::RevVit(RevVitConfig::large())),
    ("rev-vit-h", || Model::RevVit(RevVitConfig::huge())),
    ("rev-vit-g", || Model::RevVit(RevVitConfig::giant())),
    ("rev-swin-cifar", || Model::RevSwin(RevSwinConfig::cifar())),
    ("rev-swin-t", || Model::RevSwin(RevSwinConfig::tiny())),
    ("rev-swin-s", || Model::RevSwin(RevSwinConfig::small())),
    ("rev-swin-b", || Model::RevSwin(RevSwinConfig::base())),
    ("rev-swin-l", || Model::RevSwin(RevSwinConfig::large())),
    ("rev-swin-h", || Model::RevSwin(RevSwinConfig::huge())),
    ("rev-swin-g", || Model::RevSwin(RevSwinConfig::giant())),
    ("rev-mvit-cifar", || Model::RevMvit(RevMvitConfig::cifar())),
    ("rev-mvit-b", || Model::RevMvit(RevMvitConfig::base())),
    ("rev-resnet-18", || Model::RevResNet(RevResNetConfig::resnet18())),
    ("rev-resnet-34", || Model::RevResNet(RevResNetConfig::resnet34())),
    ("rev-resnet-50", || Model::RevResNet(RevResNetConfig::resnet50())),
    ("vit-digits", || Model::Vit(RevVitConfig::digits())),
    ("vit-cifar", || Model::Vit(RevVitConfig::cifar())),
    ("vit-ti", || Model::Vit(RevVitConfig::tiny())),
    ("vit-s", || Model::Vit(RevVitConfig::small())),
    ("vit-b", || Model::Vit(RevVitConfig::base())),
    ("resnet-18", || Model::ResNet(RevResNetConfig::resnet18())),
    ("resnet-34", || Model::ResNet(RevResNetConfig::resnet34())),
    ("resnet-50", || Model::ResNet(RevResNetConfig::resnet50())),
];

impl Model {
    /// All names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        CATALOGUE.iter().map(|(name, _)| *name)
    }

    /// The network of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        CATALOGUE.iter().find(|(known, _)| *known == name).map(|(_, constructor)| constructor())
    }

    /// This network with other settings. Rates that a network has no use for are passed over.
    pub fn change(self, changes: &Changes) -> Self {
        match self {
            Self::RevVit(config) => Self::RevVit(change_rev_vit(&config, changes)),
            Self::RevSwin(config) => Self::RevSwin(change_rev_swin(config, changes)),
            Self::RevMvit(config) => Self::RevMvit(change_rev_mvit(config, changes)),
            Self::RevResNet(config) => Self::RevResNet(change_rev_resnet(config, changes)),
            Self::Vit(config) => Self::Vit(change_rev_vit(&config, changes)),
            Self::ResNet(config) => Self::ResNet(change_rev_resnet(config, changes)),
        }
    }

    /// Channels and side of the images it takes, and the number of classes it tells apart.
    pub fn images(&self) -> ImageShape {
        match *self {
            Self::RevVit(RevVitConfig { channels, image, classes, .. })
            | Self::Vit(RevVitConfig { channels, image, classes, .. })
            | Self::ResNet(RevResNetConfig { channels, image, classes, .. })
            | Self::RevSwin(RevSwinConfig { channels, image, classes, .. })
            | Self::RevMvit(RevMvitConfig { channels, image, classes, .. })
            | Self::RevResNet(RevResNetConfig { channels, image, classes, .. }) => {
                ImageShape { channels, side: image, classes }
            }
        }
    }

    /// Multiplications of one forward of one sample.
    pub fn multiplications(&self) -> u64 {
        match self {
            Self::RevVit(config) | Self::Vit(config) => config.multiplications(),
            Self::RevSwin(config) => config.multiplications(),
            Self::RevResNet(config) | Self::ResNet(config) => config.multiplications(),
            Self::RevMvit(config) => config.multiplications(),
        }
    }

    /// Multiplications of one forward of one sample in each place: the stem, every piece, the head. `None` for networks
    /// that tell only their sum.
    ///
    /// ```
    /// use reprop_models::Model;
    ///
    /// let model = Model::by_name("rev-resnet-18").unwrap();
    /// let costs = model.costs().unwrap();
    /// assert_eq!(costs.len(), 10);
    /// assert_eq!(costs.iter().sum::<f64>(), model.multiplications() as f64);
    /// ```
    pub fn costs(&self) -> Option<Vec<f64>> {
        let costs = match self {
            Self::RevVit(config) => config.costs(),
            Self::RevResNet(config) => config.costs(),
            _ => return None,
        };
        Some(costs.into_iter().map(|cost| cost as f64).collect())
    }

    /// A sentence with the numbers in it, if these settings do not make a network.
    ///
    /// # Errors
    ///
    /// The sentence.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::RevVit(config) | Self::Vit(config) => config.check(),
            Self::RevSwin(config) => config.check(),
            Self::RevResNet(config) | Self::ResNet(config) => config.check(),
            Self::RevMvit(config) => config.check(),
        }
    }
}

impl LanguageModel {
    /// All names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ["rev-roberta-base", "rev-roberta-large"].into_iter()
    }

    /// The network of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "rev-roberta-base" => Some(Self::RevRoberta(RevRobertaConfig::base())),
            "rev-roberta-large" => Some(Self::RevRoberta(RevRobertaConfig::large())),
            _ => None,
        }
    }

    /// This network with other settings.
    pub fn change(self, changes: &Changes) -> Self {
        let Self::RevRoberta(config) = self;
        let width = changes.width.unwrap_or(config.width);
        Self::RevRoberta(RevRobertaConfig {
            vocabulary: changes.vocabulary.unwrap_or(config.vocabulary),
            length: changes.length.unwrap_or(config.length),
            depth: changes.depth.unwrap_or(config.depth),
            heads: heads(width, config.width / config.heads),
            hidden: config.hidden * width / config.width,
            width,
            dropout: changes.dropout.unwrap_or(config.dropout),
            drop_path: changes.drop_path.unwrap_or(config.drop_path),
            ..config
        })
    }

    /// Multiplications of one forward of one sample.
    pub fn multiplications(&self) -> u64 {
        let Self::RevRoberta(config) = self;
        config.multiplications()
    }

    /// A sentence with the numbers in it, if these settings do not make a network.
    ///
    /// # Errors
    ///
    /// The sentence.
    pub fn check(&self) -> Result<(), String> {
        let Self::RevRoberta(config) = self;
        config.check()
    }
}

/// As many heads of at least `head` columns as divide the width.
fn heads(width: usize, head: usize) -> usize {
    (1..=width / head.max(1)).rev().find(|&heads| width.is_multiple_of(heads)).unwrap_or(1)
}

fn change_rev_vit(config: &RevVitConfig, changes: &Changes) -> RevVitConfig {
    let width = changes.width.unwrap_or(config.width);
    let divides = width.is_multiple_of(config.heads.max(1));
    RevVitConfig {
        image: changes.image.unwrap_or(config.image),
        patch: changes.patch.unwrap_or(config.patch),
        heads: if divides { config.heads } else { heads(width, config.width / config.heads) },
        channels: changes.channels.unwrap_or(config.channels),
        classes: changes.classes.unwrap_or(config.classes),
        depth: changes.depth.unwrap_or(config.depth),
        hidden: config.hidden * width / config.width,
        width,
        dropout: changes.dropout.unwrap_or(config.dropout),
        drop_path: changes.drop_path.unwrap_or(config.drop_path),
        label_smoothing: changes.label_smoothing.unwrap_or(config.label_smoothing),
        ..config.clone()
    }
}

fn change_rev_resnet(config: RevResNetConfig, changes: &Changes) -> RevResNetConfig {
    let changed = RevResNetConfig {
        image: changes.image.unwrap_or(config.image),
        channels: changes.channels.unwrap_or(config.channels),
        classes: changes.classes.unwrap_or(config.classes),
        width: changes.width.unwrap_or(config.width),
        label_smoothing: changes.label_smoothing.unwrap_or(config.label_smoothing),
        ..config
    };
    match changes.depth {
        Some(depth) => changed.with_depth(depth),
        None => changed,
    }
}

fn change_rev_swin(config: RevSwinConfig, changes: &Changes) -> RevSwinConfig {
    let width = changes.width.unwrap_or(config.width);
    RevSwinConfig {
        image: changes.image.unwrap_or(config.image),
        patch: changes.patch.unwrap_or(config.patch),
        channels: changes.channels.unwrap_or(config.channels),
        classes: changes.classes.unwrap_or(config.classes),
        depths: third_stage(config.depths, changes.depth),
        heads: heads(width, config.width / config.heads),
        width,
        dropout: changes.dropout.unwrap_or(config.dropout),
        drop_path: changes.drop_path.unwrap_or(config.drop_path),
        label_smoothing: changes.label_smoothing.unwrap_or(config.label_smoothing),
        ..config
    }
}

fn change_rev_mvit(config: RevMvitConfig, changes: &Changes) -> RevMvitConfig {
    RevMvitConfig {
        image: changes.image.unwrap_or(config.image),
        patch: changes.patch.unwrap_or(config.patch),
        // Seven pixels for a patch of four: each square reaches to the next ones' middles.
        kernel: changes.patch.map_or(config.kernel, |patch| 2 * patch.max(1) - 1),
        channels: changes.channels.unwrap_or(config.channels),
        classes: changes.classes.unwrap_or(config.classes),
        depths: third_stage(config.depths, changes.depth),
        width: changes.width.unwrap_or(config.width),
        dropout: changes.dropout.unwrap_or(config.dropout),
        drop_path: changes.drop_path.unwrap_or(config.drop_path),
        label_smoothing: changes.label_smoothing.unwrap_or(config.label_smoothing),
        ..config
    }
}

/// Depths of stages with another one for the third.
fn third_stage(mut depths: Vec<usize>, depth: Option<usize>) -> Vec<usize> {
    if let (Some(depth), Some(third)) = (depth, depths.get_mut(2)) {
        *third = depth;
    }
    depths
}
