//! Augmentation of images: crops, flips, normalisation, erasing. Each is a function of the seed, the epoch and the image
//! alone.

use crate::picture::{Picture, Region};
use crate::random::{Key, Use};

/// What is done to an image before it is learned from.
///
/// ```
/// use reprop_data::{Augmentation, Crop};
///
/// let augmentation = Augmentation { crop: Crop::Padded(4), flip: true, ..Augmentation::none(3) };
/// assert_eq!(augmentation.mean, [0.0; 3]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Augmentation {
    /// Which part of an image is seen.
    pub crop: Crop,
    /// Mirror every other image.
    pub flip: bool,
    /// Part of the images in which a rectangle becomes background (Zhong et al., *Random erasing*, 2017).
    pub erase: f64,
    /// Taken from each channel.
    pub mean: Vec<f32>,
    /// What each channel is divided by.
    pub deviation: Vec<f32>,
}

/// Which part of an image a network learns from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Crop {
    /// All of it; of a larger picture, the middle.
    Whole,
    /// Moved by up to one pixel.
    Shift,
    /// A crop of the image's own size out of it with so many pixels of background around.
    Padded(usize),
    /// A part of at least this share of its area, with sides from 3/4 to 4/3 of each other, brought to size (Szegedy et al.,
    /// *Going deeper with convolutions*, 2014).
    Resized(f64),
}

/// What is seen of the shorter side of a larger picture: 224 of 256 pixels.
const CENTRE: f64 = 0.875;

/// Words of an image's key.
mod word {
    pub const ROW: u64 = 0;
    pub const COLUMN: u64 = 1;
    pub const FLIP: u64 = 2;
    pub const ERASE: u64 = 3;
    /// And three that follow.
    pub const RECTANGLE: u64 = 4;
    /// And what follows.
    pub const PART: u64 = 8;
}

impl Augmentation {
    /// Images of `channels` channels as they are.
    pub fn none(channels: usize) -> Self {
        Self {
            crop: Crop::Whole,
            flip: false,
            erase: 0.0,
            mean: vec![0.0; channels],
            deviation: vec![1.0; channels],
        }
    }

    /// A picture as an epoch sees it, for the image whose seed, epoch and index are `words`. Background is 0 before
    /// channels are normalised.
    pub(crate) fn training(&self, picture: &Picture, side: usize, words: [u64; 3]) -> Vec<f32> {
        let key = Key::new(Use::Augmentation, &words);
        let mirrored = self.flip && key.below(2, word::FLIP) == 1;
        let mut pixels = match self.crop {
            Crop::Whole => whole(picture, side),
            Crop::Shift => {
                let shift = Key::new(Use::Shift, &words);
                crop(&whole(picture, side), side, 1, (2 - shift.below(3, 0), 2 - shift.below(3, 1)))
            }
            Crop::Padded(padding) => {
                let places = 2 * padding + 1;
                let at = (key.below(places, word::ROW), key.below(places, word::COLUMN));
                crop(&whole(picture, side), side, padding, at)
            }
            Crop::Resized(least) => picture.resized(part(picture, least, key), side),
        };
        if mirrored {
            pixels.chunks_mut(side).for_each(<[f32]>::reverse);
        }
        if key.unit(word::ERASE) < self.erase {
            erase(&mut pixels, side, key);
        }
        self.normalise(&mut pixels, side);
        pixels
    }

    /// A picture as it is judged: the middle of it, normalised.
    pub(crate) fn evaluation(&self, picture: &Picture, side: usize) -> Vec<f32> {
        let mut pixels = whole(picture, side);
        self.normalise(&mut pixels, side);
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

/// The picture, or of one of another size the middle.
fn whole(picture: &Picture, side: usize) -> Vec<f32> {
    if [picture.width, picture.height] == [side; 2] {
        return picture.planes.clone();
    }
    picture.resized(picture.centre(CENTRE), side)
}

/// A part of at least `least` of the picture's area. A picture so narrow that none of ten draws fits gives its middle.
fn part(picture: &Picture, least: f64, key: Key) -> Region {
    let (width, height) = (picture.width as f64, picture.height as f64);
    for draw in (0..10).map(|draw| word::PART + 4 * draw) {
        let area = (least + (1.0 - least) * key.unit(draw)) * width * height;
        let ratio = ((0.75f64).ln() * (1.0 - 2.0 * key.unit(draw + 1))).exp();
        let (wide, high) = ((area * ratio).sqrt().round(), (area / ratio).sqrt().round());
        if (1.0..=width).contains(&wide) && (1.0..=height).contains(&high) {
            let left = key.below((width - wide) as usize + 1, draw + 2) as f64;
            let top = key.below((height - high) as usize + 1, draw + 3) as f64;
            return Region { left, top, width: wide, height: high };
        }
    }
    picture.centre(1.0)
}

/// The square of `side` pixels whose corner is at `(down, right)` of the image with `padding` pixels around.
fn crop(image: &[f32], side: usize, padding: usize, (down, right): (usize, usize)) -> Vec<f32> {
    let from = |to: usize, by: usize| (to + by).checked_sub(padding).filter(|&from| from < side);
    let mut result = vec![0.0; image.len()];
    for (plane, result) in image.chunks(side * side).zip(result.chunks_mut(side * side)) {
        for (row, result) in result.chunks_mut(side).enumerate() {
            for (column, pixel) in result.iter_mut().enumerate() {
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
    use crate::{Samples as _, digits};

    fn one(planes: Vec<f32>, side: usize) -> Picture {
        Picture { width: side, height: side, planes }
    }

    #[test]
    fn crops_move_the_image_and_flips_mirror_it() {
        let image = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(crop(&image, 2, 1, (1, 1)), image);
        assert_eq!(crop(&image, 2, 1, (0, 1)), [0.0, 0.0, 1.0, 2.0]);
        assert_eq!(crop(&image, 2, 1, (2, 2)), [4.0, 0.0, 0.0, 0.0]);
        let augmentation = Augmentation { flip: true, ..Augmentation::none(1) };
        let seen = |epoch| augmentation.training(&one(image.to_vec(), 2), 2, [1, epoch, 0]);
        let mirrored = (0..20).filter(|&epoch| seen(epoch) == [2.0, 1.0, 4.0, 3.0]).count();
        assert_eq!(mirrored + (0..20).filter(|&epoch| seen(epoch) == image).count(), 20);
        assert!((4..=16).contains(&mirrored), "{mirrored} of 20");
    }

    /// 81 crops, each mirrored or not, of 16,200 draws: each is drawn about 100 times, deviation 10. Six are allowed.
    #[test]
    fn every_crop_is_drawn_alike() {
        let mut pixels = vec![0.0; 19 * 19];
        pixels[9 * 19 + 8] = 1.0;
        let image = one(pixels, 19);
        let augmentation = Augmentation { crop: Crop::Padded(4), flip: true, ..Augmentation::none(1) };
        let mut drawn = std::collections::BTreeMap::new();
        for epoch in 0..16_200 {
            let place =
                augmentation.training(&image, 19, [1, epoch, 0]).iter().position(|&pixel| pixel > 0.0);
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
        assert_eq!(augmentation.evaluation(&one(vec![1.0, 0.5], 1), 1), [1.0, 2.0]);
    }

    #[test]
    fn erasing_takes_a_rectangle_of_at_most_a_third_or_so_in_all_channels_alike() {
        let image = one(vec![1.0; 2 * 16 * 16], 16);
        let augmentation = Augmentation { erase: 0.5, ..Augmentation::none(2) };
        let mut erased = 0;
        for epoch in 0..400 {
            let image = augmentation.training(&image, 16, [1, epoch, 0]);
            assert_eq!(image[..256], image[256..]);
            let gone = image[..256].iter().filter(|&&pixel| pixel == 0.0).count();
            erased += usize::from(gone > 0);
            assert!(gone <= 110, "{gone} of 256 pixels");
        }
        assert!((140..=260).contains(&erased), "{erased} of 400, about half of them");
    }

    /// Nine shifts of 1,000 draws: each is drawn about 111 times, deviation 10. Six deviations are allowed.
    #[test]
    fn every_shift_is_drawn_alike() {
        let mut planes = vec![0.0; 25];
        planes[12] = 1.0;
        let augmentation = Augmentation { crop: Crop::Shift, ..Augmentation::none(1) };
        let mut drawn = [0i32; 25];
        for epoch in 0..1000 {
            let moved = augmentation.training(&one(planes.clone(), 5), 5, [42, epoch, 0]);
            drawn[moved.iter().position(|&pixel| pixel > 0.0).unwrap()] += 1;
        }
        for (place, times) in drawn.into_iter().enumerate() {
            let near = place / 5 % 4 != 0 && place % 5 % 4 != 0;
            let (expected, allowed) = if near { (111, 60) } else { (0, 0) };
            assert!((times - expected).abs() <= allowed, "{place}: {times}");
        }
    }

    #[test]
    fn channels_are_cropped_together() {
        let plane = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(crop(&[plane, plane].concat(), 2, 1, (0, 0)), [[0.0, 0.0, 0.0, 1.0]; 2].concat());
    }

    #[test]
    fn what_is_seen_depends_on_seed_epoch_and_index() {
        let train = digits().train;
        for crop in [Crop::Shift, Crop::Padded(2), Crop::Resized(0.3)] {
            let augmentation = Augmentation { crop, ..Augmentation::none(1) };
            let seen = |seed, epoch| {
                let image = |index| train.training(index, &augmentation, seed, epoch).unwrap();
                (0..50).map(image).collect::<Vec<_>>()
            };
            assert_eq!(seen(1, 2), seen(1, 2));
            assert_ne!(seen(1, 2), seen(1, 3));
            assert_ne!(seen(1, 2), seen(2, 2));
        }
    }

    /// A resumed run of a later version must see the images of the version that began it.
    #[test]
    fn a_shift_is_the_same_in_every_version() {
        let augmentation = Augmentation { crop: Crop::Shift, ..Augmentation::none(1) };
        let image = one((1..=9).map(|pixel| pixel as f32).collect(), 3);
        let middles: Vec<f32> =
            (0..6).map(|epoch| augmentation.training(&image, 3, [42, epoch, 5])[4]).collect();
        assert_eq!(middles, [8.0, 4.0, 8.0, 5.0, 7.0, 5.0]);
    }

    /// Areas are drawn from a share of 0.2 to 1, sides from 3/4 to 4/3 of each other, rounded to pixels.
    #[test]
    fn parts_have_the_shares_and_shapes_that_are_asked_for() {
        let picture = Picture { width: 120, height: 90, planes: vec![0.0; 120 * 90] };
        let mut lefts = std::collections::BTreeSet::new();
        for epoch in 0..500 {
            let Region { left, top, width, height } =
                part(&picture, 0.2, Key::new(Use::Augmentation, &[1, epoch, 0]));
            assert!(left + width <= 120.0 && top + height <= 90.0);
            let share = width * height / (120.0 * 90.0);
            assert!((0.19..=1.0).contains(&share), "{share}");
            assert!((0.72..=1.38).contains(&(width / height)), "{width} x {height}");
            lefts.insert(left as usize);
        }
        assert!(lefts.len() > 30, "{} places", lefts.len());
        let line = Picture { width: 500, height: 1, planes: vec![0.0; 500] };
        let whole = part(&line, 0.5, Key::new(Use::Augmentation, &[1, 0, 0]));
        assert_eq!((whole.width, whole.height), (1.0, 1.0));
    }
}
