//! `ImageNet32`: `ImageNet` at 32x32 pixels, in its published batch files (Chrabaszcz, Loshchilov & Hutter, *A downsampled variant
//! of `ImageNet`*, 2017).
//!
//! `train_data_batch_1` to `train_data_batch_10` and `val_data` are pickles of a dictionary: `data`, an array of bytes, a row
//! an image, red, green, blue; `labels`, a list of classes counted from 1.

use std::fs;
use std::path::Path;

use crate::error::unreadable;
use crate::pickle::{self, Value};
use crate::{Error, Images, Pixels, Result, Split};

const SIDE: usize = 32;
const CHANNELS: usize = 3;
const CLASSES: usize = 1000;
const IMAGE: usize = CHANNELS * SIDE * SIDE;
const TRAIN_FILES: usize = 10;

/// The set in the published files of `folder`: 1,281,167 images to learn from, 50,000 to be judged by, held as bytes.
///
/// ```
/// let error = reprop_data::imagenet32(std::path::Path::new("/no/such/folder")).unwrap_err();
/// assert!(error.to_string().contains("train_data_batch_1"));
/// ```
///
/// # Errors
///
/// A file that is missing, truncated or of another kind, or a label that is no class.
pub fn imagenet32(folder: &Path) -> Result<Split> {
    let train = (1..=TRAIN_FILES).map(|number| format!("train_data_batch_{number}"));
    Ok(Split { train: images(folder, train)?, test: images(folder, ["val_data".to_owned()].into_iter())? })
}

fn images(folder: &Path, names: impl Iterator<Item = String>) -> Result<Images> {
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    for name in names {
        let path = folder.join(name);
        let file = fs::read(&path).map_err(|error| unreadable(&path, &error))?;
        let (mut more, classes) = batch(&path, &file)?;
        pixels.append(&mut more);
        labels.extend(classes);
    }
    Ok(Images { channels: CHANNELS, side: SIDE, classes: CLASSES, pixels: Pixels::Bytes(pixels), labels })
}

/// Pixels and labels of a file.
fn batch(path: &Path, file: &[u8]) -> Result<(Vec<u8>, Vec<u32>)> {
    let damaged = |reason: String| Error::Damaged { path: path.into(), reason };
    let value = pickle::read(file).map_err(damaged)?;
    let part = |name: &str| {
        value.get(name).ok_or_else(|| damaged(format!("it is a pickle without `{name}`, of another kind")))
    };
    let pixels = bytes(part("data")?).ok_or_else(|| damaged("its `data` is no array of bytes".into()))?;
    let labels = part("labels")?.items().ok_or_else(|| damaged("its `labels` are no list".into()))?;
    if pixels.len() != labels.len() * IMAGE {
        let (expected, found) = (labels.len() * IMAGE, pixels.len());
        return Err(Error::Length { path: path.into(), unit: "pixels of its labels", expected, found });
    }
    let class = |(sample, label): (usize, &Value)| {
        let label = label.int().unwrap_or(-1);
        let class = u32::try_from(label - 1).ok().filter(|&class| (class as usize) < CLASSES);
        class.ok_or_else(|| Error::NotAClass {
            path: path.into(),
            sample,
            label: usize::try_from(label).unwrap_or(0),
            classes: CLASSES,
        })
    };
    let labels = labels.iter().enumerate().map(class).collect::<Result<_>>()?;
    Ok((pixels.to_vec(), labels))
}

/// The bytes of an array as `numpy` pickles it: a call that makes an empty one, and a state that ends with the bytes; or, in
/// newer pickles, a call with the bytes at hand.
fn bytes(array: &Value) -> Option<&[u8]> {
    let modules = ["numpy.core.multiarray", "numpy._core.multiarray"];
    let of_bytes = |kind: &Value| {
        let (arguments, _) = kind.call("numpy dtype")?;
        arguments.first()?.text().filter(|text| *text == "u1").map(drop)
    };
    let state =
        modules.iter().find_map(|module| array.call(&format!("{module} _reconstruct")))?.1?.items()?;
    let [_, _, kind, Value::Bool(false), Value::Bytes(bytes)] = state else { return None };
    of_bytes(kind).map(|()| &**bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three images each, written by `oracle/imagenet32.py` in Python's protocols 2 and 4.
    const FILES: [&[u8]; 2] = [
        include_bytes!("../tests/files/imagenet32-protocol-2"),
        include_bytes!("../tests/files/imagenet32-protocol-4"),
    ];

    #[test]
    fn published_batches_are_read_as_they_were_written() {
        for file in FILES {
            let (pixels, labels) = batch(Path::new("val_data"), file).unwrap();
            assert_eq!(labels, [0, 999, 41]);
            // As the script makes them.
            let expected: Vec<u8> = (0..3 * IMAGE).map(|place| (place * 7 % 251) as u8).collect();
            assert!(pixels == expected);
        }
    }

    #[test]
    fn truncated_and_mislabelled_files_are_refused_with_their_numbers() {
        let path = Path::new("val_data");
        for file in FILES {
            for length in [0, 1, 20, file.len() / 2, file.len() - 1] {
                let message = batch(path, &file[..length]).unwrap_err().to_string();
                assert!(message.contains("val_data"), "{message}");
            }
        }
        // The label 42 becomes 0: labels count from 1.
        let mut file = FILES[1].to_vec();
        let at = file.windows(2).rposition(|pair| pair == [b'K', 42]).unwrap();
        file[at + 1] = 0;
        let message = batch(path, &file).unwrap_err().to_string();
        assert!(message.contains("sample 2 is 0") && message.contains("1000"), "{message}");
        assert!(batch(path, b"}.").unwrap_err().to_string().contains("without `data`"));
    }

    /// Every prefix and every flipped byte gives an answer, and never a panic.
    #[test]
    fn damaged_pickles_never_panic() {
        let file = FILES[0];
        let ends = file.iter().enumerate().filter(|(at, _)| at + 400 > file.len() || *at < 400);
        let answered = ends
            .map(|(at, _)| {
                let mut file = file.to_vec();
                file[at] ^= 0x55;
                usize::from(batch(Path::new("a"), &file).is_ok())
            })
            .sum::<usize>();
        // Flips inside pixels and labels that stay classes.
        assert!(answered < 400, "{answered}");
    }
}
