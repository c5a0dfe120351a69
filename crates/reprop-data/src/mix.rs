//! Mixtures of two samples: mixup (Zhang et al., 2018) and cutmix (Yun et al., 2019).

use crate::random::{Key, Use};

/// How the samples of a batch are mixed, by a weight from the distribution Beta(a, a): for 1 as likely to be near 0 as near
/// 1/2, for less mostly near 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mixture {
    /// Every pixel is a mean of two, with one weight.
    Mixup(f64),
    /// A rectangle of one image comes from another.
    Cutmix(f64),
}

/// A batch whose samples were mixed: each sample belongs to its own label by `weight`, and to that of its partner by the
/// rest.
#[derive(Clone, Debug, PartialEq)]
pub struct Mixed {
    /// The other sample of each.
    pub partners: Vec<usize>,
    /// How much each sample is still itself.
    pub weight: f32,
}

/// Mixes the images in `pixels`, `[count, channels, side, side]`, each with the one in the mirrored place, by a weight that
/// depends on `seed` and `step` alone.
///
/// ```
/// use reprop_data::{Mixture, mix};
///
/// let mut pixels = vec![0.0, 1.0];
/// let mixed = mix(Mixture::Mixup(1.0), &mut pixels, 2, 1, 42, 0);
/// assert_eq!(mixed.partners, [1, 0]);
/// assert_eq!(pixels, [1.0 - mixed.weight, mixed.weight]);
/// ```
///
/// # Panics
///
/// Panics if `pixels` are not whole images.
pub fn mix(mixture: Mixture, pixels: &mut [f32], count: usize, side: usize, seed: u64, step: u64) -> Mixed {
    let key = Key::new(Use::Mixture, &[seed, step]);
    let length = pixels.len() / count.max(1);
    assert!(pixels.len() == count * length && length.is_multiple_of(side * side), "pixels are whole images");
    let partners: Vec<usize> = (0..count).rev().collect();
    let before = pixels.to_vec();
    let (rectangle, weight) = match mixture {
        Mixture::Mixup(a) => ((0, 0, 0, 0), beta(a, key) as f32),
        Mixture::Cutmix(a) => rectangle(side, beta(a, key), key),
    };
    for (image, &partner) in pixels.chunks_mut(length.max(1)).zip(&partners) {
        let other = &before[partner * length..(partner + 1) * length];
        match mixture {
            Mixture::Mixup(_) => {
                image.iter_mut().zip(other).for_each(|(a, b)| *a = weight * *a + (1.0 - weight) * b);
            }
            Mixture::Cutmix(_) => paste(image, other, side, rectangle),
        }
    }
    Mixed { partners, weight }
}

/// Which of several mixtures the batch of a step takes: each as often.
///
/// ```
/// use reprop_data::{Mixture, choose_mixture};
///
/// let mixtures = [Mixture::Mixup(0.8), Mixture::Cutmix(1.0)];
/// let cut = (0..100).filter(|&step| choose_mixture(&mixtures, 42, step) == Some(mixtures[1])).count();
/// assert!((30..70).contains(&cut));
/// assert_eq!(choose_mixture(&[], 42, 0), None);
/// ```
pub fn choose_mixture(mixtures: &[Mixture], seed: u64, step: u64) -> Option<Mixture> {
    mixtures.get(Key::new(Use::Mixture, &[seed, step]).below(mixtures.len(), 3)).copied()
}

/// A number from Beta(a, a), from words 4 on (Jöhnk, *Erzeugung von betaverteilten und gammaverteilten Zufallszahlen*, 1964).
fn beta(a: f64, key: Key) -> f64 {
    for draw in (4..).step_by(2) {
        let (x, y) = (key.unit(draw).powf(1.0 / a), key.unit(draw + 1).powf(1.0 / a));
        if x + y <= 1.0 && x + y > 0.0 {
            return x / (x + y);
        }
    }
    unreachable!("the words of a key do not end")
}

/// Rows and columns to paste, as starts and ends, for a part of about `1 - kept` of the image, and what is really kept.
fn rectangle(side: usize, kept: f64, key: Key) -> ((usize, usize, usize, usize), f32) {
    let length = ((1.0 - kept).sqrt() * side as f64).round() as usize;
    let span = |middle: usize| (middle.saturating_sub(length / 2), (middle + length.div_ceil(2)).min(side));
    let ((top, bottom), (left, right)) = (span(key.below(side, 1)), span(key.below(side, 2)));
    let pasted = (bottom - top) * (right - left);
    ((top, bottom, left, right), 1.0 - pasted as f32 / (side * side) as f32)
}

fn paste(
    image: &mut [f32],
    other: &[f32],
    side: usize,
    (top, bottom, left, right): (usize, usize, usize, usize),
) {
    for (plane, other) in image.chunks_mut(side * side).zip(other.chunks(side * side)) {
        for row in top..bottom {
            plane[row * side + left..row * side + right]
                .copy_from_slice(&other[row * side + left..row * side + right]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pasted_is_what_the_weight_says() {
        for step in 0..200 {
            let mut pixels: Vec<f32> = (0..3).flat_map(|image| vec![image as f32; 2 * 8 * 8]).collect();
            let mixed = mix(Mixture::Cutmix(1.0), &mut pixels, 3, 8, 7, step);
            for (image, pixels) in pixels.chunks(128).enumerate() {
                let own = pixels.iter().filter(|&&pixel| pixel.to_bits() == (image as f32).to_bits()).count();
                // Of 128 pixels: the product is a whole number.
                let expected = if mixed.partners[image] == image { 128.0 } else { 128.0 * mixed.weight };
                assert_eq!(own, expected.round() as usize, "step {step}");
            }
        }
    }

    /// Beta(a, a) has the mean 1/2 and the variance `1 / (4 (2 a + 1))`. Of 4,000 draws the mean's deviation is at most
    /// 0.008, the variance's 0.002 or so: six and five of them are allowed.
    #[test]
    fn weights_are_drawn_from_the_distribution_asked_for() {
        for a in [0.2, 0.8, 1.0, 3.0] {
            let draws: Vec<f64> = (0..4000).map(|step| beta(a, Key::new(Use::Mixture, &[1, step]))).collect();
            let mean = draws.iter().sum::<f64>() / 4000.0;
            let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 4000.0;
            assert!((mean - 0.5).abs() < 0.045, "{a}: mean {mean}");
            assert!((variance - 0.25 / (2.0 * a + 1.0)).abs() < 0.01, "{a}: variance {variance}");
        }
    }

    #[test]
    fn mixtures_depend_on_seed_and_step() {
        let weight =
            |seed, step| mix(Mixture::Mixup(1.0), &mut [0.0, 1.0], 2, 1, seed, step).weight.to_bits();
        assert_eq!(weight(1, 2), weight(1, 2));
        assert_ne!(weight(1, 2), weight(1, 3));
        assert_ne!(weight(1, 2), weight(2, 2));
    }
}
