//! Augmentation: the same image, moved a little.

use crate::Images;
use crate::random::{Key, Use};

/// Image `index` moved by up to one pixel in each direction: one of nine shifts, chosen by `(seed, epoch, index)` alone.
/// Pixels that come in from outside are background, which is 0.
///
/// ```
/// use reprop_data::{digits, shift};
///
/// let train = digits().train;
/// let moved = shift(&train, 5, 42, 0);
/// assert_eq!(moved.len(), train.image(5).len());
/// assert_eq!(moved, shift(&train, 5, 42, 0));
/// ```
///
/// # Panics
///
/// Panics if there is no such image.
pub fn shift(images: &Images, index: usize, seed: u64, epoch: u64) -> Vec<f32> {
    let key = Key::new(Use::Shift, &[seed, epoch, index as u64]);
    moved(images.image(index), images.side, key.below(3, 0), key.below(3, 1))
}

/// `image` moved by `down - 1` rows and `right - 1` columns.
fn moved(image: &[f32], side: usize, down: usize, right: usize) -> Vec<f32> {
    // A pixel comes from `(row + 1 - down, column + 1 - right)`, if that is inside.
    let from = |to: usize, by: usize| (to + 1).checked_sub(by).filter(|&from| from < side);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digits;

    #[test]
    fn pixels_move_and_background_comes_in() {
        let image = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
        assert_eq!(moved(&image, 3, 1, 1), image);
        assert_eq!(moved(&image, 3, 2, 1), [0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(moved(&image, 3, 0, 0), [5.0, 6.0, 0.0, 8.0, 9.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(moved(&image, 3, 1, 2), [0.0, 1.0, 2.0, 0.0, 4.0, 5.0, 0.0, 7.0, 8.0]);
    }

    #[test]
    fn channels_move_together() {
        let plane = [1.0, 2.0, 3.0, 4.0];
        let moved = moved(&[plane, plane].concat(), 2, 2, 2);
        assert_eq!(moved, [[0.0, 0.0, 0.0, 1.0]; 2].concat());
    }

    /// Nine shifts of 1,000 draws: each is drawn about 111 times, deviation 10. Six deviations are allowed.
    #[test]
    fn every_shift_is_drawn_alike() {
        let mut pixels = vec![0.0; 25];
        pixels[12] = 1.0;
        let images = Images { channels: 1, side: 5, classes: 1, pixels, labels: vec![0] };
        let mut drawn = [0i32; 25];
        for epoch in 0..1000 {
            let moved = shift(&images, 0, 42, epoch);
            drawn[moved.iter().position(|&pixel| pixel > 0.0).unwrap()] += 1;
        }
        for (place, times) in drawn.into_iter().enumerate() {
            let near = place / 5 % 4 != 0 && place % 5 % 4 != 0;
            assert!(
                (times - if near { 111 } else { 0 }).abs() <= if near { 60 } else { 0 },
                "{place}: {times}"
            );
        }
    }

    #[test]
    fn a_shift_depends_on_seed_epoch_and_index() {
        let train = digits().train;
        let shifts = |seed, epoch| (0..50).map(|index| shift(&train, index, seed, epoch)).collect::<Vec<_>>();
        assert_eq!(shifts(1, 2), shifts(1, 2));
        assert_ne!(shifts(1, 2), shifts(1, 3));
        assert_ne!(shifts(1, 2), shifts(2, 2));
    }
}
