//! Square images with labels.

/// Square images of one size, each with the class it belongs to.
///
/// ```
/// use reprop_data::Images;
///
/// let images = Images { channels: 1, side: 1, classes: 3, pixels: vec![0.25, 0.75], labels: vec![2, 0] };
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
    /// Pixels in `[0, 1]`, as `[count, channels, side, side]`.
    pub pixels: Vec<f32>,
    /// The class of each image.
    pub labels: Vec<u32>,
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

    /// The pixels of image `index`, as `[channels, side, side]`.
    ///
    /// ```
    /// let train = reprop_data::digits().train;
    /// assert_eq!(train.image(5), &train.pixels[5 * 64..6 * 64]);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if there is no such image.
    pub fn image(&self, index: usize) -> &[f32] {
        let length = self.image_len();
        &self.pixels[index * length..(index + 1) * length]
    }

    /// The pixels, as `[indices, channels, side, side]`, and labels of the images in `indices`.
    ///
    /// ```
    /// let train = reprop_data::digits().train;
    /// let (pixels, labels) = train.gather(&[3, 0]);
    /// assert_eq!(pixels[64..], *train.image(0));
    /// assert_eq!(labels, [train.labels[3], train.labels[0]]);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if there is no such image.
    pub fn gather(&self, indices: &[usize]) -> (Vec<f32>, Vec<u32>) {
        let mut pixels = Vec::with_capacity(indices.len() * self.image_len());
        for &index in indices {
            pixels.extend_from_slice(self.image(index));
        }
        (pixels, indices.iter().map(|&index| self.labels[index]).collect())
    }
}

/// A set in two parts that share no image.
///
/// ```
/// let split = reprop_data::digits();
/// assert_eq!(split.train.len() + split.test.len(), 1797);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    /// What a network learns from.
    pub train: Images,
    /// What it is judged by.
    pub test: Images,
}
