//! The embedded digits.

use crate::random::{Key, Use};
use crate::{Images, Pixels, Split};

/// 65 bytes a sample: the label, then the pixels by rows.
const BYTES: &[u8] = include_bytes!("../data/digits.bin");
const SIDE: usize = 8;
const CLASSES: usize = 10;
const SAMPLE: usize = 1 + SIDE * SIDE;
/// The largest pixel: all 16 points of a 4x4 square are dark.
const DARKEST: f32 = 16.0;
/// One sample in so many is for testing.
const TEST_SHARE: usize = 5;

/// 1,797 handwritten digits of 8x8 pixels: 1,437 to learn from, 360 to be judged by.
///
/// *Optical Recognition of Handwritten Digits*, E. Alpaydin and C. Kaynak, UCI Machine Learning Repository, 1998,
/// [doi:10.24432/C50P49](https://doi.org/10.24432/C50P49), licence
/// [CC BY 4.0](https://creativecommons.org/licenses/by/4.0/); the values are those that scikit-learn ships.
///
/// Pixels are scaled from 0..16 to `[0, 1]`, background 0. The split is stratified and always the same: the samples are
/// shuffled with a fixed key and sorted by class, and every fifth is for testing. Both parts have digits of all 13
/// writers, so the test tells how well a network knows these writers, not how well it would read another's.
///
/// ```
/// let split = reprop_data::digits();
/// assert_eq!((split.train.len(), split.test.len()), (1437, 360));
/// assert_eq!((split.train.channels, split.train.side, split.train.classes), (1, 8, 10));
/// ```
pub fn digits() -> Split {
    let mut samples: Vec<&[u8]> = BYTES.chunks_exact(SAMPLE).collect();
    samples =
        Key::new(Use::Split, &[0]).shuffle(samples.len()).into_iter().map(|index| samples[index]).collect();
    // The sort is stable: inside a class the order stays random.
    samples.sort_by_key(|sample| sample[0]);
    let part = |test: bool| {
        let samples =
            samples.iter().enumerate().filter(|(place, _)| place.is_multiple_of(TEST_SHARE) == test);
        images(samples.map(|(_, sample)| *sample))
    };
    Split { train: part(false), test: part(true) }
}

fn images<'s>(samples: impl Iterator<Item = &'s [u8]>) -> Images {
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    for sample in samples {
        labels.push(u32::from(sample[0]));
        pixels.extend(sample[1..].iter().map(|&pixel| f32::from(pixel) / DARKEST));
    }
    Images { channels: 1, side: SIDE, classes: CLASSES, pixels: Pixels::Floats(pixels), labels }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// CRC-32 as in zlib: what `oracle/digits.py` prints.
    pub(crate) fn crc32(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0, |crc, &byte| {
            (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1)))
        })
    }

    fn per_class(images: &Images) -> [usize; CLASSES] {
        let mut counts = [0; CLASSES];
        images.labels.iter().for_each(|&label| counts[label as usize] += 1);
        counts
    }

    #[test]
    fn the_embedded_file_is_the_one_that_the_script_made() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926, "the check value of CRC-32");
        assert_eq!(BYTES.len(), 1797 * SAMPLE);
        assert_eq!(crc32(BYTES), 0x16bb_1288);
    }

    #[test]
    fn both_parts_together_have_the_published_counts_of_each_class() {
        let Split { train, test } = digits();
        let published = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180];
        let (train, test) = (per_class(&train), per_class(&test));
        for class in 0..CLASSES {
            assert_eq!(train[class] + test[class], published[class], "class {class}");
            assert!(
                test[class].abs_diff(published[class] / TEST_SHARE) <= 1,
                "class {class}: {}",
                test[class]
            );
        }
        assert_eq!((train.iter().sum::<usize>(), test.iter().sum::<usize>()), (1437, 360));
    }

    #[test]
    fn both_parts_together_are_the_embedded_samples() {
        let Split { train, test } = digits();
        let mut found: Vec<Vec<u8>> = [train, test]
            .iter()
            .flat_map(|part| (0..part.len()).map(|index| bytes(part, index)).collect::<Vec<_>>())
            .collect();
        let mut embedded: Vec<Vec<u8>> = BYTES.chunks_exact(SAMPLE).map(<[u8]>::to_vec).collect();
        found.sort();
        embedded.sort();
        assert_eq!(found, embedded);
    }

    fn bytes(part: &Images, index: usize) -> Vec<u8> {
        let pixels = part.image(index).into_iter().map(|pixel| (pixel * DARKEST) as u8);
        std::iter::once(part.labels[index] as u8).chain(pixels).collect()
    }

    #[test]
    fn pixels_fill_the_unit_interval() {
        let train = digits().train;
        let pixels: Vec<f32> = (0..train.len()).flat_map(|index| train.image(index)).collect();
        assert!(pixels.iter().all(|pixel| (0.0..=1.0).contains(pixel)));
        assert!(pixels.contains(&0.0) && pixels.contains(&1.0));
    }

    /// The first sample of the set is a zero: a ring with a hole.
    #[test]
    fn images_are_upright() {
        let first = images(std::iter::once(&BYTES[..SAMPLE]));
        assert_eq!(first.labels, [0]);
        let row: Vec<f32> = first.image(0)[8..16].iter().map(|pixel| pixel * DARKEST).collect();
        assert_eq!(row, [0.0, 0.0, 13.0, 15.0, 10.0, 15.0, 5.0, 0.0]);
    }
}
