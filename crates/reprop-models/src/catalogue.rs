//! Every network by the name that programs use.

use crate::RevVitConfig;

/// A network's settings.
#[derive(Clone, Debug)]
pub enum Model {
    /// A reversible vision transformer.
    RevVit(RevVitConfig),
}

/// Changes to a published size.
///
/// ```
/// use reprop_models::{Changes, Model, RevVitConfig};
///
/// let model = Model::by_name("rev-vit-s").unwrap().change(&Changes { depth: Some(3), ..Changes::default() });
/// let Model::RevVit(config) = model;
/// assert_eq!((config.depth, config.width), (3, RevVitConfig::small().width));
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
const CATALOGUE: [(&str, Constructor); 7] = [
    ("rev-vit-digits", || Model::RevVit(RevVitConfig::digits())),
    ("rev-vit-ti", || Model::RevVit(RevVitConfig::tiny())),
    ("rev-vit-s", || Model::RevVit(RevVitConfig::small())),
    ("rev-vit-b", || Model::RevVit(RevVitConfig::base())),
    ("rev-vit-l", || Model::RevVit(RevVitConfig::large())),
    ("rev-vit-h", || Model::RevVit(RevVitConfig::huge())),
    ("rev-vit-g", || Model::RevVit(RevVitConfig::giant())),
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

    /// This network with other settings.
    pub fn change(self, changes: &Changes) -> Self {
        let Self::RevVit(config) = self;
        let width = changes.width.unwrap_or(config.width);
        Self::RevVit(RevVitConfig {
            image: changes.image.unwrap_or(config.image),
            channels: changes.channels.unwrap_or(config.channels),
            classes: changes.classes.unwrap_or(config.classes),
            depth: changes.depth.unwrap_or(config.depth),
            hidden: config.hidden * width / config.width,
            width,
            dropout: changes.dropout.unwrap_or(config.dropout),
            drop_path: changes.drop_path.unwrap_or(config.drop_path),
            ..config
        })
    }

    /// Channels and side of the images it takes, and the number of classes it tells apart.
    pub fn images(&self) -> ImageShape {
        let Self::RevVit(RevVitConfig { channels, image, classes, .. }) = *self;
        ImageShape { channels, side: image, classes }
    }

    /// Multiplications of one forward of one sample.
    pub fn multiplications(&self) -> u64 {
        let Self::RevVit(config) = self;
        config.multiplications()
    }

    /// A sentence with the numbers in it, if these settings do not make a network.
    ///
    /// # Errors
    ///
    /// The sentence.
    pub fn check(&self) -> Result<(), String> {
        let Self::RevVit(config) = self;
        config.check()
    }
}
