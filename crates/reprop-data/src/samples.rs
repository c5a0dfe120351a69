//! Labelled images, wherever they are.

use crate::{Augmentation, Result};

/// What all images of a set have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleShape {
    /// Channels of an image.
    pub channels: usize,
    /// Height and width of an image as a network sees it.
    pub side: usize,
    /// Number of classes; labels are below it.
    pub classes: usize,
}

/// Labelled images, in memory ([`Images`](crate::Images)) or in files ([`ImageFiles`](crate::ImageFiles)).
///
/// What an image looks like in an epoch depends on the arguments alone.
///
/// ```
/// use reprop_data::{Augmentation, Crop, Samples, digits};
///
/// let train = digits().train;
/// let augmentation = Augmentation { crop: Crop::Padded(1), ..Augmentation::none(1) };
/// let image = train.training(5, &augmentation, 42, 0)?;
/// assert_eq!(image, train.training(5, &augmentation, 42, 0)?);
/// # Ok::<(), reprop_data::Error>(())
/// ```
pub trait Samples: Send + Sync {
    /// What all images have in common.
    fn shape(&self) -> SampleShape;

    /// Number of images.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The class of image `index`.
    ///
    /// # Panics
    ///
    /// Panics if there is no such image.
    fn label(&self, index: usize) -> u32;

    /// Image `index` as epoch `epoch` sees it, `[channels, side, side]`.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or is no image.
    ///
    /// # Panics
    ///
    /// Panics if there is no such image.
    fn training(&self, index: usize, augmentation: &Augmentation, seed: u64, epoch: u64) -> Result<Vec<f32>>;

    /// Image `index` as it is judged, `[channels, side, side]`.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or is no image.
    ///
    /// # Panics
    ///
    /// Panics if there is no such image.
    fn evaluation(&self, index: usize, augmentation: &Augmentation) -> Result<Vec<f32>>;
}
