//! Augmentation of small images: crop with padding, flip, normalise, erase. Each is a function of the seed, the epoch and
//! the image alone.

use crate::Images;
use crate::random::{Key, Use};

/// What is done to an image before it is learned from.
///
/// ```
/// use reprop_data::{Augmentation, digits};
///
/// let train = digits().train;
/// let augmentation = Augmentation { padding: 1, ..Augmentation::none(1) };
/// let image = augmentation.training(&train, 5, 42, 0);
/// assert_eq!(image, augmentation.training(&train, 5, 42, 0));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Augmentation {
    /// A crop of the image's own size is taken out of it with so many pixels of background around.
    pub padding: usize,
    /// Mirror every other image.
    pub flip: bool,
    /// Part of the images in which a rectangle becomes background (Zhong et al., *Random erasing*, 2017).
    pub erase: f64,
    /// Taken from each channel.
    pub mean: Vec<f32>,
    /// What each channel is divided by.
    pub deviation: Vec<f32>,
}

/// Words of an image's key.
mod word {
    pub const ROW: u64 = 0;
    pub const COLUMN: u64 = 1;
    pub const FLIP: u64 = 2;
    pub const ERASE: u64 = 3;
    /// And what follows.
    pub const RECTANGLE: u64 = 4;
}

impl Augmentation {
    /// Images of `channels` channels as they are.
    pub fn none(channels: usize) -> Self {
        Self {
            padding: 0,
            flip: false,
            erase: 0.0,
            mean: vec![0.0; channels],
            deviation: vec![1.0; channels],
        }
    }

    /// CIFAR-10's: crop with padding 4, flip, and its channels' means and deviations.
    pub fn cifar10() -> Self {
        Self {
            padding: 4,
            flip: true,
            erase: 0.0,
            mean: vec![0.4914, 0.4822, 0.4465],
            deviation: vec![0.2470, 0.2435, 0.2616],
        }
    }

    /// Image `index` as epoch `epoch` sees it. Background is 0 before channels are normalised.
    ///
    /// # Panics
    ///
    /// Panics if there is no such image, or if it has another number of channels.
    pub fn training(&self, images: &Images, index: usize, seed: u64, epoch: u64) -> Vec<f32> {
        let key = Key::new(Use::Augmentation, &[seed, epoch, index as u64]);
        let places = 2 * self.padding + 1;
        let (down, right) = (key.below(places, word::ROW), key.below(places, word::COLUMN));
        let mirrored = self.flip && key.below(2, word::FLIP) == 1;
        let side = images.side;
        let mut pixels = crop(images.image(index), side, self.padding, (down, right), mirrored);
        if key.unit(word::ERASE) < self.erase {
            erase(&mut pixels, side, key);
        }
        self.normalise(&mut pixels, side);
        pixels
    }

    /// Image `index` as it is judged: normalised.
    ///
    /// # Panics
    ///
    /// Panics if there is no such image, or if it has another number of channels.
    pub fn evaluation(&self, images: &Images, index: usize) -> Vec<f32> {
        let mut pixels = images.image(index).to_vec();
        self.normalise(&mut pixels, images.side);
        pixels
    }

    fn normalise(&self, pixels: &mut [f32], side: usize) {
        let channels = pixels.len() / (side * side);
        assert_eq!(
            [self.mean.len(), self.deviation.len()],
            [channels; 2],
            "one mean and one deviation a channel"
        );
        for ((plane, mean), deviation) in pixels.chunks_mut(side * side).zip(&self.mean).zip(&self.deviation)
        {
            for pixel in plane {
                *pixel = (*pixel - mean) / deviation;
            }
        }
    }
}

/// The square of `side` pixels whose corner is at `(down, right)` of the image with `padding` pixels around.
fn crop(
    image: &[f32],
    side: usize,
    padding: usize,
    (down, right): (usize, usize),
    mirrored: bool,
) -> Vec<f32> {
    let from = |to: usize, by: usize| (to + by).checked_sub(padding).filter(|&from| from < side);
    let mut result = vec![0.0; image.len()];
    for (plane, result) in image.chunks(side * side).zip(result.chunks_mut(side * side)) {
        for (row, result) in result.chunks_mut(side).enumerate() {
            for (column, pixel) in result.iter_mut().enumerate() {
                let column = if mirrored { side - 1 - column } else { column };
                if let (Some(row), Some(column)) = (from(row, down), from(column, right)) {
                    *pixel = plane[row * side + column];
                }
            }
        }
    }
    result
}

/// A rectangle of a fiftieth to a third of the image, with sides from 0.3 to 3.3 of each other, becomes background.
fn erase(pixels: &mut [f32], side: usize, key: Key) {
    let area = (0.02 + 0.31 * key.unit(word::RECTANGLE)) * (side * side) as f64;
    let ratio = (0.3f64.ln() * (1.0 - 2.0 * key.unit(word::RECTANGLE + 1))).exp();
    let length = |pixels: f64| (pixels.round() as usize).clamp(1, side);
    let (height, width) = (length((area * ratio).sqrt()), length((area / ratio).sqrt()));
    let top = key.below(side - height + 1, word::RECTANGLE + 2);
    let left = key.below(side - width + 1, word::RECTANGLE + 3);
    for plane in pixels.chunks_mut(side * side) {
        for row in plane.chunks_mut(side).skip(top).take(height) {
            row[left..left + width].fill(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(pixels: Vec<f32>, channels: usize, side: usize) -> Images {
        Images { channels, side, classes: 1, pixels, labels: vec![0] }
    }

    #[test]
    fn crops_move_the_image_and_flips_mirror_it() {
        let image = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(crop(&image, 2, 1, (1, 1), false), image);
        assert_eq!(crop(&image, 2, 1, (1, 1), true), [2.0, 1.0, 4.0, 3.0]);
        assert_eq!(crop(&image, 2, 1, (0, 1), false), [0.0, 0.0, 1.0, 2.0]);
        assert_eq!(crop(&image, 2, 1, (2, 2), false), [4.0, 0.0, 0.0, 0.0]);
    }

    /// 81 crops, each mirrored or not, of 16,200 draws: each is drawn about 100 times, deviation 10. Six are allowed.
    #[test]
    fn every_crop_is_drawn_alike() {
        let mut pixels = vec![0.0; 19 * 19];
        pixels[9 * 19 + 8] = 1.0;
        let images = one(pixels, 1, 19);
        let augmentation = Augmentation { padding: 4, flip: true, ..Augmentation::none(1) };
        let mut drawn = std::collections::BTreeMap::new();
        for epoch in 0..16_200 {
            let place = augmentation.training(&images, 0, 1, epoch).iter().position(|&pixel| pixel > 0.0);
            *drawn.entry(place).or_insert(0i32) += 1;
        }
        assert!(!drawn.contains_key(&None), "the middle never leaves the crop");
        // Nine rows; columns 4..=12 unmirrored and 6..=14 mirrored, seven of them both.
        assert_eq!(drawn.len(), 9 * 11);
        for (place, times) in drawn {
            let both = (6..=12).contains(&(place.unwrap() % 19));
            assert!((times - if both { 200 } else { 100 }).abs() <= 90, "{place:?}: {times}");
        }
    }

    #[test]
    fn channels_are_normalised_each_by_its_own_numbers() {
        let augmentation =
            Augmentation { mean: vec![0.5, 0.0], deviation: vec![0.5, 0.25], ..Augmentation::none(2) };
        assert_eq!(augmentation.evaluation(&one(vec![1.0, 0.5], 2, 1), 0), [1.0, 2.0]);
    }

    #[test]
    fn erasing_takes_a_rectangle_of_at_most_a_third_or_so_in_all_channels_alike() {
        let images = one(vec![1.0; 2 * 16 * 16], 2, 16);
        let augmentation = Augmentation { erase: 0.5, ..Augmentation::none(2) };
        let mut erased = 0;
        for epoch in 0..400 {
            let image = augmentation.training(&images, 0, 1, epoch);
            assert_eq!(image[..256], image[256..]);
            let gone = image[..256].iter().filter(|&&pixel| pixel == 0.0).count();
            erased += usize::from(gone > 0);
            assert!(gone <= 110, "{gone} of 256 pixels");
        }
        assert!((140..=260).contains(&erased), "{erased} of 400, about half of them");
    }
}
