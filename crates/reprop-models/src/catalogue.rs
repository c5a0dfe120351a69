//! Every network by the name that programs use.

use crate::{RevResNetConfig, RevVitConfig};

/// A network's settings.
#[derive(Clone, Debug)]
pub enum Model {
    /// A reversible vision transformer.
    RevVit(RevVitConfig),
    /// A reversible residual network.
    RevResNet(RevResNetConfig),
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
    /// Channels of the image.
    pub channels: Option<usize>,
    /// Number of classes.
    pub classes: Option<usize>,
    /// Number of blocks.
    pub depth: Option<usize>,
    /// Width of the first stage; hidden widths follow in proportion.
    pub width: Option<usize>,
    /// Rate of dropout.
    pub dropout: Option<f64>,
    /// Rate of drop-path in the last block.
    pub drop_path: Option<f64>,
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
const CATALOGUE: [(&str, Constructor); 10] = [
    ("rev-vit-digits", || Model::RevVit(RevVitConfig::digits())),
    ("rev-vit-ti", || Model::RevVit(RevVitConfig::tiny())),
    ("rev-vit-s", || Model::RevVit(RevVitConfig::small())),
    ("rev-vit-b", || Model::RevVit(RevVitConfig::base())),
    ("rev-vit-l", || Model::RevVit(RevVitConfig::large())),
    ("rev-vit-h", || Model::RevVit(RevVitConfig::huge())),
    ("rev-vit-g", || Model::RevVit(RevVitConfig::giant())),
    ("rev-resnet-18", || Model::RevResNet(RevResNetConfig::resnet18())),
    ("rev-resnet-34", || Model::RevResNet(RevResNetConfig::resnet34())),
    ("rev-resnet-50", || Model::RevResNet(RevResNetConfig::resnet50())),
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
            Self::RevVit(config) => Self::RevVit(change_rev_vit(config, changes)),
            Self::RevResNet(config) => Self::RevResNet(change_rev_resnet(config, changes)),
        }
    }

    /// Channels and side of the images it takes, and the number of classes it tells apart.
    pub fn images(&self) -> ImageShape {
        match *self {
            Self::RevVit(RevVitConfig { channels, image, classes, .. })
            | Self::RevResNet(RevResNetConfig { channels, image, classes, .. }) => {
                ImageShape { channels, side: image, classes }
            }
        }
    }

    /// Multiplications of one forward of one sample.
    pub fn multiplications(&self) -> u64 {
        match self {
            Self::RevVit(config) => config.multiplications(),
            Self::RevResNet(config) => config.multiplications(),
        }
    }

    /// Multiplications of one forward of one sample in each place: the stem, every piece, the head.
    ///
    /// ```
    /// use reprop_models::Model;
    ///
    /// let model = Model::by_name("rev-resnet-18").unwrap();
    /// assert_eq!(model.costs().len(), 10);
    /// assert_eq!(model.costs().iter().sum::<f64>(), model.multiplications() as f64);
    /// ```
    pub fn costs(&self) -> Vec<f64> {
        let costs = match self {
            Self::RevVit(config) => config.costs(),
            Self::RevResNet(config) => config.costs(),
        };
        costs.into_iter().map(|cost| cost as f64).collect()
    }

    /// A sentence with the numbers in it, if these settings do not make a network.
    ///
    /// # Errors
    ///
    /// The sentence.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::RevVit(config) => config.check(),
            Self::RevResNet(config) => config.check(),
        }
    }
}

fn change_rev_vit(config: RevVitConfig, changes: &Changes) -> RevVitConfig {
    let width = changes.width.unwrap_or(config.width);
    RevVitConfig {
        image: changes.image.unwrap_or(config.image),
        channels: changes.channels.unwrap_or(config.channels),
        classes: changes.classes.unwrap_or(config.classes),
        depth: changes.depth.unwrap_or(config.depth),
        hidden: config.hidden * width / config.width,
        width,
        dropout: changes.dropout.unwrap_or(config.dropout),
        drop_path: changes.drop_path.unwrap_or(config.drop_path),
        ..config
    }
}

fn change_rev_resnet(config: RevResNetConfig, changes: &Changes) -> RevResNetConfig {
    let depth = changes.depth.unwrap_or(config.depth());
    RevResNetConfig {
        image: changes.image.unwrap_or(config.image),
        channels: changes.channels.unwrap_or(config.channels),
        classes: changes.classes.unwrap_or(config.classes),
        width: changes.width.unwrap_or(config.width),
        ..config
    }
    .with_depth(depth)
}
