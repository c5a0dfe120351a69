//! Square images with labels.

use crate::picture::Picture;
use crate::{Augmentation, Result, SampleShape, Samples};

/// Square images of one size, each with the class it belongs to.
///
/// ```
/// use reprop_data::{Images, Pixels};
///
/// let pixels = Pixels::Floats(vec![0.25, 0.75]);
/// let images = Images { channels: 1, side: 1, classes: 3, pixels, labels: vec![2, 0] };
/// assert_eq!(images.len(), 2);
/// assert_eq!(images.image(1), [0.75]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Images {
    /// Channels of an image.
    pub channels: usize,
    /// Height and width of an image.
    pub side: usize,
    /// Number of classes; labels are below it.
    pub classes: usize,
    /// As `[count, channels, side, side]`.
    pub pixels: Pixels,
    /// The class of each image.
    pub labels: Vec<u32>,
}

/// Pixels as they are held.
#[derive(Clone, Debug, PartialEq)]
pub enum Pixels {
    /// In `[0, 1]`.
    Floats(Vec<f32>),
    /// Parts of 255: a quarter of the memory.
    Bytes(Vec<u8>),
}

impl Images {
    /// Number of images.
    ///
    /// ```
    /// assert_eq!(reprop_data::digits().test.len(), 360);
    /// ```
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    ///
    /// ```
    /// assert!(!reprop_data::digits().test.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Numbers of one image: `channels * side * side`.
    ///
    /// ```
    /// assert_eq!(reprop_data::digits().test.image_len(), 64);
    /// ```
    pub fn image_len(&self) -> usize {
        self.channels * self.side * self.side
    }

    /// The pixels of image `index` in `[0, 1]`, as `[channels, side, side]`.
    ///
    /// ```
    /// use reprop_data::{Images, Pixels};
    ///
    /// let pixels = Pixels::Bytes(vec![0, 51, 255]);
    /// let images = Images { channels: 1, side: 1, classes: 1, pixels, labels: vec![0; 3] };
    /// assert_eq!([images.image(1), images.image(2)], [[0.2], [1.0]]);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if there is no such image.
    pub fn image(&self, index: usize) -> Vec<f32> {
        let length = self.image_len();
        let span = index * length..(index + 1) * length;
        match &self.pixels {
            Pixels::Floats(pixels) => pixels[span].to_vec(),
            Pixels::Bytes(pixels) => pixels[span].iter().map(|&pixel| f32::from(pixel) / 255.0).collect(),
        }
    }

    fn picture(&self, index: usize) -> Picture {
        Picture { width: self.side, height: self.side, planes: self.image(index) }
    }

    /// The pixels, as `[indices, channels, side, side]`, and labels of the images in `indices`.
    ///
    /// ```
    /// let train = reprop_data::digits().train;
    /// let (pixels, labels) = train.gather(&[3, 0]);
    /// assert_eq!(pixels[64..], train.image(0));
    /// assert_eq!(labels, [train.labels[3], train.labels[0]]);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if there is no such image.
    pub fn gather(&self, indices: &[usize]) -> (Vec<f32>, Vec<u32>) {
        let mut pixels = Vec::with_capacity(indices.len() * self.image_len());
        for &index in indices {
            pixels.extend(self.image(index));
        }
        (pixels, indices.iter().map(|&index| self.labels[index]).collect())
    }
}

impl Samples for Images {
    fn shape(&self) -> SampleShape {
        SampleShape { channels: self.channels, side: self.side, classes: self.classes }
    }

    fn len(&self) -> usize {
        self.labels.len()
    }

    fn label(&self, index: usize) -> u32 {
        self.labels[index]
    }

    fn training(&self, index: usize, augmentation: &Augmentation, seed: u64, epoch: u64) -> Result<Vec<f32>> {
        Ok(augmentation.training(&self.picture(index), self.side, [seed, epoch, index as u64]))
    }

    fn evaluation(&self, index: usize, augmentation: &Augmentation) -> Result<Vec<f32>> {
        Ok(augmentation.evaluation(&self.picture(index), self.side))
    }
}

/// A set in two parts that share no image.
///
/// ```
/// let split = reprop_data::digits();
/// assert_eq!(split.train.len() + split.test.len(), 1797);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Split<S = Images> {
    /// What a network learns from.
    pub train: S,
    /// What it is judged by.
    pub test: S,
}
