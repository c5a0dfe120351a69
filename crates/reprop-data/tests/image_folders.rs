//! Folders of class folders of images: what is read, and what is refused.

use std::fs;
use std::path::Path;

use reprop_data::{Ahead, Augmentation, Crop, Error, ImageFiles, Samples, Split, image_folders};
use tempfile::TempDir;

/// 24 x 16 pixels: red is 8 times the column, green 12 times the row, blue 100 of 255. Written by `oracle/jpeg.py`.
const SLOPES: &[u8] = include_bytes!("files/slopes.jpeg");

/// A PNG of one colour.
fn png(width: u32, height: u32, kind: png::ColorType, pixel: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(kind);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header().unwrap().write_image_data(&pixel.repeat((width * height) as usize)).unwrap();
    file
}

fn put(folder: &Path, name: &str, file: &[u8]) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, file).unwrap();
}

/// Two classes, images of odd sizes and kinds.
fn set() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    put(at, "train/n02/a.JPEG", SLOPES);
    // A PNG under a JPEG's name, as there is one in the published set.
    put(at, "train/n02/b.JPEG", &png(7, 31, png::ColorType::Rgb, &[255, 0, 51]));
    put(at, "train/n01/c.png", &png(1, 1, png::ColorType::Grayscale, &[51]));
    put(at, "train/n01/d.png", &png(300, 200, png::ColorType::Rgba, &[0, 255, 0, 7]));
    put(at, "train/n01/readme.txt", b"not an image, and not looked at");
    put(at, "val/n02/e.jpg", SLOPES);
    put(at, "val/n01/f.png", &png(20, 20, png::ColorType::Rgb, &[1, 2, 3]));
    folder
}

fn none() -> Augmentation {
    Augmentation::none(3)
}

fn refused(folder: &TempDir) -> Error {
    image_folders(folder.path(), 8).unwrap_err()
}

#[test]
fn classes_are_numbered_by_name_and_images_of_all_sizes_come_out_in_one() {
    let folder = set();
    let Split { train, test } = image_folders(folder.path(), 8).unwrap();
    assert_eq!((train.shape().classes, train.len(), test.len()), (2, 4, 2));
    let labels: Vec<u32> = (0..4).map(|index| train.label(index)).collect();
    assert_eq!(labels, [0, 0, 1, 1]);
    // In the order of names: grey of one pixel, green, slopes, red.
    let image = |index| train.evaluation(index, &none()).unwrap();
    assert_eq!(image(0).len(), 3 * 8 * 8);
    assert!(image(0).iter().all(|pixel| (pixel - 0.2).abs() < 1e-6));
    let means = |image: Vec<f32>| -> Vec<f32> {
        image.chunks(64).map(|plane| plane.iter().sum::<f32>() / 64.0).collect()
    };
    for (found, expected) in [(means(image(1)), [0.0, 1.0, 0.0]), (means(image(3)), [1.0, 0.0, 0.2])] {
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{found:?}");
    }
}

/// The middle of the picture is at column 12 and row 8; decoders may differ by three parts of 255.
#[test]
fn a_jpeg_has_the_pixels_that_were_written_into_it() {
    let folder = set();
    let test = image_folders(folder.path(), 16).unwrap().test;
    let slopes = test.evaluation(1, &none()).unwrap();
    let step = 16.0 * 0.875 / 16.0;
    for row in 1..15 {
        for column in 1..15 {
            let at = |middle: f32, place: usize| middle + (place as f32 - 7.5) * step - 0.5;
            let expected = [8.0 * at(12.0, column), 12.0 * at(8.0, row), 100.0];
            for (plane, expected) in slopes.chunks(256).zip(expected) {
                let found = plane[16 * row + column] * 255.0;
                assert!((found - expected).abs() < 3.0, "{row}, {column}: {found} against {expected}");
            }
        }
    }
}

#[test]
fn parts_are_drawn_anew_in_each_epoch_and_alike_on_any_number_of_threads() {
    let folder = set();
    let train = image_folders(folder.path(), 8).unwrap().train;
    let augmentation = Augmentation { crop: Crop::Resized(0.08), flip: true, ..none() };
    let seen = |workers: usize, epoch: u64| -> Vec<Vec<f32>> {
        let (train, augmentation): (ImageFiles, _) = (train.clone(), augmentation.clone());
        let image = move |index| train.training(index, &augmentation, 7, epoch).unwrap();
        Ahead::new(0..4, workers, image).collect()
    };
    assert_eq!(seen(1, 0), seen(3, 0));
    assert_ne!(seen(1, 0)[2], seen(1, 1)[2]);
    assert!(seen(1, 0).iter().all(|image| image.len() == 3 * 8 * 8));
}

#[test]
fn what_is_no_set_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(refused(&folder), Error::Unreadable { path, .. } if path.ends_with("train")));
    fs::create_dir_all(folder.path().join("train")).unwrap();
    assert!(matches!(refused(&folder), Error::NoClasses { path } if path.ends_with("train")));

    let folder = set();
    fs::create_dir_all(folder.path().join("train/n03")).unwrap();
    assert!(matches!(refused(&folder), Error::EmptyClass { path } if path.ends_with("train/n03")));
    put(folder.path(), "train/n03/notes.txt", b"no image");
    assert!(matches!(refused(&folder), Error::EmptyClass { .. }));

    let folder = set();
    put(folder.path(), "val/n09/a.jpg", SLOPES);
    assert!(matches!(refused(&folder), Error::StrangeClass { path, .. } if path.ends_with("val/n09")));
}

#[test]
fn truncated_and_corrupted_files_are_refused_by_name_and_never_panic() {
    let folder = set();
    let train = image_folders(folder.path(), 8).unwrap().train;
    for (index, name) in [(1, "d.png"), (2, "a.JPEG")] {
        let path = train.path(index).to_path_buf();
        let whole = fs::read(&path).unwrap();
        for length in [0, 3, 30, whole.len() / 2] {
            fs::write(&path, &whole[..length]).unwrap();
            let error = train.training(index, &none(), 1, 0).unwrap_err();
            assert!(
                matches!(&error, Error::Damaged { path, .. } if path.ends_with(name)),
                "{length}: {error}"
            );
        }
        for at in (0..whole.len()).step_by(3) {
            let mut flipped = whole.clone();
            flipped[at] ^= 0x5a;
            fs::write(&path, &flipped).unwrap();
            // An answer, whichever: a flipped pixel is still an image.
            let image = train.training(index, &none(), 1, 0);
            assert!(image.is_ok_and(|image| image.len() == 3 * 64) || fs::read(&path).unwrap() == flipped);
        }
        fs::write(&path, b"text under the name of an image").unwrap();
        assert!(matches!(train.evaluation(index, &none()), Err(Error::Damaged { .. })));
        fs::remove_file(&path).unwrap();
        assert!(matches!(train.evaluation(index, &none()), Err(Error::Unreadable { .. })));
    }
}
